"""Resources and schedules as JSON."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from qstash import flow_control_api, queue, schedule, signing_key, url_group

from emulator.core.model.options import (
    CallbackOptions,
    Destination,
    DestinationKind,
    FlowControl,
    MessageOptions,
    Method,
)
from emulator.core.model.resources import (
    Endpoint,
    FlowState,
    Queue,
    Schedule,
    ScheduleProgress,
    ScheduleRunState,
    SigningKeys,
    UrlGroup,
)
from emulator.core.record import FlowKey, GroupName, MessageId, QueueName, ScheduleId
from emulator.wire.json_reader import Json
from emulator.wire.messaging import views
from tests.wire.messaging.views.records import ACCOUNT, MARKED_SECRET, SECRET, as_read, redacting

# -- uRL groups, queues, flow control keys and signing keys in the JSON of the messaging API -------


GROUP = UrlGroup(
    name=GroupName("receivers"),
    account_id=ACCOUNT,
    endpoints=(
        Endpoint(url="https://a.example.com", name="first one"),
        Endpoint(url="https://b.example.com", name=None),
    ),
    headers=(),
    defaults=MessageOptions(),
    created_ms=1,
    updated_ms=2,
)

GROUP_RECORD = {
    "name": "receivers",
    "createdAt": 1,
    "updatedAt": 2,
    "endpoints": [{"name": "first one", "url": "https://a.example.com"}, {"url": "https://b.example.com"}],
}


def test_url_group_shows_default_headers_only_if_it_has_some() -> None:
    """D-124."""
    assert views.url_group(GROUP) == GROUP_RECORD
    with_headers = replace(GROUP, headers=(("Svc-Retries", ("2",)), ("Svc-Forward-X-Key", ("s3cret", "s3cret"))))
    assert views.url_group(with_headers) == {
        **GROUP_RECORD,
        "headers": {"Svc-Retries": ["2"], "Svc-Forward-X-Key": ["s3cret", "s3cret"]},
    }
    hiding = replace(with_headers, defaults=MessageOptions(redaction=redacting(names=("x-key",))))
    assert views.url_group(hiding) == {
        **GROUP_RECORD,
        "headers": {"Svc-Retries": ["2"], "Svc-Forward-X-Key": [MARKED_SECRET, MARKED_SECRET]},
    }


def test_client_reads_url_groups_and_queues() -> None:
    """D-133."""
    read = url_group.parse_url_group_response(as_read(views.url_group(GROUP)))
    assert [(endpoint.name, endpoint.url) for endpoint in read.endpoints] == [
        ("first one", "https://a.example.com"),
        (None, "https://b.example.com"),
    ]
    record = Queue(
        name=QueueName("orders"), account_id=ACCOUNT, parallelism=1, paused=False, created_ms=1, updated_ms=2
    )
    view = views.queue(record, 0)
    assert view == {"name": "orders", "parallelism": 1, "createdAt": 1, "updatedAt": 2, "lag": 0, "paused": False}
    assert queue.parse_queue_response(as_read(view)) == queue.Queue(
        name="orders", parallelism=1, created_at=1, updated_at=2, lag=0, paused=False
    )


UNSET_FLOW = FlowState(
    key=FlowKey("k"),
    account_id=ACCOUNT,
    parallelism=None,
    rate=None,
    period_ms=1000,
    active=0,
    rate_count=0,
    window_start_ms=0,
    paused=False,
    pinned_parallelism=False,
    pinned_rate=False,
)

LIMITED_FLOW = replace(
    UNSET_FLOW,
    parallelism=10,
    rate=100,
    period_ms=60_000,
    active=3,
    rate_count=42,
    window_start_ms=1_708_000_000_000,
    paused=True,
    pinned_parallelism=True,
    pinned_rate=True,
)


def flow_view(*numbers: int, yes: bool) -> dict[str, Json]:
    names = ("waitListSize", "parallelismMax", "parallelismCount", "rateMax", "rateCount", "ratePeriod")
    view: dict[str, Json] = {"flowControlKey": "k"}
    view |= dict(zip((*names, "ratePeriodStart"), numbers, strict=True))
    return {**view, "isPaused": yes, "isPinnedParallelism": yes, "isPinnedRate": yes}


@pytest.mark.parametrize(
    ("flow", "now_ms", "expected"),
    [
        pytest.param(UNSET_FLOW, 5, flow_view(5, 0, 0, 0, 0, 0, 0, yes=False), id="nothing-set"),
        (LIMITED_FLOW, 1_708_000_059_999, flow_view(5, 10, 3, 100, 42, 60, 1_708_000_000, yes=True)),
        (LIMITED_FLOW, 1_708_000_060_000, flow_view(5, 10, 3, 100, 0, 60, 1_708_000_000, yes=True)),
    ],
)
def test_flow_key_always_has_all_its_fields(flow: FlowState, now_ms: int, expected: dict[str, Json]) -> None:
    """D-125."""
    view = views.flow_key(flow, flow.active, 5, now_ms)
    assert view == expected
    assert flow_control_api.parse_flow_control_info(as_read(view)).rate_count == expected["rateCount"]


def test_keys_and_global_parallelism() -> None:
    view = views.signing_keys(SigningKeys(current="sig_a", next="sig_b"))
    assert view == {"current": "sig_a", "next": "sig_b"}
    assert signing_key.parse_signing_key_response(as_read(view)).next == "sig_b"
    assert views.global_parallelism(200, 0) == {"parallelismMax": 200, "parallelismCount": 0}


# -- schedules in the JSON of the messaging API ----------------------------------------------------


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
    "callerIp": "127.0.0.1",
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
        "callerIp": "127.0.0.1",
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
