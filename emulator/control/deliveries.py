"""`/_emulator/deliveries`: the delivery journal. Unlike on the messaging API, a field without a value is null."""

from __future__ import annotations

import re
from base64 import b64encode
from functools import lru_cache
from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType
from msgspec.structs import asdict
from starlette.responses import Response

from emulator.api.endpoint import Answer, encoded
from emulator.control.call import OWN_QUERY, ControlCall, ControlRoute, read_shown
from emulator.control.records import (
    TWIN,
    Base64,
    ChaosDone,
    Dropped,
    HeaderValues,
    Instant,
    InstantMs,
    PositiveNumber,
    Status,
    Text,
    View,
    WholeNumber,
    chaos_view,
    dropped_view,
    run_of,
    source_of,
    step_name_of,
    values_by_name,
)
from emulator.core.model import messages
from emulator.core.model.messages import CreatedBy, Via
from emulator.core.model.options import Method
from emulator.core.record import MessageId
from emulator.core.rules.callbacks import decompressed
from emulator.core.rules.retries import delay_after
from emulator.queries import history
from emulator.queries.history import DeliveryQuery, HistoryFilter
from emulator.wire.messaging.outgoing import headers_of_attempt
from emulator.wire.query_reader import Query, control_query
from emulator.wire.reasons import arithmetic, disturbed, is_duplicate
from emulator.wire.redaction import redacted_fields, surface_of, visibility_of
from emulator.worlds.redelivery import redeliver

MAX_LIMIT = 1000

Url = Annotated[str, Meta(pattern="^[Hh][Tt][Tt][Pp][Ss]?://")]

PARAMETERS = (
    *("seq", "url", "message_id", "label", "queue", "schedule", "run", "outcome", "since"),
    *("order", "limit", "cursor", "redact", "brief", "count"),
)
# As the messaging API spells them.
_ORDERS = ("earliestFirst", "latestFirst")
# As much of a failing answer as says why.
_EXCERPT = 200
_OUTCOMES = {"succeeded": "succeeded", "delivered": "succeeded", "failed": "failed"}


def read_delivery_query(given: Query) -> DeliveryQuery:
    """Which attempts of the delivery journal are asked for. Raises: InvalidInput.

    `outcome` is succeeded or failed; `delivered` is taken for succeeded.
    """
    outcome = given.one_of("outcome", tuple(_OUTCOMES))
    return DeliveryQuery(
        limit=given.limit(MAX_LIMIT, DeliveryQuery().limit),
        cursor=given.text("cursor"),
        message_id=given.text("message_id"),
        wanted=HistoryFilter(
            url=given.url("url"),
            label=given.text("label"),
            queue=given.text("queue"),
            schedule_id=given.text("schedule"),
            run=given.text("run"),
        ),
        since_ms=given.instant_ms("since"),
        outcome=None if outcome is None else _OUTCOMES[outcome],
        latest_first=given.one_of("order", _ORDERS) == _ORDERS[1],
        seq=given.integer("seq", 1, 10**15, 0) or None,
    )


class BriefDelivery(View):
    """One attempt as a line of a list, without headers and bodies (D-322)."""

    seq: PositiveNumber  #: The number of the attempt in the journal.
    at: Instant = TWIN
    at_ms: InstantMs
    message_id: MessageId  #: The message.
    attempt: PositiveNumber  #: Which attempt of the message it is, from 1.
    attempts: PositiveNumber  #: How many the message may have in all.
    method: Method  #: The method of the request.
    url: Url  #: The destination, exactly as it was published.
    via: Via  #: What answered.
    status: int | None  #: The status of the answer; null if there was none.
    error: str | None  #: Why there was no answer.
    excerpt: Annotated[str, Meta(max_length=200)] | None  #: The beginning of the body of a failing answer.
    #: After a failed attempt, how the delay of the next one comes about; null if there is none (D-324).
    retry: str | None
    duration_ms: WholeNumber  #: How long the attempt took on the virtual clock, in milliseconds.
    #: How long the attempt took in real time, in milliseconds; null if it never left the emulator (D-510).
    took_ms: Annotated[int, Meta(ge=0)] | None
    created_ms: InstantMs  #: When the message was created.
    created_by: CreatedBy  #: What made the message.
    schedule_id: str | None  #: The schedule that made the message.
    queue: str | None  #: The queue that it is in.
    url_group: str | None  #: The URL group that it was published to.
    flow_control_key: str | None  #: Its flow control key.
    labels: tuple[str, ...]  #: Its labels.
    source_message_id: str | None  #: The message whose callback it is.
    #: The length of the body that was sent; null where the message's redaction applies (D-655).
    request_bytes: Annotated[int, Meta(ge=0)] | None
    #: The length of the answer's body; null without an answer, and where the message's redaction applies.
    response_bytes: Annotated[int, Meta(ge=0)] | None
    #: The workflow run that the message belongs to; only there if it does (D-655).
    workflow_run_id: Text | UnsetType
    #: The step of the run that the message is about; null for the first call and for failure functions.
    step: str | UnsetType | None
    #: Where a destination rule forwarded the attempt, which is what answered; only there if one did.
    forwarded_to: Text | UnsetType
    chaos: ChaosDone | UnsetType
    #: Which redelivery of the world it is, from 1: a call had the attempt sent again, which changes nothing of the
    #: message (D-705). Only there for such a one.
    redelivery: PositiveNumber | UnsetType


def brief_view(delivery: history.RecordedDelivery, *, redact: bool) -> BriefDelivery:
    """An attempt as a line of a list. What its message hides is hidden with `redact`."""
    message, answer = delivery.message, delivery.outcome.response
    visibility = visibility_of(message, surface_of(redact=redact))
    outcome = visibility.outcome(delivery.outcome)
    response = outcome.response
    failed = response is not None and not 200 <= response.status < 300
    return BriefDelivery(
        seq=delivery.seq,
        at_ms=delivery.at_ms,
        message_id=message.message_id,
        attempt=delivery.attempt,
        attempts=message.policy.max_retries + 1,
        **source_of(message),
        via=outcome.via,
        status=None if response is None else response.status,
        error=outcome.error,
        excerpt=_excerpt(response) if response and failed else None,
        retry=_retry(delivery),
        duration_ms=delivery.finished_ms - delivery.at_ms,
        took_ms=outcome.took_ms,
        labels=message.policy.labels,
        request_bytes=visibility.size(messages.delivered_bytes(message)),
        response_bytes=None if answer is None else visibility.size(answer.body_bytes),
        workflow_run_id=run_of(message),
        step=step_name_of(message),
        forwarded_to=_forwarded_to(delivery),
        chaos=_chaos(delivery),
        redelivery=delivery.outcome.redelivery or UNSET,
    )


def _excerpt(response: messages.Response) -> str:
    body = decompressed(response, (), 4 * _EXCERPT).body
    return body[: 4 * _EXCERPT].decode(errors="replace")[:_EXCERPT]


def _forwarded_to(delivery: history.RecordedDelivery) -> str | UnsetType:
    """Where a rule forwarded an attempt, if one did (D-677)."""
    rule = delivery.answered_by
    if rule is None or rule.forward_to is None or delivery.outcome.via is not Via.RULE:
        return UNSET
    return rule.forward_to


def _retry(delivery: history.RecordedDelivery) -> str | None:
    message, outcome = delivery.message, delivery.outcome
    is_last = outcome.non_retryable or delivery.attempt > message.policy.max_retries
    if outcome.succeeded or is_last or outcome.redelivery or is_duplicate(delivery.answered_by):
        return None
    return arithmetic(delay_after(message, outcome, retried=delivery.attempt - 1, now_ms=delivery.finished_ms))


class DeliveryResponse(View):
    """What the destination answered."""

    status: Status  #: The status.
    headers: HeaderValues
    body: str | None  #: The body, if it is UTF-8 text; unpacked if it came in gzip (D-440).
    body_base64: Base64 | None  #: The body as it came, if it is not UTF-8 text.
    #: That `body` and `body_base64` are the beginning of a longer one (D-790); only there if they are.
    truncated: bool | UnsetType


class Delivery(View):
    """One attempt to deliver a message."""

    seq: PositiveNumber  #: The number of the attempt in the journal.
    at: Instant = TWIN
    at_ms: InstantMs
    created_ms: InstantMs  #: When the message was created.
    message_id: MessageId  #: The message.
    attempt: PositiveNumber  #: Which attempt of the message it is, from 1.
    method: Method  #: The method of the request.
    url: Url  #: The destination, exactly as it was published.
    #: The workflow run that the message belongs to; only there if it does.
    workflow_run_id: Text | UnsetType
    #: The step of the run that the message is about; null for the first call and for failure functions.
    step: str | UnsetType | None
    labels: tuple[str, ...]  #: The labels of the message.
    queue: str | None  #: The queue that the message was enqueued in.
    schedule_id: str | None  #: The schedule that made the message.
    headers: HeaderValues
    #: What the message hides where it is not asked for, as Svc-Redact-Fields spells it; only there if it hides
    #: something.
    redacts: tuple[Text, ...] | UnsetType
    body: str | None  #: The body that was sent, if it is UTF-8 text.
    body_base64: Base64 | None  #: The body that was sent, if it is not UTF-8 text.
    via: Via  #: What answered.
    response: DeliveryResponse | None  #: The answer; null if there was none.
    error: str | None  #: Why there was no answer.
    duration_ms: WholeNumber  #: How long the attempt took on the virtual clock, in milliseconds.
    #: How long the attempt took in real time, in milliseconds; null if it never left the emulator (D-510).
    took_ms: Annotated[int, Meta(ge=0)] | None
    #: Where a destination rule forwarded the attempt, which is what answered; only there if one did.
    forwarded_to: Text | UnsetType
    chaos: ChaosDone | UnsetType
    #: Which redelivery of the world it is, from 1: a call had the attempt sent again, which changes nothing of the
    #: message (D-705). Only there for such a one.
    redelivery: PositiveNumber | UnsetType


def delivery_view(delivery: history.RecordedDelivery, *, redact: bool) -> Delivery:
    """One attempt: what was sent and what came back, exactly, or with the message's redaction applied."""
    message = delivery.message
    visibility = visibility_of(message, surface_of(redact=redact))
    headers = headers_of_attempt(
        message, delivery.attempt, delivery.at_ms, delivery.outcome, is_duplicate=is_duplicate(delivery.answered_by)
    )
    outcome = visibility.outcome(delivery.outcome)
    text, base64 = _content(visibility.body(message.body))
    response: DeliveryResponse | None = None
    if outcome.response is not None:
        response = (_short_response if len(outcome.response.body) <= _SHORT_BODY else _response)(outcome.response)
    return Delivery(
        seq=delivery.seq,
        at_ms=delivery.at_ms,
        created_ms=message.created_ms,
        message_id=message.message_id,
        attempt=delivery.attempt,
        method=message.method,
        url=message.url,
        workflow_run_id=run_of(message),
        step=step_name_of(message),
        labels=message.policy.labels,
        queue=message.policy.queue,
        schedule_id=message.source.schedule_id,
        headers=values_by_name(visibility.headers(headers)),
        redacts=redacted_fields(message.policy.redaction) or UNSET,
        body=text,
        body_base64=base64,
        via=outcome.via,
        response=response,
        error=outcome.error,
        duration_ms=delivery.finished_ms - delivery.at_ms,
        took_ms=outcome.took_ms,
        forwarded_to=_forwarded_to(delivery),
        chaos=_chaos(delivery),
        redelivery=delivery.outcome.redelivery or UNSET,
    )


def _response(response: messages.Response) -> DeliveryResponse:
    text, base64 = _content(response.body)
    is_truncated = response.is_truncated
    if text is None:
        # What came in gzip is shown unpacked, beside the bytes as they came (D-440).
        unpacked = decompressed(response, ())
        text = None if unpacked is response else _content(unpacked.body)[0]
        is_truncated = unpacked.is_truncated
    return DeliveryResponse(
        status=response.status,
        headers=values_by_name(response.headers),
        body=text,
        body_base64=base64,
        truncated=True if is_truncated else UNSET,
    )


# Thousands of attempts have the same short answer.
_SHORT_BODY = 1_024
_short_response = lru_cache(maxsize=64)(_response)


def _chaos(delivery: history.RecordedDelivery) -> ChaosDone | UnsetType:
    did = disturbed(delivery.outcome, delivery.answered_by, delivery.attempt)
    return UNSET if did is None else chaos_view(delivery.message, delivery.attempt, did)


def _content(body: bytes) -> tuple[str | None, str | None]:
    """A body as text, or as base64 if it is not UTF-8; the other one is None."""
    try:
        return body.decode(), None
    except UnicodeDecodeError:
        return None, b64encode(body).decode()


class DeliveryCount(View):
    """How many attempts fit in all, if that was asked for (D-481)."""

    attempts: WholeNumber
    messages: WholeNumber  #: How many messages they are of.


class DeliveryPage(View):
    """A page of the delivery journal."""

    deliveries: tuple[msgspec.Raw, ...]
    cursor: str | None
    count: DeliveryCount | UnsetType
    dropped: Dropped | UnsetType


async def list_deliveries(call: ControlCall) -> DeliveryPage:
    given = control_query(call.parts.query, *PARAMETERS)
    query, redact = read_delivery_query(given), given.flag("redact")
    # Without headers and bodies (D-322); with how many attempts fit in all (D-481).
    brief, counts = given.flag("brief"), given.flag("count")
    await call.world.current_state()
    recorded = call.world.history
    page = await recorded.deliveries(query)
    found = page.items if brief else await recorded.as_sent(page.items)
    return DeliveryPage(
        # Encoded one by one: thousands of headers and bodies that live together start the garbage collector.
        deliveries=tuple(
            encoded(brief_view(each, redact=redact) if brief else delivery_view(each, redact=redact)) for each in found
        ),
        cursor=page.cursor,
        count=DeliveryCount(**asdict(await recorded.count_deliveries(query))) if counts else UNSET,
        dropped=dropped_view(recorded.dropped_deliveries),
    )


async def clear_deliveries(call: ControlCall) -> Response:
    await call.world.history.clear_deliveries()
    return Answer(status=204)


class RedeliveredAttempt(View):
    """The result of sending an attempt again."""

    redelivery: PositiveNumber  #: Which redelivery of the world it is, from 1.
    #: The delivery that it made, with the answer; null if the answer is not there yet.
    delivery: Delivery | None


async def redeliver_attempt(call: ControlCall) -> RedeliveredAttempt:
    redact = read_shown(call.parts.query)
    seq = int(call.name) if re.fullmatch("[0-9]{1,15}", call.name) else 0
    number, found = await redeliver(call.world, seq, call.name)
    shown = None if found is None else delivery_view(found, redact=redact)
    return RedeliveredAttempt(redelivery=number, delivery=shown)


ROUTES: tuple[ControlRoute, ...] = (
    ControlRoute("GET", "/_emulator/deliveries", list_deliveries, OWN_QUERY),
    ControlRoute("DELETE", "/_emulator/deliveries", clear_deliveries, OWN_QUERY),
    ControlRoute("POST", "/_emulator/deliveries/{name}/redeliver", redeliver_attempt, OWN_QUERY),
)
