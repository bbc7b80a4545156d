"""Messages, their log entries and dead letters as JSON."""

from __future__ import annotations

from base64 import b64decode

import pytest
from msgspec.structs import replace
from qstash import dlq, log
from qstash import message as client_message

from emulator.core.model.messages import AttemptOutcome, EventState, Message, Response, Via
from emulator.core.model.options import CallbackOptions, MessageOptions, Redaction
from emulator.core.record import DeadLetterId
from emulator.queries.history import DeadLetterEntry, Event, Page
from emulator.wire.json_reader import Json
from emulator.wire.messaging import views
from tests.harness.simulations import changed
from tests.wire.messaging.views.records import (
    FAILURE,
    FRESH,
    FULL,
    FULL_VIEW,
    MARKED_SECRET,
    MARKED_TOKEN,
    PLAIN,
    PLAIN_VIEW,
    SECRET,
    as_read,
    redacting,
)

# -- messages in the JSON of the messaging API -----------------------------------------------------


@pytest.mark.parametrize(
    ("record", "expected"),
    [pytest.param(PLAIN, PLAIN_VIEW, id="least"), pytest.param(FULL, FULL_VIEW, id="everything")],
)
def test_message_shows_what_is_set_and_leaves_out_the_rest(record: Message, expected: dict[str, Json]) -> None:
    """D-120, D-131."""
    assert views.message(record) == expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param(b"", {}, id="none"),
        pytest.param("grüße".encode(), {"body": "grüße"}, id="text"),
        pytest.param(b"\xff\x00", {"bodyBase64": "/wA="}, id="binary"),
    ],
)
def test_body_is_text_or_base64(body: bytes, expected: dict[str, Json]) -> None:
    assert views.message(changed(PLAIN, body=body)) == {**PLAIN_VIEW, **expected}
    assert views.message(changed(PLAIN, redaction=redacting(body=True))) == PLAIN_VIEW


@pytest.mark.parametrize(
    ("redaction", "expected"),
    [
        (redacting(body=True), {"header": {"Authorization": ["token-1"], "X-Open": ["open"]}, "body": MARKED_SECRET}),
        pytest.param(
            redacting(names=("authorization",)),
            {"header": {"Authorization": [MARKED_TOKEN], "X-Open": ["open"]}, "body": SECRET},
            id="one-header",
        ),
        pytest.param(
            redacting(all_headers=True),
            {
                "header": {
                    "Authorization": [MARKED_TOKEN],
                    "X-Open": ["REDACTED:2348f998744212575d85959674f9607ab26f67708a917157472832386337c904"],
                },
                "body": SECRET,
            },
            id="all-headers",
        ),
    ],
)
def test_redacted_parts_appear_as_their_hash(redaction: Redaction, expected: dict[str, Json]) -> None:
    headers = (("authorization", "token-1"), ("x-open", "open"))
    view = views.message(changed(PLAIN, headers=headers, body=SECRET.encode(), redaction=redaction))
    assert {key: view[key] for key in ("header", "body")} == expected


def test_callback_headers_hide_what_message_or_callback_hides() -> None:
    """D-126."""
    callback = CallbackOptions(
        url="https://app.example.com/done",
        options=MessageOptions(
            forwarded=(("authorization", "token-1"), ("x-key", "s3cret"), ("x-open", "open")),
            redaction=redacting(names=("x-key",)),
        ),
    )
    record = changed(PLAIN, callback=callback, redaction=redacting(names=("authorization",)))
    expected = {"Authorization": [MARKED_TOKEN], "X-Key": [MARKED_SECRET], "X-Open": ["open"]}
    assert views.message(record)["callbackHeader"] == expected
    only_the_callback = changed(record, redaction=None)
    assert views.message(only_the_callback)["callbackHeader"] == {**expected, "Authorization": ["token-1"]}


def test_client_reads_a_message() -> None:
    read = client_message.parse_message_response(as_read(views.message(FULL)))
    assert (read.message_id, read.url_group, read.endpoint) == ("msg_1", "receivers", "first one")
    assert read.headers == {"Content-Type": ["application/json"], "X-Test": ["a", "b"]}
    assert read.callback_headers == {"X-Done": ["yes"]}
    assert read.caller_ip == "127.0.0.1"
    assert read.flow_control is not None
    assert (read.flow_control.parallelism, read.flow_control.rate, read.flow_control.period) == (2, None, 5403)
    assert client_message.parse_message_response(as_read(views.message(PLAIN))).flow_control is None


# -- events in the JSON of the messaging API -------------------------------------------------------


CREATED = Event(
    seq=1,
    at_ms=1_767_225_600_000,
    state=EventState.CREATED,
    message=PLAIN,
    error=None,
    response=None,
    next_delivery_ms=None,
)

ERROR = replace(
    CREATED,
    at_ms=1_767_225_611_000,
    state=EventState.ERROR,
    message=FULL,
    error="503 Service Unavailable",
    response=FAILURE,
    next_delivery_ms=1_767_225_621_000,
)


def test_event_of_a_plain_message() -> None:
    assert views.event(CREATED) == {
        "time": 1_767_225_600_000,
        "messageId": "msg_1",
        "state": "CREATED",
        "url": "https://api.example.com/hook",
        "header": {},
        "timeout": 900_000,
        "method": "POST",
        "maxRetries": 0,
        "callerIP": "127.0.0.1",
    }


def test_event_with_everything_has_both_names_of_two_fields() -> None:
    """D-122."""
    assert views.event(ERROR) == {
        "time": 1_767_225_611_000,
        "messageId": "msg_1",
        "state": "ERROR",
        "url": "https://api.example.com/hook",
        "error": "503 Service Unavailable",
        "nextDeliveryTime": 1_767_225_621_000,
        "topicName": "receivers",
        "endpointName": "first one",
        "queueName": "orders",
        "scheduleId": "scd_1",
        "header": {"Content-Type": ["application/json"], "X-Test": ["a", "b"]},
        "body": "eyJuIjoxfQ==",
        "responseStatus": 503,
        "responseHeader": {"Retry-After": ["10"], "X-A": ["1", "2"]},
        "responseHeaders": {"Retry-After": ["10"], "X-A": ["1", "2"]},
        "responseBody": "YnVzeQ==",
        "timeout": 30_000,
        "method": "PUT",
        "maxRetries": 3,
        "retryDelayExpr": "1000 * retried",
        "retryDelayExpression": "1000 * retried",
        "callback": "https://app.example.com/done",
        "callbackHeaders": {"X-Done": ["yes"]},
        "failureCallback": "https://app.example.com/failed",
        "failureCallbackHeaders": {"Content-Type": ["text/plain"], "X-Failed": ["yes"]},
        "callerIP": "127.0.0.1",
        "label": "nightly",
        "labels": ["nightly", "billing"],
        "flowControlKey": "tenant-1",
        "parallelism": 2,
        "period": 5403,
    }


def test_event_encodes_the_redaction_marker() -> None:
    record = changed(PLAIN, body=SECRET.encode(), redaction=redacting(body=True))
    body = views.event(replace(CREATED, message=record))["body"]
    assert isinstance(body, str)
    assert b64decode(body).decode() == MARKED_SECRET


def test_events_page() -> None:
    """D-089."""
    assert views.events_page(Page(items=(), cursor="1-2"), "events") == {"events": [], "cursor": "1-2"}
    assert views.events_page(Page(items=(), cursor=None), "logs", "events") == {"logs": [], "events": []}


def test_client_reads_events_of_every_state() -> None:
    entries = tuple(replace(ERROR, state=state) for state in EventState)
    page = as_read(views.events_page(Page(items=(*entries, CREATED), cursor=None), "events"))
    read = log.parse_logs_response(page["events"])
    assert [entry.state.value for entry in read[:-1]] == [state.value for state in EventState]
    assert read[0].retry_delay_expression == "1000 * retried"
    assert read[0].response_headers == {"Retry-After": ["10"], "X-A": ["1", "2"]}
    assert read[0].failure_callback_headers == {"Content-Type": ["text/plain"], "X-Failed": ["yes"]}
    assert read[-1].body_base64 is None


# -- dead letters in the JSON of the messaging API -------------------------------------------------


ENTRY = DeadLetterEntry(
    dead_letter_id=DeadLetterId("1767225611000-0"),
    failed_ms=1_767_225_611_000,
    message=FULL,
    outcome=AttemptOutcome(response=FAILURE, error=None, via=Via.NETWORK),
)


@pytest.mark.parametrize(
    ("response", "expected"),
    [
        pytest.param(
            FAILURE,
            {
                "responseStatus": 503,
                "responseHeader": {"Retry-After": ["10"], "X-A": ["1", "2"]},
                "responseBody": "busy",
            },
            id="text",
        ),
        pytest.param(
            Response(status=500, headers=(), body=b"\xff"),
            {"responseStatus": 500, "responseHeader": {}, "responseBodyBase64": "/w=="},
            id="binary",
        ),
        pytest.param(None, {"responseStatus": 0}, id="no-response"),
    ],
)
def test_dead_letter_is_a_message_with_its_last_response(response: Response | None, expected: dict[str, Json]) -> None:
    """D-123."""
    outcome = AttemptOutcome(response=response, error=None, via=Via.NETWORK)
    view = views.dead_letter(replace(ENTRY, outcome=outcome))
    assert view == {**FULL_VIEW, "dlqId": "1767225611000-0", **expected}


def test_dead_letters_page_has_no_cursor_at_its_end() -> None:
    assert views.dead_letters_page(Page(items=(), cursor=None)) == {"messages": []}
    assert views.dead_letters_page(Page(items=(), cursor="1-0")) == {"messages": [], "cursor": "1-0"}


def test_bulk_answers() -> None:
    """D-134."""
    assert views.cancelled(2) == {"cancelled": 2}
    assert views.dead_letters_deleted(0, None) == {"deleted": 0}
    assert views.dead_letters_deleted(100, "1-0") == {"deleted": 100, "cursor": "1-0"}
    assert views.dead_letters_retried((FRESH,), None) == {"cursor": "", "responses": [{"messageId": "msg_1"}]}


def test_client_reads_dead_letters() -> None:
    read = dlq.parse_dlq_message_response(as_read(views.dead_letter(ENTRY)))
    assert (read.dlq_id, read.response_status, read.response_body) == ("1767225611000-0", 503, "busy")
    assert read.response_headers == {"Retry-After": ["10"], "X-A": ["1", "2"]}
    lost = replace(ENTRY, message=PLAIN, outcome=AttemptOutcome(response=None, error="refused", via=Via.NETWORK))
    assert dlq.parse_dlq_message_response(as_read(views.dead_letter(lost))).response_status == 0
