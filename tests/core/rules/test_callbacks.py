"""Callbacks: when they are sent, what they say, and how they are delivered."""

from __future__ import annotations

import base64
import gzip
import json
import time
import zlib
from typing import Any

import pytest
from msgspec.structs import replace

from emulator.core.errors import InvalidInput
from emulator.core.language.text import beginning
from emulator.core.model.messages import AttemptOutcome, Response, Via
from emulator.core.model.options import Method, Redaction
from emulator.core.model.resources import Endpoint
from emulator.core.rules import callbacks
from emulator.core.rules.callbacks import decompressed
from tests.harness.simulations import (
    DAY,
    SECOND,
    World,
    always,
    answered,
    by_url,
    callback,
    flow,
    make_account,
    unreachable,
)

URL = "https://api.example.com/hook"
BACK = "https://app.test/called"
FAILED = "https://app.test/failed"


def bodies(world: World, url: str = BACK) -> list[dict[str, Any]]:
    return [json.loads(message.body) for message in world.sent_to(url)]


def test_a_success_is_called_back_once_with_every_field() -> None:
    """D-006."""
    response = answered(201, headers=(("content-type", "text/plain"), ("x-tag", "a"), ("X-Tag", "b")), body=b"done")
    world = World(answering=by_url({URL: response}))
    message_id = world.publish(
        URL,
        body=b"hello",
        content_type="application/json",
        forwarded=(("test-header", "v"),),
        method=Method.PUT,
        callback=callback(BACK),
    )
    assert bodies(world) == [
        {
            "status": 201,
            "header": {"Content-Type": ["text/plain"], "X-Tag": ["a", "b"]},
            "body": "ZG9uZQ==",
            "retried": 0,
            "maxRetries": 5,
            "sourceMessageId": message_id,
            "url": "https://api.example.com/hook",
            "method": "PUT",
            "sourceHeader": {"Content-Type": "application/json", "Test-Header": "v"},
            "sourceBody": "aGVsbG8=",
            "notBefore": "1767225600000",
            "createdAt": "1767225600000",
            "callerIP": "203.0.113.7",
        }
    ]


def test_a_callback_names_group_endpoint_and_schedule_where_they_apply() -> None:
    world = World()
    world.make_group("team", Endpoint(url=URL, name="first endpoint"))
    schedule_id = world.write_schedule("* * * * *", "team", callback=callback(BACK), delay_ms=5 * SECOND)
    world.run_until(65 * SECOND)
    (body,) = bodies(world)
    assert body["topicName"] == "team"
    assert body["endpointName"] == "first endpoint"
    assert body["scheduleId"] == schedule_id
    assert body["createdAt"] == "1767225660000"
    assert body["notBefore"] == "1767225665000"


def test_a_callback_follows_every_attempt_until_one_succeeds() -> None:
    world = World(answering=by_url({URL: [answered(500), answered(502), answered(200)]}))
    world.publish(URL, callback=callback(BACK), retry_delay="1000")
    world.run_until(DAY)
    assert [(body["status"], body["retried"]) for body in bodies(world)] == [(500, 0), (502, 1), (200, 2)]
    assert [message.created_ms - world.began_ms for message in world.sent_to(BACK)] == [0, 1_000, 2_000]


def test_the_failure_callback_comes_once_with_the_dead_letter() -> None:
    world = World(answering=by_url({URL: answered(500, body=b"broken")}))
    message_id = world.publish(
        URL, failure_callback=callback(FAILED), callback=callback(BACK), max_retries=2, retry_delay="1000"
    )
    world.run_until(DAY)
    (body,) = bodies(world, FAILED)
    assert body["dlqId"] == "1767225602000-0"
    assert world.dead_letter_ids() == ["1767225602000-0"]
    assert (body["status"], body["retried"], body["maxRetries"]) == (500, 2, 2)
    assert body["body"] == "YnJva2Vu"
    assert body["sourceMessageId"] == message_id
    assert len(bodies(world, BACK)) == 3
    assert all("dlqId" not in each for each in bodies(world, BACK))


def test_without_a_response_the_status_is_zero_and_the_body_says_why() -> None:
    """Decision D-027."""
    world = World(answering=by_url({URL: unreachable("connection refused")}))
    world.publish(URL, callback=callback(BACK), max_retries=0)
    (body,) = bodies(world)
    assert body["status"] == 0
    assert body["header"] == {}
    assert base64.b64decode(body["body"]) == b"connection refused"


def test_a_long_response_is_cut_at_the_message_size_of_the_plan_whatever_its_bytes() -> None:
    world = World(make_account(max_message_size=4), answering=by_url({URL: answered(body=b"\xff\x003456")}))
    world.publish(URL, callback=callback(BACK), body=b"\xfebcd")
    (body,) = bodies(world)
    assert base64.b64decode(body["body"]) == b"\xff\x0034"
    assert body["truncated"] is True
    assert base64.b64decode(body["sourceBody"]) == b"\xfebcd"


def test_several_source_headers_of_one_name_become_one_string() -> None:
    world = World()
    world.publish(URL, forwarded=(("x-tag", "a"), ("X-TAG", "b")), callback=callback(BACK))
    assert bodies(world)[0]["sourceHeader"] == {"X-Tag": "a, b"}


# -- the callback as a message ----------------------------------------------------------------


def test_a_callback_is_a_posted_json_message_with_the_retries_of_its_source() -> None:
    """D-019."""
    world = World()
    limits = flow("k", parallelism=1)
    source = world.publish(URL, callback=callback(BACK), max_retries=7, retry_delay="1000", flow_control=limits)
    (message,) = world.sent_to(BACK)
    assert message.method is Method.POST
    assert message.headers == (("Content-Type", "application/json"),)
    assert (message.policy.max_retries, message.policy.retry_delay) == (7, "1000")
    assert message.source.source_message_id == source
    assert message.source.caller_ip == "203.0.113.7"
    assert (message.policy.callback, message.policy.failure_callback, message.policy.flow_control) == (None, None, None)
    assert world.events_of(message.message_id) == ["CREATED", "ACTIVE", "DELIVERED"]
    assert world.owner.usage_count == 2


def test_the_callback_own_configuration_wins() -> None:
    world = World()
    world.publish(
        URL,
        max_retries=7,
        retry_delay="1000",
        callback=callback(
            BACK,
            method=Method.PATCH,
            max_retries=0,
            retry_delay="5",
            timeout_ms=9_000,
            forwarded=(("X-Key", "secret"),),
            labels=("called",),
        ),
    )
    (message,) = world.sent_to(BACK)
    assert message.method is Method.PATCH
    assert (message.policy.max_retries, message.policy.retry_delay, message.policy.timeout_ms) == (0, "5", 9_000)
    assert message.headers == (("X-Key", "secret"), ("Content-Type", "application/json"))
    assert message.policy.labels == ("called",)


def test_a_callback_content_type_of_its_own_replaces_the_json_one() -> None:
    world = World()
    world.publish(URL, callback=callback(BACK, content_type="text/plain"))
    assert world.sent_to(BACK)[0].headers == (("Content-Type", "text/plain"),)


def test_a_callback_that_fails_for_good_is_a_dead_letter_of_its_own() -> None:
    """D-019."""
    world = World(answering=by_url({BACK: answered(500)}))
    world.publish(URL, callback=callback(BACK), max_retries=0)
    (message,) = world.sent_to(BACK)
    assert world.events_of(message.message_id)[-1] == "FAILED"
    assert [letter.message_id for letter in world.owner.dead_letters.values()] == [message.message_id]


def test_a_canceled_message_calls_nobody_back() -> None:
    """Decision D-018."""
    world = World(answering=None)
    message_id = world.publish(URL, callback=callback(BACK), failure_callback=callback(FAILED))
    world.cancel(message_id)
    world.finish(message_id, answered(500))
    assert world.events_of(message_id) == ["CREATED", "ACTIVE", "CANCEL_REQUESTED", "ERROR", "CANCELED"]
    assert world.sent_to(BACK) == []
    assert world.sent_to(FAILED) == []


def test_own_redaction_of_a_callback_adds_to_that_of_its_source() -> None:
    """Decision D-026."""
    world = World()
    hidden = Redaction(body=False, all_headers=False, header_names=("authorization",))
    own = Redaction(body=False, all_headers=False, header_names=("x-own",))
    second = callback("https://app.test/second")
    called = callback(BACK, redaction=own, callback=second)
    world.publish(URL, redaction=hidden, callback=called)
    world.publish("https://api.example.com/open", callback=called)
    world.publish(URL, redaction=hidden, callback=callback(BACK))
    inherited = Redaction(body=True, all_headers=False, header_names=("authorization", "x-own"))
    alone = replace(hidden, body=True)
    assert [message.policy.redaction for message in world.sent_to(BACK)] == [inherited, own, alone]
    assert [message.policy.redaction for message in world.sent_to("https://app.test/second")] == [
        inherited,
        replace(own, body=True),
    ]


def test_limits_that_a_callback_brings_let_in_those_that_wait_already() -> None:
    world = World(answering=None)
    waiting = [world.publish("https://w.test/", flow_control=flow("k", parallelism=1)) for _ in range(2)]
    source = world.publish(URL, callback=callback(BACK, flow_control=flow("k", parallelism=3)))
    world.finish(source)
    assert world.start_times(waiting[1]) == [0]
    assert world.urls_started()[-1] == BACK


# -- delayed callbacks ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "field"),
    [
        pytest.param({"callback": callback(BACK, delay_ms=1)}, "Svc-Callback-Delay", id="callback"),
        pytest.param({"failure_callback": callback(BACK, delay_ms=1)}, "Svc-Failure-Callback-Delay", id="failure"),
        pytest.param(
            {"callback": callback(BACK, failure_callback=callback(FAILED, delay_ms=1))},
            "Svc-Callback-Failure-Callback-Delay",
            id="nested",
        ),
        pytest.param({"callback": callback(BACK, not_before_ms=1)}, "Svc-Callback-Not-Before", id="not-before"),
    ],
)
def test_a_delayed_callback_is_refused_at_insertion(options: dict[str, Any], field: str) -> None:
    """Decision D-007."""
    world = World()
    for insert in (
        lambda: world.publish(URL, **options),
        lambda: world.enqueue("queue", URL, **options),
        lambda: world.write_schedule("* * * * *", URL, **options),
    ):
        with pytest.raises(InvalidInput) as refusal:
            insert()
        assert refusal.value.field == field
    assert world.facts == []


def test_a_callback_delay_of_zero_is_accepted() -> None:
    world = World()
    world.publish(URL, callback=callback(BACK, delay_ms=0))
    assert len(bodies(world)) == 1


def test_the_json_of_a_callback_is_what_javascript_writes() -> None:
    """D-361."""
    written = callbacks.encoded({"a": 'é\u2028\x7f\x1f\n"/', "b": {"c": [1, "\udc80"]}, "none": None, "€": ""})
    assert written.decode() == '{"a":"é\u2028\x7f\\u001f\\n\\"/","b":{"c":[1,"\\udc80"]},"€":""}'
    world = World(answering=always(answered(201, body=b"done")))
    world.publish(URL, callback=callback(BACK))
    (message,) = world.sent_to(BACK)
    assert message.body == json.dumps(json.loads(message.body), separators=(",", ":")).encode()


# -- responses as the service reads them --------------------------------------------------------

TEXT = b'{"done": true}' * 10
PACKED = gzip.compress(TEXT, mtime=0)


def packed(body: bytes = PACKED, *encodings: str) -> Response:
    named = [("content-ENCODING", each) for each in encodings or ("gzip",)]
    return Response(status=200, headers=(("X-Own", "1"), *named, ("Content-Length", str(len(body)))), body=body)


def test_what_was_asked_for_in_gzip_is_unpacked() -> None:
    """D-440: so the headers about the packed body are gone."""
    assert decompressed(packed(), ()) == Response(status=200, headers=(("X-Own", "1"),), body=TEXT)
    assert decompressed(packed(PACKED, " GZip "), (("X-Accept", "a"),)).body == TEXT
    assert decompressed(packed(PACKED * 2), ()).body == TEXT * 2
    assert decompressed(packed(b""), ()).body == b""


@pytest.mark.parametrize(
    ("response", "requested"),
    [
        pytest.param(packed(), (("accept-Encoding", "gzip"),), id="the publisher asked"),
        pytest.param(packed(PACKED[:-3]), (), id="cut short"),
        pytest.param(packed(b"not gzip!"), (), id="no gzip"),
        pytest.param(packed(PACKED + b"x"), (), id="something behind it"),
        pytest.param(packed(zlib.compress(TEXT), "deflate"), (), id="another encoding"),
        pytest.param(packed(PACKED, "gzip", "gzip"), (), id="packed twice"),
        pytest.param(Response(status=200, headers=(), body=PACKED), (), id="a file"),
    ],
)
def test_everything_else_stays_as_it_was_received(response: Response, requested: tuple[tuple[str, str], ...]) -> None:
    """D-440."""
    assert decompressed(response, requested) is response


def test_of_a_large_body_the_beginning_is_read() -> None:
    """D-440, D-790: a small response may hold a thousand times its size."""
    bomb = gzip.compress(bytes(3 * 1024 * 1024), mtime=0)
    cut = decompressed(packed(bomb), (), 1000)
    assert (cut.body, cut.received_bytes, cut.headers) == (bytes(1000), len(bomb), (("X-Own", "1"),))
    assert decompressed(packed(), (), 20).body == TEXT[:20]
    whole = decompressed(packed(), (), len(TEXT))
    assert (whole.body, whole.received_bytes) == (TEXT, None)
    assert len(decompressed(packed(bomb), ()).body) == 1024 * 1024


def test_of_a_packed_body_that_was_cut_the_beginning_is_read() -> None:
    """D-790."""
    kept = replace(packed(PACKED[:30]), received_bytes=len(PACKED))
    unpacked = decompressed(kept, ())
    assert TEXT.startswith(unpacked.body)
    assert unpacked.body
    assert unpacked.received_bytes == len(PACKED)


def test_very_many_streams_in_a_row_are_read_at_once() -> None:
    """D-790: each stream hands back what lies behind it, which would be copied once for each."""
    empty = gzip.compress(b"", mtime=0)
    many = packed(empty * (1024 * 1024 // len(empty)) + PACKED)
    started_s = time.process_time()
    assert decompressed(many, ()).body == TEXT
    assert time.process_time() - started_s < 3


@pytest.mark.parametrize(
    ("body", "kept"),
    [
        pytest.param(b"abcdef", b"abcd", id="letters"),
        pytest.param("abc€".encode(), b"abc", id="a character of three bytes"),
        pytest.param("€e".encode() + b"x", "€e".encode(), id="a character before the end"),
        pytest.param(b"\xff\x80\x80\x80\x80\x80", b"\xff\x80\x80\x80", id="no text"),
        pytest.param(b"abcd", b"abcd", id="all of it"),
    ],
)
def test_a_text_is_cut_between_its_characters(body: bytes, kept: bytes) -> None:
    assert beginning(body, 4) == kept


def test_a_callback_has_the_first_mebibyte_of_an_answer_and_says_so() -> None:
    """D-790: whatever the plan's message size is."""
    bomb = packed(gzip.compress(bytes(2 * 1024 * 1024), mtime=0))
    outcome = AttemptOutcome(response=bomb, error=None, via=Via.NETWORK)
    world = World(make_account(max_message_size=50_000_000), answering=by_url({URL: outcome}))
    world.publish(URL, callback=callback(BACK))
    (message,) = world.sent_to(BACK)
    body = json.loads(message.body)
    assert base64.b64decode(body["body"]) == bytes(1024 * 1024)
    assert body["truncated"] is True
    assert list(body)[2:4] == ["body", "truncated"]


def test_a_callback_with_the_whole_answer_does_not_say_that_it_was_cut() -> None:
    """D-790."""
    world = World(make_account(max_message_size=len(TEXT)), answering=by_url({URL: answered(body=TEXT)}))
    world.publish(URL, callback=callback(BACK))
    assert "truncated" not in bodies(world)[0]
