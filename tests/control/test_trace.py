"""The canonical trace: what its lines hold, and that nothing of this machine or this run is among it."""

from __future__ import annotations

import json
from base64 import b64encode
from hashlib import sha256
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from emulator.control import trace
from emulator.core.model.messages import AttemptOutcome, EventState, Message, Response, Via
from emulator.core.model.options import CallbackOptions, FlowControl, MessageOptions, Method, Redaction
from emulator.core.record import AccountId, FlowKey, GroupName, Headers, MessageId, QueueName, ScheduleId
from emulator.queries.history import Event, RecordedDelivery
from tests.harness.emulators import InProcess, with_emulator
from tests.harness.simulations import changed, make_message

EMPTY = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
# Digests of `hello`, of `s3cret`, and of the marker text that stands for `s3cret`.
HELLO = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"
SECRET_MARKER = "REDACTED:1ec1c26b50d5d3c58d9583181af8076655fe00756bf7285940ba3670f99fcba0"

MESSAGE = make_message(
    message_id=MessageId("msg_1"),
    number=1,
    account_id=AccountId("account-of-this-world"),
    created_ms=1000,
    not_before_ms=1000,
    url="http://127.0.0.1:54321/hook",
    method=Method.POST,
    headers=(("content-type", "text/plain"), ("X-Test", "a")),
    body=b"hello",
    max_retries=3,
    retry_delay=None,
    timeout_ms=30_000,
    callback=None,
    failure_callback=None,
    caller_ip="172.17.0.1",
)
CREATED = Event(
    seq=17, at_ms=1000, state=EventState.CREATED, message=MESSAGE, error=None, response=None, next_delivery_ms=None
)
DELIVERY = RecordedDelivery(
    seq=18,
    at_ms=1000,
    finished_ms=1500,
    message=MESSAGE,
    attempt=2,
    outcome=AttemptOutcome(
        response=Response(
            status=503,
            headers=(("Date", "Sat, 21 Nov 2026 06:00:00 GMT"), ("Server", "x"), ("retry-after", "10")),
            body=b"hello",
        ),
        error=None,
        via=Via.NETWORK,
        request_headers=(
            ("Host", "127.0.0.1:54321"),
            ("content-type", "text/plain"),
            ("X-Test", "a"),
            ("User-Agent", "Svc"),
            ("Svc-Message-Id", "msg_1"),
            ("Svc-Signature", "eyJhbGciOiJIUzI1NiJ9.eyJpc3MiOiJTdmMifQ.c2ln"),
        ),
    ),
)


def read(line: str) -> Any:
    return json.loads(line)


def answered(*, body: bytes = b"", headers: Headers = (), message: Message = MESSAGE) -> RecordedDelivery:
    response = Response(status=200, headers=headers, body=body)
    return replace(DELIVERY, message=message, outcome=replace(DELIVERY.outcome, response=response))


# -- lines ------------------------------------------------------------------------------------


def test_created_line_tells_what_was_asked() -> None:
    assert trace.event_line(CREATED) == (
        '{"at_ms":1000,"body_sha256":"' + HELLO + '",'
        '"headers":{"Content-Type":["text/plain"],"X-Test":["a"]},'
        '"kind":"event","max_retries":3,"message":"msg_1","method":"POST","not_before_ms":1000,'
        '"state":"CREATED","timeout_ms":30000,"url":"http://127.0.0.1:*/hook"}'
    )


def test_created_line_of_a_message_with_everything() -> None:
    message = changed(
        MESSAGE,
        retry_delay="1000",
        callback=CallbackOptions(
            url="http://localhost:8080/cb?queue_token=secret&x=1",
            options=MessageOptions(forwarded=(("x-done", "yes"), ("authorization", "Bearer t"))),
        ),
        url_group=GroupName("receivers"),
        endpoint_name="http://localhost:9",
        queue=QueueName("orders"),
        schedule_id=ScheduleId("scd_1"),
        labels=("é",),
        flow_control=FlowControl(key=FlowKey("k"), parallelism=2, rate=None, period_ms=1000),
        source_message_id=MessageId("msg_0"),
    )
    assert read(trace.event_line(replace(CREATED, message=message))) == {
        "kind": "event",
        "at_ms": 1000,
        "state": "CREATED",
        "message": "msg_1",
        "url": "http://127.0.0.1:*/hook",
        "method": "POST",
        "headers": {"Content-Type": ["text/plain"], "X-Test": ["a"]},
        "body_sha256": HELLO,
        "not_before_ms": 1000,
        "max_retries": 3,
        "retry_delay": "1000",
        "timeout_ms": 30_000,
        "callback": {
            "url": "http://localhost:*/cb?queue_token=*&x=1",
            "headers": {"X-Done": ["yes"], "Authorization": ["*"]},
        },
        "topic": "receivers",
        "endpoint": "http://localhost:*",
        "queue": "orders",
        "schedule": "scd_1",
        "labels": ["é"],
        "flow_control": {"key": "k", "parallelism": 2, "period_ms": 1000},
        "source": "msg_0",
    }


def test_later_events_hold_what_has_changed() -> None:
    retry = replace(CREATED, at_ms=2000, state=EventState.RETRY, next_delivery_ms=14_000)
    assert trace.event_line(retry) == (
        '{"at_ms":2000,"kind":"event","message":"msg_1","next_delivery_ms":14000,'
        '"state":"RETRY","url":"http://127.0.0.1:*/hook"}'
    )
    failed = replace(
        CREATED,
        state=EventState.FAILED,
        error="connection refused by 127.0.0.1:54321",
        response=Response(status=500, headers=(("Date", "today"), ("content-type", "text/html")), body=b""),
    )
    line = read(trace.event_line(failed))
    assert line["error"] == "connection refused by 127.0.0.1:*"
    assert line["response"] == {"status": 500, "headers": {"Content-Type": ["text/html"]}, "body_sha256": EMPTY}


def test_attempt_line_holds_what_the_publisher_caused_and_what_decides() -> None:
    assert trace.attempt_line(DELIVERY) == (
        '{"at_ms":1000,"attempt":2,"body_sha256":"' + HELLO + '","finished_ms":1500,'
        '"headers":{"Content-Type":["text/plain"],"X-Test":["a"]},"kind":"attempt","message":"msg_1",'
        '"method":"POST","response":{"body_sha256":"' + HELLO + '","headers":{"Retry-After":["10"]},"status":503},'
        '"retried":1,"url":"http://127.0.0.1:*/hook","via":"network"}'
    )


def test_attempt_without_response_has_its_error() -> None:
    outcome = AttemptOutcome(response=None, error="refused", via=Via.RULE)
    message = changed(MESSAGE, url_group=GroupName("g"), schedule_id=ScheduleId("s"))
    line = read(trace.attempt_line(replace(DELIVERY, message=message, outcome=outcome)))
    assert "response" not in line
    assert [line[key] for key in ("error", "via", "topic", "schedule", "headers")] == ["refused", "rule", "g", "s", {}]


@with_emulator()
async def test_the_last_line_is_the_digest_of_those_before_it(emulator: InProcess) -> None:
    await emulator.publish("https://a.test/")
    *lines, last = (await emulator.control("GET", "/trace")).body.splitlines(keepends=True)
    assert (len(lines), last) == (4, b'{"sha256":"%b"}\n' % sha256(b"".join(lines)).hexdigest().encode())


# -- what is left out -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        pytest.param("http://127.0.0.1:5000/a", "http://127.0.0.1:*/a", id="loopback"),
        pytest.param("http://127.8.9.10:5000", "http://127.8.9.10:*", id="another-loopback"),
        pytest.param("http://LOCALHOST:5000/", "http://LOCALHOST:*/", id="name-in-any-case"),
        pytest.param("http://app.localhost:5000/", "http://app.localhost:*/", id="below-localhost"),
        pytest.param("http://localhost.:5000/", "http://localhost.:*/", id="dot-at-the-end"),
        pytest.param("http://[::1]:5000/", "http://[::1]:*/", id="ipv6"),
        pytest.param("http://0.0.0.0:5000/", "http://0.0.0.0:*/", id="any-address"),
        pytest.param("http://u:p@localhost:5000/", "http://u:p@localhost:*/", id="credentials"),
        pytest.param("localhost:1 localhost:2", "localhost:* localhost:*", id="twice"),
        pytest.param(
            "https://a.example.com?u=http%3A%2F%2Flocalhost%3A5000%2Fx",
            "https://a.example.com?u=http%3A%2F%2Flocalhost%3A*%2Fx",
            id="encoded-name",
        ),
        pytest.param("http%3A%2F%2F127.0.0.1%3A5000", "http%3A%2F%2F127.0.0.1%3A*", id="encoded-address"),
        pytest.param("https://example.com:8443/", "https://example.com:8443/", id="another-host"),
        pytest.param("http://notlocalhost:5000/", "http://notlocalhost:5000/", id="longer-name"),
        pytest.param("http://1.127.0.0.1:5000", "http://1.127.0.0.1:5000", id="longer-address"),
        pytest.param("http://127.0.0.1/a:5000", "http://127.0.0.1/a:5000", id="no-port"),
        pytest.param("localhost:123456", "localhost:123456", id="no-port-number"),
        pytest.param("https://a.example.com/?qstash_token=abc", "https://a.example.com/?qstash_token=*", id="token"),
        pytest.param("https://a.example.com/?a=1&TOKEN=abc#f", "https://a.example.com/?a=1&TOKEN=*#f", id="any-token"),
        pytest.param("sig eyJhbGciOiJI.eyJpc3MiOi.c2ln-_ end", "sig * end", id="signature"),
    ],
)
def test_ports_tokens_and_signatures_are_masked_everywhere(text: str, masked: str) -> None:
    """D-129."""
    message = changed(MESSAGE, url=text, endpoint_name=text, labels=(text,), headers=(("X-Url", text),))
    line = read(trace.event_line(replace(CREATED, message=message, error=text)))
    assert [line["url"], line["endpoint"], line["labels"], line["error"]] == [masked, masked, [masked], masked]
    assert line["headers"] == {"X-Url": [masked]}
    body = read(trace.attempt_line(answered(body=b"<" + text.encode() + b">")))["response"]["body_sha256"]
    assert body == sha256(b"<" + masked.encode() + b">").hexdigest()


def test_names_of_headers_are_masked_too() -> None:
    message = changed(MESSAGE, headers=(("localhost:5000", "a"),))
    assert read(trace.event_line(replace(CREATED, message=message)))["headers"] == {"localhost:*": ["a"]}


@pytest.mark.parametrize(
    "name",
    ["user-agent", "Host", "Content-Length", "Accept-Encoding", "traceparent", "Date", "Via", "X-Forwarded-For"],
)
def test_headers_that_software_adds_are_left_out(name: str) -> None:
    """With all incoming headers forwarded, those of the publisher's HTTP client are among them."""
    given = ((name, "1"), ("X-Kept", "2"))
    outcome = replace(DELIVERY.outcome, request_headers=given)
    delivery = replace(DELIVERY, message=changed(MESSAGE, headers=given), outcome=outcome)
    assert read(trace.attempt_line(delivery))["headers"] == {"X-Kept": ["2"]}


@pytest.mark.parametrize("name", ["authorization", "Cookie", "Svc-Signature"])
def test_secret_headers_are_told_of_without_their_value(name: str) -> None:
    message = changed(MESSAGE, headers=((name, "s3cret"),))
    assert list(read(trace.event_line(replace(CREATED, message=message)))["headers"].values()) == [["*"]]


@pytest.mark.parametrize("what", ["seq", "account", "caller"])
def test_what_differs_between_worlds_and_machines_is_left_out(what: str) -> None:
    others = {
        "seq": replace(CREATED, seq=99),
        "account": replace(CREATED, message=changed(MESSAGE, account_id=AccountId("other"))),
        "caller": replace(CREATED, message=changed(MESSAGE, caller_ip="::1")),
    }
    assert trace.event_line(others[what]) == trace.event_line(CREATED)


def test_line_is_ascii_even_with_half_a_surrogate_pair() -> None:
    message = changed(MESSAGE, endpoint_name="é\ud800", headers=(("X-A", "\ud800"),))
    hidden = changed(message, redaction=Redaction(body=True, all_headers=True, header_names=()))
    assert trace.event_line(replace(CREATED, message=message)).isascii()
    assert trace.event_line(replace(CREATED, message=hidden)).isascii()


# -- redaction --------------------------------------------------------------------------------


def test_redacted_parts_are_digests_of_what_the_api_shows() -> None:
    message = changed(
        MESSAGE,
        headers=(("X-Key", "s3cret"), ("X-Open", "open")),
        body=b"s3cret",
        redaction=Redaction(body=True, all_headers=False, header_names=("x-key",)),
    )
    outcome = replace(DELIVERY.outcome, request_headers=message.headers)
    for line in (
        read(trace.event_line(replace(CREATED, message=message))),
        read(trace.attempt_line(replace(DELIVERY, message=message, outcome=outcome))),
    ):
        assert line["headers"] == {"X-Key": [SECRET_MARKER], "X-Open": ["open"]}
        assert line["body_sha256"] == sha256(SECRET_MARKER.encode()).hexdigest()


def test_answer_to_a_redacted_message_is_hidden_with_the_headers_of_its_names() -> None:
    """D-776."""
    response = Response(status=503, headers=(("Retry-After", "s3cret"), ("Content-Type", "text/x")), body=b"s3cret")
    message = changed(MESSAGE, redaction=Redaction(body=False, all_headers=False, header_names=("retry-after",)))
    delivery = replace(DELIVERY, message=message, outcome=replace(DELIVERY.outcome, response=response))
    answer = read(trace.attempt_line(delivery))["response"]
    assert answer["headers"] == {"Content-Type": ["text/x"], "Retry-After": [SECRET_MARKER]}
    assert answer["body_sha256"] == sha256(SECRET_MARKER.encode()).hexdigest()


def test_redacted_body_with_a_port_is_the_same_on_any_port() -> None:
    hidden = changed(MESSAGE, redaction=Redaction(body=True, all_headers=True, header_names=()))
    one = replace(hidden, body=b"http://[::1]:1", headers=(("A", "localhost:1"),))
    two = replace(hidden, body=b"http://[::1]:22", headers=(("A", "localhost:22"),))
    assert trace.event_line(replace(CREATED, message=one)) == trace.event_line(replace(CREATED, message=two))


def test_callback_headers_are_redacted_by_message_or_callback() -> None:
    callback = CallbackOptions(
        url="https://a.example.com",
        options=MessageOptions(
            forwarded=(("x-one", "s3cret"), ("x-two", "s3cret")),
            redaction=Redaction(body=False, all_headers=False, header_names=("x-two",)),
        ),
    )
    redaction = Redaction(body=False, all_headers=False, header_names=("x-one",))
    message = changed(MESSAGE, callback=callback, redaction=redaction)
    line = read(trace.event_line(replace(CREATED, message=message)))
    assert line["callback"]["headers"] == {"X-One": [SECRET_MARKER], "X-Two": [SECRET_MARKER]}


# -- callbacks --------------------------------------------------------------------------------


def callback_body(
    *, date: str = "today", port: int = 1, caller: str = "::1", answer: bytes = b"ok", source: bytes = b"hello"
) -> bytes:
    return json.dumps(
        {
            "status": 200,
            "header": {"Date": [date], "Content-Type": ["text/plain"]},
            "body": b64encode(answer).decode(),
            "retried": 0,
            "maxRetries": 3,
            "sourceMessageId": "msg_1",
            "url": f"http://127.0.0.1:{port}/hook",
            "method": "POST",
            "sourceHeader": {"User-Agent": date, "X-Test": "a", "Authorization": date},
            "sourceBody": b64encode(source).decode(),
            "notBefore": "1000",
            "createdAt": "1000",
            "callerIP": caller,
        }
    ).encode()


def digest_of(body: bytes) -> str:
    callback = changed(MESSAGE, body=body, source_message_id=MessageId("msg_1"))
    return str(read(trace.event_line(replace(CREATED, message=callback)))["body_sha256"])


def test_callback_body_is_canonical() -> None:
    """D-130."""
    canonical = (
        '{"body":"2689367b205c16ce32ed4200942b8b8b1e262dfc70d9bc9fbc77c49699a4f1df","createdAt":"1000",'
        '"header":{"Content-Type":["text/plain"]},"maxRetries":3,"method":"POST","notBefore":"1000","retried":0,'
        '"sourceBody":"' + HELLO + '","sourceHeader":{"Authorization":"*","X-Test":"a"},'
        '"sourceMessageId":"msg_1","status":200,"url":"http://127.0.0.1:*/hook"}'
    )
    assert digest_of(callback_body()) == sha256(canonical.encode()).hexdigest()


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(callback_body(date="tomorrow"), id="volatile-headers"),
        pytest.param(callback_body(port=65535), id="port"),
        pytest.param(callback_body(caller="127.0.0.1"), id="caller"),
    ],
)
def test_callback_body_is_the_same_on_any_machine(other: bytes) -> None:
    assert digest_of(other) == digest_of(callback_body())


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(callback_body(answer=b"no"), id="answer"),
        pytest.param(callback_body(source=b"other"), id="source"),
        pytest.param(callback_body().replace(b"200", b"201"), id="status"),
    ],
)
def test_callback_body_tells_what_it_reports(other: bytes) -> None:
    assert digest_of(other) != digest_of(callback_body())


def test_ports_and_callbacks_inside_base64_are_masked_too() -> None:
    assert digest_of(callback_body(answer=b"localhost:1", source=b"[::1]:1")) == digest_of(
        callback_body(answer=b"localhost:2", source=b"[::1]:2")
    )
    # The callback of a callback reports the first one's body, volatile headers and all.
    assert digest_of(callback_body(source=callback_body(date="a"))) == digest_of(
        callback_body(source=callback_body(date="b", port=9))
    )


def test_callback_body_that_is_redacted_is_its_marker() -> None:
    hidden = changed(
        MESSAGE,
        body=callback_body(),
        source_message_id=MessageId("msg_1"),
        redaction=Redaction(body=True, all_headers=False, header_names=()),
    )
    line = read(trace.event_line(replace(CREATED, message=hidden)))
    marker = b"REDACTED:" + digest_of(callback_body()).encode()
    assert line["body_sha256"] == sha256(marker).hexdigest()


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b'{"sourceMessageId"', id="not-json"),
        pytest.param(b'["sourceMessageId"]', id="list"),
        pytest.param(b'{"sourceMessageId":1}', id="other-object"),
        pytest.param(b'"sourceMessageId"' + b"[" * 100_000, id="deep"),
        pytest.param(b'["sourceMessageId",' + b"[" * 100_000, id="deep-list"),
        pytest.param(b'{"sourceMessageId":' + b"1" * 5000 + b"}", id="long-number"),
        pytest.param(b'\xff"sourceMessageId"', id="binary"),
    ],
)
def test_body_that_only_looks_like_a_callback_counts_as_bytes(body: bytes) -> None:
    assert digest_of(body) == sha256(body).hexdigest()


@pytest.mark.parametrize("text", ["?", "é", "abc"])
def test_callback_field_that_is_no_base64_stays_as_it_is(text: str) -> None:
    body = {"sourceMessageId": "m", "sourceHeader": [], "sourceBody": text, "body": 1, "header": 2}
    canonical = json.dumps(body, sort_keys=True, separators=(",", ":"))
    assert digest_of(json.dumps(body).encode()) == sha256(canonical.encode()).hexdigest()


@given(st.binary(max_size=60), st.text(max_size=60))
def test_any_body_and_text_has_a_line(body: bytes, text: str) -> None:
    message = changed(MESSAGE, body=body, url=text, headers=((text, text),))
    line = trace.event_line(replace(CREATED, message=message, error=text))
    assert line.isascii()
    assert "\n" not in line
    assert line == json.dumps(read(line), sort_keys=True, separators=(",", ":"))
