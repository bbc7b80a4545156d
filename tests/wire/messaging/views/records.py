"""Records to show, for the tests of the views."""

from __future__ import annotations

import json
from typing import Any

from emulator.core.model.messages import PublishedMessage, Response
from emulator.core.model.options import CallbackOptions, FlowControl, MessageOptions, Method, Redaction
from emulator.core.record import AccountId, FlowKey, GroupName, MessageId, QueueName, ScheduleId
from emulator.wire.json_reader import Json
from tests.harness.simulations import changed, make_message

ACCOUNT = AccountId("account-1")
SECRET = "s3cret"
# Digests of the texts `s3cret` and `token-1`.
MARKED_SECRET = "REDACTED:1ec1c26b50d5d3c58d9583181af8076655fe00756bf7285940ba3670f99fcba0"
MARKED_TOKEN = "REDACTED:3f08aace122ee2368432c1ca23a049bc640bafbf00fdf33a52429f38ba12dbf9"

PLAIN = make_message(
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
FULL = changed(
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


FAILURE = Response(status=503, headers=(("retry-after", "10"), ("X-A", "1"), ("x-a", "2")), body=b"busy")
FRESH = PublishedMessage(message_id=MessageId("msg_1"), url="https://a.example.com", deduplicated=False)
