"""Schedules in the JSON of the messaging API."""

from __future__ import annotations

from msgspec.structs import replace
from qstash import schedule

from emulator.core.model.names import FlowKey, MessageId, QueueName, ScheduleId
from emulator.core.model.options import (
    CallbackOptions,
    Destination,
    DestinationKind,
    FlowControl,
    MessageOptions,
    Method,
)
from emulator.core.model.resources import Schedule, ScheduleProgress, ScheduleRunState
from emulator.wire.messaging import views
from tests.wire.messaging.views.records import ACCOUNT, MARKED_SECRET, SECRET, as_read, redacting

NEW_SCHEDULE = ScheduleProgress(
    schedule=Schedule(
        schedule_id=ScheduleId("scd_1"),
        account_id=ACCOUNT,
        cron="*/10 * * * *",
        destination=Destination(kind=DestinationKind.URL, text="https://example.com"),
        body=b"",
        options=MessageOptions(),
        caller_ip="127.0.0.1",
        created_ms=1_767_225_600_000,
    ),
    paused=False,
    next_ms=1_767_226_200_000,
    last_fired_ms=None,
    last_states=(),
    error=None,
)
NEW_SCHEDULE_VIEW = {
    "scheduleId": "scd_1",
    "cron": "*/10 * * * *",
    "destination": "https://example.com",
    "method": "POST",
    "createdAt": 1_767_225_600_000,
    "isPaused": False,
    "retries": 5,
    "callerIP": "127.0.0.1",
    "nextScheduleTime": 1_767_226_200_000,
}
FIRED_SCHEDULE = replace(
    NEW_SCHEDULE,
    schedule=replace(
        NEW_SCHEDULE.schedule,
        body=SECRET.encode(),
        options=MessageOptions(
            method=Method.GET,
            content_type="application/json",
            forwarded=(("bypass-tunnel-reminder", "client-test"), ("test-header", "test-value")),
            delay_ms=10_000,
            timeout_ms=90_000,
            max_retries=0,
            retry_delay="15000",
            callback=CallbackOptions(url="https://example.com/cb", options=MessageOptions()),
            labels=("one",),
            redaction=redacting(body=True, names=("test-header",)),
            flow_control=FlowControl(key=FlowKey("k"), parallelism=None, rate=3, period_ms=86_400_000),
            queue=QueueName("orders"),
        ),
    ),
    paused=True,
    next_ms=None,
    last_fired_ms=1_767_225_000_000,
    last_states=((MessageId("msg_1"), ScheduleRunState.SUCCESS), (MessageId("msg_2"), ScheduleRunState.IN_PROGRESS)),
    error="topic gone not found",
)


def test_new_schedule_shows_defaults_and_its_next_firing() -> None:
    """D-132."""
    assert views.schedule(NEW_SCHEDULE, 5) == NEW_SCHEDULE_VIEW


def test_schedule_with_everything_is_redacted_like_its_messages() -> None:
    """D-132."""
    assert views.schedule(FIRED_SCHEDULE, 5) == {
        "scheduleId": "scd_1",
        "cron": "*/10 * * * *",
        "destination": "https://example.com",
        "method": "GET",
        "createdAt": 1_767_225_600_000,
        "isPaused": True,
        "retries": 0,
        "header": {
            "Content-Type": ["application/json"],
            "Bypass-Tunnel-Reminder": ["client-test"],
            "Test-Header": ["REDACTED:5b1406fffc9de5537eb35a845c99521f26fba0e772d58b42e09f4221b9e043ae"],
        },
        "body": MARKED_SECRET,
        "delay": 10,
        "timeout": 90,
        "retryDelayExpression": "15000",
        "callback": "https://example.com/cb",
        "queueName": "orders",
        "callerIP": "127.0.0.1",
        "label": "one",
        "labels": ["one"],
        "flowControlKey": "k",
        "rate": 3,
        "period": 86_400,
        "lastScheduleTime": 1_767_225_000_000,
        "lastScheduleStates": {"msg_1": "SUCCESS", "msg_2": "IN_PROGRESS"},
        "error": "topic gone not found",
    }


def test_client_reads_schedules() -> None:
    new = schedule.parse_schedule_response(as_read(views.schedule(NEW_SCHEDULE, 3)))
    assert (new.retries, new.paused, new.last_schedule_states, new.flow_control) == (3, False, None, None)
    fired = schedule.parse_schedule_response(as_read(views.schedule(FIRED_SCHEDULE, 3)))
    assert fired.last_schedule_states == {
        "msg_1": schedule.ScheduleState.SUCCESS,
        "msg_2": schedule.ScheduleState.IN_PROGRESS,
    }
    assert (fired.delay, fired.timeout, fired.paused, fired.queue) == (10, 90, True, "orders")
    assert views.schedule_created(ScheduleId("scd_1")) == {"scheduleId": "scd_1"}
