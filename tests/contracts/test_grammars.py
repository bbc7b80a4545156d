"""The grammars of the contracts are those of the emulator's own parsers: both take, and refuse, the same values."""

from __future__ import annotations

from typing import Any

import pytest

from emulator.core.errors import InvalidInput
from emulator.wire import dialect, filters
from emulator.wire.messaging import options as message_options
from emulator.wire.messaging.options import RequestKind
from emulator.wire.parts import RequestParts, read_query
from tests.contracts.conformance import NotInContract, check_value
from tests.contracts.documents import Operation, operations
from tests.harness.emulators import in_process
from tests.harness.loops import on_loop

SVC = dialect.load("svc")
PUBLISH, SCHEDULE, EVENTS = (
    next(operation for operation in operations("messaging") if operation.id == name)
    for name in ("publishMessage", "createSchedule", "listEvents")
)

# Header -> values that are taken, and values that are refused.
HEADERS: dict[str, tuple[list[str], list[str]]] = {
    "Svc-Method": (["GET", "POST", "PUT", "PATCH", "DELETE"], ["HEAD", "FETCH", "P OST"]),
    "Svc-Timeout": (
        ["1s", "30m", "1h30m", "30m1h", "0h1s", "007s", "1d1h30m", "30", "1", "1.5s", "0.00001s"],
        ["0s", "0", "1w", "1s1s", "1,5s", "-1s", "s"],
    ),
    "Svc-Delay": (
        ["0s", "10s", "1d10h30m", "30m1h", "2h0s", "0.0s", "1.25h3s"],
        ["10", "1.s", ".5s", "1w", "1s2s", "1 s", "1h 2m", "+1s", "1ms", "1D"],
    ),
    "Svc-Not-Before": (["0", "1767225660", "253402300799"], ["-1", "1.5", "253402300800", "tomorrow"]),
    "Svc-Retries": (["0", "3", "0000000003", "9999999999"], ["-1", "1.0", "10000000000", "three", "1e1"]),
    "Svc-Retry-Delay": (
        ["0", "1000 * pow(2, retried)", "min(max(1, retried), 6e4)", "-(.5 + 1.) * -2e-3/3", "exp( sqrt(2) )"],
        ["2 ^ 3", "a; b", "50%", "[1]", "retried = 1"],
    ),
    "Svc-Header-Forward": (["true", "false", "True", "FALSE"], ["yes", "1", "true false"]),
    "Svc-Content-Based-Deduplication": (["true", "False"], ["no", "0"]),
    "Svc-Callback": (
        ["https://x.test", "HTTP://X.test:80/a?b=c", "http://[::1]:8080/", "https://localhost?x", "https://a_b.test/%20!'()"],
        ["x.test", "ftp://x.test", "https://", "https://x.test/#top", "https://u@x.test", "https://x.test/a b", "http:///a"],
    ),
    "Svc-Redact-Fields": (
        ["body", "headers", "header", "body, header[Authorization],headers[ X-Key ]"],
        ["Body", "header[]", "header[a b]", "body;headers", ",body", "url", "body,"],
    ),
    "Svc-Label": (["a", "a,b", "a b , c", "~!"], ["a,,b", ",a", "a,", "a" * 257]),
    "Svc-Deduplication-Id": (["order-1", "a b", "~"], ["a:b", ":", "a" * 257]),
    "Svc-Flow-Control-Key": (["user-1", "a/b c", "~"], ["a" * 257]),
    "Svc-Queue-Name": (["q", "a.b_c-d", "q" * 256], ["a b", "a/b", "q" * 257, "é"]),
    "Svc-Flow-Control-Value": (
        ["parallelism=1", "rate=10", "rate=3, period=1d , parallelism=2", "period=60,rate=1", "rate=01,period=1h30m3s"],
        ["period=1d", "rate=0", "rate=x", "rate=1 parallelism=2", "rate=1,rate=2", "burst=1", "rate=1,"],
    ),
}  # fmt: skip
NEEDED = {"Svc-Flow-Control-Value": {"svc-flow-control-key": "k"}}


def request(headers: dict[str, str] | None = None, query: str = "") -> RequestParts:
    return RequestParts(
        method="POST",
        path="/",
        raw_query=query,
        query=read_query(query.encode()),
        headers=tuple((headers or {}).items()),
        body=b"",
        client_ip="127.0.0.1",
    )


def schema_of(operation: Operation, name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(each["schema"] for each in operation.parameters if each["name"] == name)
    return found


def contract_takes(operation: Operation, name: str, text: str) -> bool:
    """Whether the contract takes a text: as it is, or as the number that it spells."""
    values: list[str | int] = [text]
    if text.isascii() and text.isdigit():
        values.append(int(text))
    for value in values:
        try:
            check_value(operation.api, schema_of(operation, name), value)
        except NotInContract:
            continue
        return True
    return False


def emulator_takes(name: str, text: str) -> bool:
    headers = {name.lower(): text, **NEEDED.get(name, {})}
    try:
        message_options.read_options(request(headers), SVC, kind=RequestKind.PUBLISH)
    except InvalidInput:
        return False
    return True


@pytest.mark.parametrize(
    ("name", "text", "is_taken"),
    [
        (name, text, is_taken)
        for name, both in HEADERS.items()
        for is_taken, texts in zip((True, False), both, strict=True)
        for text in texts
    ],
    ids=str,
)
def test_what_the_contract_takes_the_emulator_takes_and_nothing_else(name: str, text: str, is_taken: bool) -> None:
    assert (contract_takes(PUBLISH, name, text), emulator_takes(name, text)) == (is_taken, is_taken)


def test_every_configuration_header_has_its_grammar_tried() -> None:
    names = {each["name"] for each in PUBLISH.parameters if each["in"] == "header" and "x-wildcard" not in each}
    families = {name.replace("Failure-", "").replace("Callback-", "") for name in names} - {"Content-Type"}
    # A list of words, of which those that are not known say nothing.
    assert families - {"Svc-Feature-Set"} == HEADERS.keys() | {"Svc-Callback"}


@pytest.mark.parametrize("text", ["0s", "0d0h", "000m"])
def test_a_delayed_callback_is_outside_the_grammar(text: str) -> None:
    for name in ("Svc-Callback-Delay", "Svc-Failure-Callback-Delay"):
        assert contract_takes(PUBLISH, name, text)
        assert emulator_takes(name, text)
        assert not contract_takes(PUBLISH, name, text + "1s")


CRONS = [
    ("*/10 * * * *", True),
    (" 0 9 * * MON-FRI ", True),
    ("CRON_TZ=Europe/Berlin 0 9 1,15 jan ?", True),
    ("TZ=Etc/GMT+5 0-30/5 * * * 0", True),
    ("", False),
    ("* * * *", False),
    ("* * * * * *", False),
    ("@daily", False),
    ("CRON_TZ= * * * * *", False),
    ("*-5 * * * *", False),
    ("1, * * * *", False),
]


@pytest.mark.parametrize(("text", "is_taken"), CRONS)
def test_cron_expressions_have_the_same_grammar(text: str, is_taken: bool) -> None:
    assert contract_takes(SCHEDULE, "Svc-Cron", text) == is_taken
    try:
        message_options.read_cron(request({"svc-cron": text}), SVC)
    except InvalidInput:
        assert not is_taken
    else:
        assert is_taken


@pytest.mark.parametrize(
    ("name", "text", "is_taken"),
    [
        ("cursor", "1767225600000-12", True),
        ("cursor", "1767225600000", True),
        ("cursor", "12-", False),
        ("count", "1000", True),
        ("count", "1001", False),
        ("count", "0", False),
        ("order", "earliestFirst", True),
        ("order", "newest", False),
        ("fromDate", "1767225600000", True),
        ("fromDate", "2026-01-01", False),
    ],
)
def test_filters_have_the_same_grammar(name: str, text: str, is_taken: bool) -> None:
    assert contract_takes(EVENTS, name, text) == is_taken
    account = "99a4c327-31f0-490f-a594-043ade84085a"
    try:
        filters.read_event_query(request(query=f"{name}={text}"), SVC, account)  # type: ignore[arg-type]  # any id will do
    except InvalidInput:
        assert not is_taken
    else:
        assert is_taken


@pytest.mark.parametrize(
    ("destination", "is_taken"),
    [
        ("https://x.test/a", True),
        ("http://127.0.0.1:3000", True),
        ("my-group", True),
        ("x.test/a", False),
        ("https%3A%2F%2Fx.test", False),
        ("ftp://x.test", False),
    ],
)
@on_loop
async def test_destinations_have_the_same_grammar(destination: str, is_taken: bool) -> None:
    assert contract_takes(PUBLISH, "destination", destination) == is_taken
    async with in_process() as emulator:
        answer = await emulator.post(f"/v2/publish/{destination}")
        # A group that there is not is a good name all the same.
        assert (answer.status in (200, 404)) == is_taken
