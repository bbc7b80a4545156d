"""The messaging API's records as JSON: exact shapes, redaction, and the public client's own parsers."""

from __future__ import annotations

import json
from base64 import b64decode
from typing import Any

import pytest
from msgspec.structs import replace
from qstash import dlq, flow_control_api, log, queue, schedule, signing_key, url_group
from qstash import message as client_message

from emulator.core.commands import Accepted, Published
from emulator.core.errors import InvalidInput, NotFound
from emulator.core.model import (
    AccountId,
    AttemptOutcome,
    CallbackOptions,
    DeadLetterId,
    Destination,
    DestinationKind,
    Endpoint,
    EventState,
    FlowControl,
    FlowKey,
    FlowState,
    GroupName,
    Message,
    MessageId,
    MessageOptions,
    Method,
    Queue,
    QueueName,
    Redaction,
    Response,
    Schedule,
    ScheduleId,
    ScheduleProgress,
    ScheduleRunState,
    SigningKeys,
    UrlGroup,
    Via,
)
from emulator.queries.history import DeadLetterEntry, Event, Page
from emulator.wire import dialect
from emulator.wire.json_fields import Json
from emulator.wire.messaging import views

ACCOUNT = AccountId("account-1")
SECRET = "s3cret"
# Digests of the texts `s3cret` and `token-1`.
MARKED_SECRET = "REDACTED:1ec1c26b50d5d3c58d9583181af8076655fe00756bf7285940ba3670f99fcba0"
MARKED_TOKEN = "REDACTED:3f08aace122ee2368432c1ca23a049bc640bafbf00fdf33a52429f38ba12dbf9"

PLAIN = Message(
    message_id=MessageId("msg_1"),
    number=1,
    account_id=ACCOUNT,
    created_ms=1_767_225_600_000,
    not_before_ms=1_767_225_600_000,
    url="https://api.example.com/hook",
    method=Method.POST,
    headers=(),
    body=b"",
    max_retries=0,
    retry_delay=None,
    timeout_ms=900_000,
    callback=None,
    failure_callback=None,
    caller_ip="127.0.0.1",
)
FULL = replace(
    PLAIN,
    not_before_ms=1_767_225_610_000,
    method=Method.PUT,
    headers=(("content-type", "application/json"), ("x-test", "a"), ("X-Test", "b")),
    body=b'{"n":1}',
    max_retries=3,
    retry_delay="1000 * retried",
    timeout_ms=30_000,
    callback=CallbackOptions(
        url="https://app.example.com/done", options=MessageOptions(forwarded=(("x-done", "yes"),))
    ),
    failure_callback=CallbackOptions(
        url="https://app.example.com/failed",
        options=MessageOptions(content_type="text/plain", forwarded=(("x-failed", "yes"),)),
    ),
    url_group=GroupName("receivers"),
    endpoint_name="first one",
    queue=QueueName("orders"),
    schedule_id=ScheduleId("scd_1"),
    labels=("nightly", "billing"),
    flow_control=FlowControl(key=FlowKey("tenant-1"), parallelism=2, rate=None, period_ms=5_403_000),
)

PLAIN_VIEW = {
    "messageId": "msg_1",
    "url": "https://api.example.com/hook",
    "method": "POST",
    "header": {},
    "maxRetries": 0,
    "notBefore": 1_767_225_600_000,
    "createdAt": 1_767_225_600_000,
    "callerIP": "127.0.0.1",
}
FULL_VIEW = {
    "messageId": "msg_1",
    "url": "https://api.example.com/hook",
    "topicName": "receivers",
    "endpointName": "first one",
    "method": "PUT",
    "header": {"Content-Type": ["application/json"], "X-Test": ["a", "b"]},
    "body": '{"n":1}',
    "maxRetries": 3,
    "retryDelayExpression": "1000 * retried",
    "notBefore": 1_767_225_610_000,
    "createdAt": 1_767_225_600_000,
    "callback": "https://app.example.com/done",
    "callbackHeader": {"X-Done": ["yes"]},
    "failureCallback": "https://app.example.com/failed",
    "failureCallbackHeader": {"Content-Type": ["text/plain"], "X-Failed": ["yes"]},
    "queueName": "orders",
    "scheduleId": "scd_1",
    "callerIP": "127.0.0.1",
    "label": "nightly",
    "labels": ["nightly", "billing"],
    "flowControlKey": "tenant-1",
    "parallelism": 2,
    "period": 5403,
}


def as_read(view: Json) -> Any:
    """A view after a journey over the wire."""
    return json.loads(json.dumps(view))


def redacting(*, body: bool = False, all_headers: bool = False, names: tuple[str, ...] = ()) -> Redaction:
    return Redaction(body=body, all_headers=all_headers, header_names=names)


# -- messages ---------------------------------------------------------------------------------


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
    assert views.message(replace(PLAIN, body=body)) == {**PLAIN_VIEW, **expected}


@pytest.mark.parametrize(
    ("redaction", "expected"),
    [
        pytest.param(
            redacting(body=True),
            {"header": {"Authorization": ["token-1"], "X-Open": ["open"]}, "body": MARKED_SECRET},
            id="body",
        ),
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
    view = views.message(replace(PLAIN, headers=headers, body=SECRET.encode(), redaction=redaction))
    assert {key: view[key] for key in ("header", "body")} == expected


def test_empty_redacted_body_stays_empty() -> None:
    assert views.message(replace(PLAIN, redaction=redacting(body=True))) == PLAIN_VIEW


def test_callback_headers_hide_what_message_or_callback_hides() -> None:
    """D-126."""
    callback = CallbackOptions(
        url="https://app.example.com/done",
        options=MessageOptions(
            forwarded=(("authorization", "token-1"), ("x-key", "s3cret"), ("x-open", "open")),
            redaction=redacting(names=("x-key",)),
        ),
    )
    record = replace(PLAIN, callback=callback, redaction=redacting(names=("authorization",)))
    expected = {"Authorization": [MARKED_TOKEN], "X-Key": [MARKED_SECRET], "X-Open": ["open"]}
    assert views.message(record)["callbackHeader"] == expected
    only_the_callback = replace(record, redaction=None)
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


# -- publishing -------------------------------------------------------------------------------

FRESH = Published(message_id=MessageId("msg_1"), url="https://a.example.com", deduplicated=False)
OLD = Published(message_id=MessageId("msg_0"), url="https://b.example.com/", deduplicated=True)
GROUP_VIEW: list[dict[str, Json]] = [
    {"messageId": "msg_1", "url": "https://a.example.com"},
    {"messageId": "msg_0", "url": "https://b.example.com/", "deduplicated": True},
]


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        pytest.param(Accepted(is_group=False, messages=(FRESH,)), {"messageId": "msg_1"}, id="url"),
        pytest.param(
            Accepted(is_group=False, messages=(OLD,)), {"messageId": "msg_0", "deduplicated": True}, id="duplicate"
        ),
        pytest.param(Accepted(is_group=True, messages=(FRESH, OLD)), GROUP_VIEW, id="group"),
        pytest.param(Accepted(is_group=True, messages=()), [], id="group-without-endpoints"),
    ],
)
def test_publish_reply(reply: Accepted, expected: Json) -> None:
    """D-056."""
    assert views.accepted(reply) == expected


def test_batch_reply_holds_an_error_where_an_item_was_refused() -> None:
    """D-121."""
    items = (
        Accepted(is_group=False, messages=(FRESH,)),
        NotFound("topic nobody not found"),
        InvalidInput("Svc-Delay", "expected a duration"),
        Accepted(is_group=True, messages=(FRESH, OLD)),
    )
    assert views.batch_reply(items, dialect.SVC) == [
        {"messageId": "msg_1"},
        {"error": "topic nobody not found"},
        {"error": "Svc-Delay: expected a duration", "field": "Svc-Delay"},
        GROUP_VIEW,
    ]


def test_client_reads_publish_and_batch_replies() -> None:
    single, group = Accepted(is_group=False, messages=(OLD,)), Accepted(is_group=True, messages=(FRESH, OLD))
    one = client_message.parse_publish_response(as_read(views.accepted(single)))
    assert one == client_message.PublishResponse(message_id="msg_0", deduplicated=True)
    many = client_message.parse_enqueue_response(as_read(views.accepted(group)))
    assert isinstance(many, list)
    assert [(entry.url, entry.deduplicated) for entry in many] == [
        ("https://a.example.com", False),
        ("https://b.example.com/", True),
    ]
    batch = client_message.parse_batch_response(as_read(views.batch_reply((single, group), dialect.SVC)))
    assert [type(entry) for entry in batch] == [client_message.BatchResponse, list]


# -- events -----------------------------------------------------------------------------------

CREATED = Event(
    seq=1,
    at_ms=1_767_225_600_000,
    state=EventState.CREATED,
    message=PLAIN,
    error=None,
    response=None,
    next_delivery_ms=None,
)
FAILURE = Response(status=503, headers=(("retry-after", "10"), ("X-A", "1"), ("x-a", "2")), body=b"busy")
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


# -- dead letters -----------------------------------------------------------------------------

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


# -- schedules --------------------------------------------------------------------------------

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


# -- URL groups, queues, flow control, keys ---------------------------------------------------

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
        pytest.param(
            LIMITED_FLOW,
            1_708_000_059_999,
            flow_view(5, 10, 3, 100, 42, 60, 1_708_000_000, yes=True),
            id="within-the-period",
        ),
        pytest.param(
            LIMITED_FLOW,
            1_708_000_060_000,
            flow_view(5, 10, 3, 100, 0, 60, 1_708_000_000, yes=True),
            id="period-over",
        ),
    ],
)
def test_flow_key_always_has_all_its_fields(flow: FlowState, now_ms: int, expected: dict[str, Json]) -> None:
    """D-125."""
    view = views.flow_key(flow, 5, now_ms)
    assert view == expected
    assert flow_control_api.parse_flow_control_info(as_read(view)).rate_count == expected["rateCount"]


def test_keys_and_global_parallelism() -> None:
    view = views.signing_keys(SigningKeys(current="sig_a", next="sig_b"))
    assert view == {"current": "sig_a", "next": "sig_b"}
    assert signing_key.parse_signing_key_response(as_read(view)).next == "sig_b"
    assert views.global_parallelism(200, 0) == {"parallelismMax": 200, "parallelismCount": 0}
