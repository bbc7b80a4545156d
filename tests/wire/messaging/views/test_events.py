"""Events in the JSON of the messaging API."""

from __future__ import annotations

from base64 import b64decode

import pytest
from msgspec.structs import replace
from qstash import log

from emulator.core.model.messages import EventState
from emulator.queries.history import Event, Page
from emulator.wire.json_fields import Json
from emulator.wire.messaging import views
from tests.wire.messaging.views.records import FAILURE, FULL, MARKED_SECRET, PLAIN, SECRET, as_read, redacting

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
    record = replace(PLAIN, body=SECRET.encode(), redaction=redacting(body=True))
    body = views.event(replace(CREATED, message=record))["body"]
    assert isinstance(body, str)
    assert b64decode(body).decode() == MARKED_SECRET


@pytest.mark.parametrize(
    ("cursor", "keys", "expected"),
    [
        pytest.param(None, ("events",), {"events": []}, id="last-page"),
        pytest.param("1-2", ("events",), {"events": [], "cursor": "1-2"}, id="more"),
        pytest.param(None, ("logs", "events"), {"logs": [], "events": []}, id="under-both-names"),
    ],
)
def test_events_page(cursor: str | None, keys: tuple[str, ...], expected: dict[str, Json]) -> None:
    """D-089."""
    assert views.events_page(Page(items=(), cursor=cursor), *keys) == expected


def test_client_reads_events_of_every_state() -> None:
    entries = tuple(replace(ERROR, state=state) for state in EventState)
    page = as_read(views.events_page(Page(items=(*entries, CREATED), cursor=None), "events"))
    read = log.parse_logs_response(page["events"])
    assert [entry.state.value for entry in read[:-1]] == [state.value for state in EventState]
    assert read[0].retry_delay_expression == "1000 * retried"
    assert read[0].response_headers == {"Retry-After": ["10"], "X-A": ["1", "2"]}
    assert read[0].failure_callback_headers == {"Content-Type": ["text/plain"], "X-Failed": ["yes"]}
    assert read[-1].body_base64 is None
