"""Options of a message and of a run."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from emulator.core.errors import InvalidInput, InvalidRunMessage
from emulator.core.model.options import (
    CallbackOptions,
    CallType,
    FlowControl,
    MessageOptions,
    Method,
    Redaction,
    RunOptions,
)
from emulator.core.record import FlowKey, QueueName, RunId
from emulator.wire import dialect
from emulator.wire.messaging.options import (
    Note,
    RequestKind,
    read_cron,
    read_listed_options,
    read_options,
    read_schedule_id,
)
from emulator.wire.parts import RequestParts
from tests.wire.request_parts import refused, request

# -- configuration headers and their twins in the query --------------------------------------------


_SVC = dialect.load("svc")
_UPSTASH = dialect.load("upstash")


def _read(parts: RequestParts, *, kind: RequestKind = RequestKind.PUBLISH) -> MessageOptions:
    return read_options(parts, _SVC, kind=kind)


def _flow(key: str, *, parallelism: int | None = None, rate: int | None = None, period_ms: int = 1000) -> FlowControl:
    return FlowControl(key=FlowKey(key), parallelism=parallelism, rate=rate, period_ms=period_ms)


_VALUES = [
    ("Svc-Method", "PUT", MessageOptions(method=Method.PUT)),
    ("Svc-Method", "delete", MessageOptions(method=Method.DELETE)),
    ("Svc-Delay", "10s", MessageOptions(delay_ms=10_000)),
    ("Svc-Delay", "1d10h30m", MessageOptions(delay_ms=124_200_000)),
    ("Svc-Delay", "0s", MessageOptions(delay_ms=0)),
    ("Svc-Not-Before", "1767225600", MessageOptions(not_before_ms=1_767_225_600_000)),
    ("Svc-Not-Before", "0", MessageOptions(not_before_ms=0)),
    ("Svc-Timeout", "1h30m", MessageOptions(timeout_ms=5_400_000)),
    ("Svc-Timeout", "1d1h30m", MessageOptions(timeout_ms=91_800_000)),
    ("Svc-Timeout", "30", MessageOptions(timeout_ms=30_000)),
    ("Svc-Retries", "0", MessageOptions(max_retries=0)),
    ("Svc-Retries", "0000000007", MessageOptions(max_retries=7)),
    ("Svc-Retries", "9999999999", MessageOptions(max_retries=9_999_999_999)),
    ("Svc-Retry-Delay", "pow(retried, 2) * 1000", MessageOptions(retry_delay="pow(retried, 2) * 1000")),
    (
        "Svc-Callback",
        "https://cb.test/x?y=1",
        MessageOptions(callback=CallbackOptions(url="https://cb.test/x?y=1", options=MessageOptions())),
    ),
    (
        "Svc-Failure-Callback",
        "http://cb.test",
        MessageOptions(failure_callback=CallbackOptions(url="http://cb.test", options=MessageOptions())),
    ),
    ("Svc-Header-Forward", "True", MessageOptions(forward_incoming=True)),
    ("Svc-Header-Forward", "false", MessageOptions(forward_incoming=False)),
    ("Svc-Label", "a", MessageOptions(labels=("a",))),
    ("Svc-Label", "b b, a,b b", MessageOptions(labels=("b b", "a"))),
    ("Svc-Label", "x" * 256, MessageOptions(labels=("x" * 256,))),
    (
        "Svc-Redact-Fields",
        "body, header[Authorization]",
        MessageOptions(redaction=Redaction(body=True, all_headers=False, header_names=("authorization",))),
    ),
    ("Svc-Flow-Control-Key", "my key/1", MessageOptions(flow_control=_flow("my key/1"))),
    ("Svc-Queue-Name", "q-1_a.b", MessageOptions(queue=QueueName("q-1_a.b"))),
    ("Svc-Deduplication-Id", "abc/1", MessageOptions(deduplication_id="abc/1")),
    ("Svc-Content-Based-Deduplication", "True", MessageOptions(content_deduplication=True)),
    ("Svc-Content-Based-Deduplication", "FALSE", MessageOptions(content_deduplication=False)),
    ("Svc-Forward-x-request-ID", " a b ", MessageOptions(forwarded=(("X-Request-Id", " a b "),))),
]


def _encoded(text: str) -> str:
    return "".join(f"%{byte:02X}" for byte in text.encode())


@pytest.mark.parametrize(("name", "value", "expected"), _VALUES)
def test_header(name: str, value: str, expected: MessageOptions) -> None:
    """D-073. It may be a query parameter, stand in a JSON body, and be one of a callback's: Svc-Callback-X."""
    assert _read(request((name, value))) == expected
    assert _read(request((name.lower(), value))) == expected
    assert _read(request(query=f"own=1&{name.lower()}={_encoded(value)}")) == expected
    assert _read(request(query=f"{name.upper()}={_encoded(value)}")) == expected
    assert read_listed_options([(name, value)], _SVC, kind=RequestKind.BATCH_ITEM) == expected
    family = "Svc-Failure-Callback-" + name.removeprefix("Svc-")
    found = _read(request(("Svc-Failure-Callback", "https://f.test"), (family, value)))
    assert found.failure_callback == CallbackOptions(url="https://f.test", options=expected)


@pytest.mark.parametrize(("name", "value", "expected"), _VALUES)
def test_header_in_another_dialect(name: str, value: str, expected: MessageOptions) -> None:
    own_name = name.replace("Svc-", "Upstash-")
    found = read_options(request((own_name, value), ("Other-Delay", "3s")), _UPSTASH, kind=RequestKind.SCHEDULE)
    assert found == replace(expected, incoming=(("Other-Delay", "3s"),))
    assert read_listed_options([(own_name, value)], _UPSTASH, kind=RequestKind.BATCH_ITEM) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("parallelism=2", _flow("k", parallelism=2)),
        ("rate=3, period=1d", _flow("k", rate=3, period_ms=86_400_000)),
        ("period=1h30m3s,rate=1,parallelism=4", _flow("k", parallelism=4, rate=1, period_ms=5_403_000)),
    ],
)
def test_flow_control(value: str, expected: FlowControl) -> None:
    found = _read(request(("Svc-Flow-Control-Key", "k"), ("Svc-Flow-Control-Value", value)))
    assert found.flow_control == expected


def test_flow_control_value_needs_a_key() -> None:
    """D-083."""
    with pytest.raises(InvalidInput, match=r"^Svc-Flow-Control-Value: expected Svc-Flow-Control-Key beside it"):
        _read(request(("Svc-Flow-Control-Value", "rate=1")))


def test_typical_publish() -> None:
    found = _read(
        request(
            ("Host", "localhost:8080"),
            ("Authorization", "Bearer token"),
            ("Content-Type", "application/json"),
            ("Content-Length", "2"),
            ("User-Agent", "client/1"),
            ("Svc-Telemetry-Sdk", "py"),
            ("Svc-Telemetry-Sdk", "py"),
            ("Svc-Workflow-Unknown", "1"),
            ("Svc-Retries", "2"),
            ("Svc-Forward-Authorization", "Bearer own"),
            ("Svc-Forward-X-A", "1"),
            ("svc-forward-x-a", "2"),
            body=b"{}",
        )
    )
    assert found == MessageOptions(
        content_type="application/json",
        forwarded=(("Authorization", "Bearer own"), ("X-A", "1"), ("X-A", "2")),
        incoming=(("User-Agent", "client/1"),),
        max_retries=2,
    )


_CONNECTION = [
    "Host",
    "Connection",
    "Content-Length",
    "Transfer-Encoding",
    "TE",
    "Expect",
    "Upgrade",
    "Trailer",
    "Keep-Alive",
    "Proxy-Authorization",
    "Proxy-Connection",
]


def test_incoming_headers_leave_out_those_of_the_connection() -> None:
    """D-075."""
    found = _read(request(*((name, "x") for name in _CONNECTION), ("X-Signature", "1"), ("x-signature", "2")))
    assert found.incoming == (("X-Signature", "1"), ("X-Signature", "2"))


def test_authorization_is_incoming_only_if_the_token_is_in_the_query() -> None:
    """D-079: then the header is the webhook sender's own."""
    header = ("Authorization", "Bearer x")
    assert _read(request(header)).incoming == ()
    assert _read(request(header, query="queue_token=t")).incoming == (("Authorization", "Bearer x"),)
    listed = read_listed_options([header], _SVC, kind=RequestKind.BATCH_ITEM)
    assert listed.incoming == (("Authorization", "Bearer x"),)


def test_callbacks_are_read_level_by_level() -> None:
    found = _read(
        request(
            ("Svc-Retries", "1"),
            ("Svc-Callback", "https://a.test"),
            ("Svc-Callback-Retries", "2"),
            ("Svc-Callback-Forward-X", "1"),
            ("Svc-Callback-Delay", "5s"),
            ("Svc-Callback-Not-Before", "7"),
            ("Svc-Callback-Flow-Control-Key", "k"),
            ("Svc-Callback-Failure-Callback", "https://b.test"),
            ("Svc-Callback-Failure-Callback-Method", "GET"),
            ("Svc-Callback-Failure-Callback-Forward-Y", "2"),
            ("Svc-Callback-Workflow-Unknown", "w"),
        )
    )
    inner = CallbackOptions(url="https://b.test", options=MessageOptions(method=Method.GET, forwarded=(("Y", "2"),)))
    outer = CallbackOptions(
        url="https://a.test",
        options=MessageOptions(
            max_retries=2,
            forwarded=(("X", "1"),),
            delay_ms=5000,
            not_before_ms=7000,
            flow_control=_flow("k"),
            failure_callback=inner,
        ),
    )
    assert found == MessageOptions(max_retries=1, callback=outer)


def test_family_of_a_callback_without_a_url_is_kept_for_one_that_stands_elsewhere() -> None:
    """D-020."""
    parts = request(("Svc-Callback-Retries", "2"), ("Svc-Callback-Forward-X", "1"), ("Svc-Failure-Callback", ""))
    settings = MessageOptions(max_retries=2, forwarded=(("X", "1"),))
    assert _read(parts) == MessageOptions(callback_settings=settings)
    parts = request(("Svc-Failure-Callback-Forward-X", "1"))
    assert _read(parts) == MessageOptions(failure_callback_settings=MessageOptions(forwarded=(("X", "1"),)))


@pytest.mark.parametrize("family", ["Svc-Callback", "Svc-Failure-Callback"])
@pytest.mark.parametrize(
    ("suffix", "value"), [("Delay", "1s"), ("Not-Before", "9"), ("Retries", "x"), ("Timeout", "1x")]
)
def test_family_of_a_callback_without_a_url_is_checked_all_the_same(family: str, suffix: str, value: str) -> None:
    """D-007, D-074."""
    with refused(f"{family}-{suffix}"):
        _read(request((f"{family}-{suffix}", value)))


@pytest.mark.parametrize(
    "name",
    [
        "Svc-Callback-Callback-Callback",
        "Svc-Callback-Failure-Callback-Callback",
        "Svc-Callback-Callback-Callback-Retries",
        "Svc-Failure-Callback-Failure-Callback-Failure-Callback-Forward-X",
        "Svc-" + "Callback-" * 5000,
    ],
)
def test_callbacks_nest_two_deep(name: str) -> None:
    """D-074."""
    with refused(name):
        _read(request((name, "https://a.test")))


_WRONG_VALUES: dict[str, tuple[str, ...]] = {
    "Svc-Method": ("HEAD", "GET POST"),
    "Svc-Delay": ("5x", "10", "-5s", "999999999999999d", "9" * 5000 + "s", "٣s"),
    "Svc-Not-Before": ("-1", "1.5", "tomorrow", "1767225600000", "9" * 5000),
    "Svc-Timeout": ("0s", "0", "1w", "-1s", "5x"),
    "Svc-Retries": ("-1", "3.0", "three", "+3", "10000000000", "²", "1_0", "0x1"),
    "Svc-Retry-Delay": ("tries * 1000", "1000 / 0", "(" * 100_000),
    "Svc-Callback": ("cb.test/x", "my-group", "https://cb.test/" + "a" * 10_240),
    "Svc-Failure-Callback": ("ftp://cb.test", "https://cb.test/é"),
    "Svc-Header-Forward": ("yes", "1"),
    "Svc-Label": ("a,,b", "x" * 257, "étiquette", "a\x01b", ","),
    "Svc-Redact-Fields": ("query", "header[]"),
    "Svc-Flow-Control-Key": ("k" * 257, "a\tb"),
    "Svc-Queue-Name": ("a b", "q" * 257),
    "Svc-Deduplication-Id": ("a:b", "x" * 257),
    "Svc-Content-Based-Deduplication": ("maybe",),
    "Svc-Cron": ("* * * * *",),
    "Svc-Forward-": ("x",),
}

_WRONG = [(name, value) for name, values in _WRONG_VALUES.items() for value in values]


@pytest.mark.parametrize(("name", "value"), _WRONG)
def test_wrong_value_names_the_header(name: str, value: str) -> None:
    """By the name that the client gave it: a header's, a parameter's, a callback's."""
    with pytest.raises(InvalidInput) as caught:
        _read(request((name, value)))
    assert caught.value.field == name
    assert len(caught.value.text) < 400
    with refused(name.replace("Svc-", "Upstash-")):
        read_options(request((name.replace("Svc-", "upstash-"), value)), _UPSTASH, kind=RequestKind.PUBLISH)
    with refused(name.lower()):
        _read(request(query=f"{name}={_encoded(value)}"))
    family = "Svc-Callback-" + name.removeprefix("Svc-")
    with refused(family):
        _read(request(("Svc-Callback", "https://a.test"), (family, value)))


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("Svc-Retries", "x", "expected a number of at most 10 digits, 0 or more, got 'x'"),
        ("Svc-Timeout", "0s", "expected a positive duration, got '0s'"),
        ("Svc-Workflow-CallType", "x", "expected one of step, toCallback, fromCallback, failureCall, got 'x'"),
        ("Svc-Header-Forward", "yes", "expected true or false, got 'yes'"),
        ("Svc-Forward-", "x", "expected the name of a header after the prefix"),
        ("Svc-Cron", "* * * * *", "expected only when a schedule is created"),
    ],
)
def test_wrong_value_says_what_is_expected(name: str, value: str, reason: str) -> None:
    with pytest.raises(InvalidInput) as refusal:
        _read(request(("Svc-Workflow-RunId", "wfr_1"), (name, value)))
    assert refusal.value.reason == reason


def test_deduplication_id_with_a_colon_has_the_services_own_words() -> None:
    with pytest.raises(InvalidInput, match="DeduplicationId cannot contain ':'"):
        _read(request(("Svc-Deduplication-Id", "a:b")))


@pytest.mark.parametrize("value", ["a\r\nX: y", "a\nb", "a\0b"])
@pytest.mark.parametrize("name", ["Svc-Forward-X", "X-Own"])
def test_header_value_of_several_lines_is_refused(name: str, value: str) -> None:
    with refused(name):
        read_listed_options([(name, value)], _SVC, kind=RequestKind.BATCH_ITEM)


@pytest.mark.parametrize("name", ["", "a b", "a:b", "é", "x\n"])
def test_header_name_that_http_does_not_know_is_refused(name: str) -> None:
    with pytest.raises(InvalidInput):
        read_listed_options([(name, "1")], _SVC, kind=RequestKind.BATCH_ITEM)
    with pytest.raises(InvalidInput):
        read_listed_options([("Svc-Forward-" + name, "1")], _SVC, kind=RequestKind.BATCH_ITEM)


def test_content_type_is_one_line_of_ascii() -> None:
    for value in ("text/plain\r\nX: y", "text/é"):
        with refused("Content-Type"):
            read_listed_options([("Content-Type", value)], _SVC, kind=RequestKind.BATCH_ITEM)


@pytest.mark.parametrize("name", sorted({name for name, _ in _WRONG if not name.startswith("Svc-Forward-")}))
def test_empty_value_is_absent(name: str) -> None:
    """D-072: some clients always send every header, even empty."""
    assert _read(request((name, ""), query=f"{name.lower()}=%20")) == MessageOptions()
    assert _read(request((name, ""), query="svc-timeout=1s&svc-timeout=")).timeout_ms == 1000


@pytest.mark.parametrize(
    ("headers", "query", "field"),
    [
        ([("Svc-Delay", "1s"), ("svc-delay", "1s")], "", "Svc-Delay"),
        ([("Svc-Delay", "1s")], "svc-delay=1s", "svc-delay"),
        ([], "svc-delay=1s&SVC-DELAY=1s", "svc-delay"),
        ([("Svc-Label", "a"), ("Svc-Label", "b")], "", "Svc-Label"),
        ([("Svc-Callback-Retries", "1"), ("Svc-Callback-Retries", "1")], "", "Svc-Callback-Retries"),
        ([("Content-Type", "a/b"), ("Content-Type", "a/b")], "", "Content-Type"),
    ],
)
def test_option_given_twice_is_refused(headers: Sequence[tuple[str, str]], query: str, field: str) -> None:
    """D-072."""
    with refused(field):
        _read(request(*headers, query=query))


def test_forwarded_header_may_be_repeated_empty_and_beyond_ascii() -> None:
    found = _read(request(("Svc-Forward-A", ""), ("Svc-Forward-A", ""), query="svc-forward-a=%C3%A9"))
    assert found.forwarded == (("A", ""), ("A", ""), ("A", "é"))


def test_forwarded_header_may_have_the_services_prefix() -> None:
    """Workflow clients do so; what the service itself sends wins at delivery (D-075)."""
    found = _read(request(("Svc-Forward-Svc-Workflow-Sdk-Version", "1")))
    assert found.forwarded == (("Svc-Workflow-Sdk-Version", "1"),)


def test_retry_of_a_dead_letter_has_no_content_type() -> None:
    parts = request(("Content-Type", "application/json"), ("Svc-Retries", "1"))
    assert _read(parts, kind=RequestKind.DEAD_LETTER_RETRY) == MessageOptions(max_retries=1)


@pytest.mark.parametrize("kind", [kind for kind in RequestKind if kind is not RequestKind.SCHEDULE])
def test_a_cron_expression_is_for_schedules_only(kind: RequestKind) -> None:
    """D-074."""
    with refused("Svc-Cron"):
        _read(request(("Svc-Cron", "* * * * *")), kind=kind)


_SCHEDULE_IDS = [
    ("Svc-Schedule-Id", "a", "Svc-Schedule-Id"),
    ("svc-schedule-id", "not!an id", "Svc-Schedule-Id"),
    ("Svc-Callback-Schedule-Id", "a", "Svc-Callback-Schedule-Id"),
    ("Svc-Failure-Callback-Callback-Schedule-Id", "a", "Svc-Failure-Callback-Callback-Schedule-Id"),
]


@pytest.mark.parametrize("kind", [kind for kind in RequestKind if kind is not RequestKind.SCHEDULE])
@pytest.mark.parametrize(("name", "value", "told"), _SCHEDULE_IDS)
def test_an_id_for_a_schedule_is_ignored_and_told_where_none_is_made(
    name: str, value: str, told: str, kind: RequestKind
) -> None:
    """D-074."""
    notes: list[Note] = []
    plain = read_options(request(("Svc-Retries", "1")), _SVC, kind=kind)
    with_id = request((name, value), ("Svc-Retries", "1"))
    assert read_options(with_id, _SVC, kind=kind, log_note=notes.append) == plain
    in_query = request(("Svc-Retries", "1"), query=f"{name}={value}".replace(" ", "+"))
    assert read_options(in_query, _SVC, kind=kind, log_note=notes.append) == plain
    assert notes == [Note(ignored=(told,), dropped=()), Note(ignored=(told.lower(),), dropped=())]


def test_a_schedules_own_id_is_no_ignored_option_but_that_of_its_callback_is() -> None:
    notes: list[Note] = []
    given = (("Svc-Schedule-Id", "mine"), ("Svc-Callback", "https://a.test"), ("Svc-Callback-Schedule-Id", "x"))
    read_options(request(*given), _SVC, kind=RequestKind.SCHEDULE, log_note=notes.append)
    assert notes == [Note(ignored=("Svc-Callback-Schedule-Id",), dropped=())]


@pytest.mark.parametrize("kind", RequestKind)
@pytest.mark.parametrize("family", ["", "Callback-", "Failure-Callback-", "Callback-Failure-Callback-"])
def test_headers_of_the_connection_are_dropped_from_those_to_forward(family: str, kind: RequestKind) -> None:
    """D-075."""
    notes: list[Note] = []
    callbacks = [("Svc-Callback", "https://a.test"), ("Svc-Failure-Callback", "https://a.test")]
    callbacks.append(("Svc-Callback-Failure-Callback", "https://a.test"))
    kept = (f"Svc-{family}Forward-X-Hosts", "1")
    plain = read_listed_options([*callbacks, kept], _SVC, kind=kind)
    names = [f"Svc-{family}Forward-{name}" for name in _CONNECTION]
    pairs = [*callbacks, *((name, "x\r\ny") for name in names), kept]
    assert read_listed_options(pairs, _SVC, kind=kind, log_note=notes.append) == plain
    [told] = notes
    assert [name.lower() for name in told.dropped] == [name.lower() for name in names]
    query = "&".join(f"{name}=x" for name in names)
    found = read_options(request(*callbacks, kept, query=query), _SVC, kind=kind, log_note=notes.append)
    assert found == plain
    assert notes[1].dropped == tuple(name.lower() for name in names)


def test_nothing_given_in_vain_is_nothing_to_tell() -> None:
    notes: list[Note] = []
    read_options(request(("Svc-Retries", "1"), ("Host", "x")), _SVC, kind=RequestKind.PUBLISH, log_note=notes.append)
    assert notes == []


# --- schedules ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("*/10 * * * * ", "*/10 * * * *"),
        ("CRON_TZ=Europe/Berlin 0 9 * * MON-FRI", "CRON_TZ=Europe/Berlin 0 9 * * MON-FRI"),
        ("*/5\t* * * *", "*/5\t* * * *"),
    ],
)
def test_cron_is_trimmed_and_checked(value: str, expected: str) -> None:
    parts = request(("Svc-Cron", value), ("Svc-Delay", "5s"), query="svc-schedule-id=my-id_1.x")
    assert read_cron(parts, _SVC) == expected
    assert read_schedule_id(parts, _SVC) == "my-id_1.x"
    assert read_cron(request(query=f"svc-cron={value.replace(' ', '+')}"), _SVC) == expected
    assert _read(parts, kind=RequestKind.SCHEDULE) == MessageOptions(delay_ms=5000)


@pytest.mark.parametrize(
    "value",
    [
        pytest.param("", id="empty"),
        pytest.param("0 * * * * *", id="six-fields"),
        pytest.param("é * * * *", id="non-ascii"),
    ],
)
def test_wrong_cron_names_its_header(value: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        read_cron(request(("Svc-Cron", value)), _SVC)
    assert caught.value.field == "Svc-Cron"
    assert len(caught.value.text) < 400


def test_missing_cron_has_the_services_own_words() -> None:
    with pytest.raises(InvalidInput, match=r"^Upstash-Cron: Invalid cron expression empty spec string"):
        read_cron(request(), _UPSTASH)


@pytest.mark.parametrize("value", ["a b", "a/b", "é", "a:b", "x" * 257])
def test_wrong_schedule_id_names_its_header(value: str) -> None:
    with refused("Svc-Schedule-Id"):
        read_schedule_id(request(("Svc-Schedule-Id", value)), _SVC)
    assert read_schedule_id(request(("Svc-Schedule-Id", "")), _SVC) is None


# -- the headers that make a message part of a workflow run ----------------------------------------


def read(*headers: tuple[str, str], query: str = "") -> RunOptions | None:
    return _read(request(*headers, query=query)).workflow


def test_all_headers_of_a_message_of_a_run() -> None:
    found = read(
        ("SVC-WORKFLOW-RUNID", "wfr_1"),
        ("Svc-Workflow-Init", "True"),
        ("Svc-Workflow-Url", "https://app.test/flow"),
        ("Svc-Workflow-CallType", "TOCALLBACK"),
        ("Svc-Workflow-Invoke", "true"),
        ("Svc-Workflow-Trigger-By-Sdk", "true"),
        ("Svc-Feature-Set", "LazyFetch, InitialBody,,WF_NoDelete"),
        ("Svc-Workflow-Whatever", "x"),
    )
    assert found == RunOptions(
        run_id=RunId("wfr_1"),
        is_init=True,
        url="https://app.test/flow",
        call_type=CallType.TO_CALLBACK,
        invokes=True,
        by_sdk=True,
        features=("LazyFetch", "InitialBody", "WF_NoDelete"),
    )


def test_an_id_alone_is_a_step_and_without_one_all_others_say_nothing() -> None:
    assert read(("Svc-Workflow-Init", "true"), ("Svc-Feature-Set", "LazyFetch"), ("Svc-Workflow-CallType", "?")) is None
    assert read(("Svc-Workflow-RunId", "any id")) == RunOptions(run_id=RunId("any id"))
    assert read(query="svc-workflow-runid=wfr_1") == RunOptions(run_id=RunId("wfr_1"))


def test_callbacks_have_their_own_level_by_level() -> None:
    options = _read(
        request(
            ("Svc-Callback", "https://app.test/flow"),
            ("Svc-Callback-Workflow-RunId", "wfr_1"),
            ("Svc-Callback-Workflow-CallType", "fromCallback"),
            ("Svc-Callback-Failure-Callback", "https://app.test/fail"),
            ("Svc-Callback-Failure-Callback-Workflow-Runid", "wfr_1"),
            ("Svc-Callback-Failure-Callback-Workflow-Calltype", "failureCall"),
        )
    )
    assert options.workflow is None
    assert options.callback is not None
    assert options.callback.options.workflow == RunOptions(run_id=RunId("wfr_1"), call_type=CallType.FROM_CALLBACK)
    failure = options.callback.options.failure_callback
    assert failure is not None
    assert failure.options.workflow == RunOptions(run_id=RunId("wfr_1"), call_type=CallType.FAILURE_CALL)


@pytest.mark.parametrize(
    ("headers", "kind"),
    [
        ((("Svc-Retries", "x"),), InvalidInput),
        ((("Svc-Workflow-RunId", "wfr_1"), ("Svc-Retries", "x")), InvalidRunMessage),
        ((("Svc-Retries", "x"), ("Svc-Workflow-RunId", "wfr_1")), InvalidRunMessage),
    ],
)
def test_what_is_wrong_with_a_message_of_a_run_is_told_otherwise(
    headers: tuple[tuple[str, str], ...], kind: type[InvalidInput]
) -> None:
    """D-364."""
    with pytest.raises(InvalidInput) as refused:
        read(*headers)
    assert type(refused.value) is kind
    assert refused.value.field == "Svc-Retries"
