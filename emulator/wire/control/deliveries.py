"""The delivery journal in the control API's JSON. Unlike on the messaging API, a field without a value is null."""

from __future__ import annotations

from base64 import b64encode

from emulator.core.model.messages import Message
from emulator.core.rules.destination_rules import mark_of
from emulator.core.rules.retries import delay_after
from emulator.queries.history import Delivery, DeliveryQuery
from emulator.wire.control.instants import instant_fields
from emulator.wire.control.parameters import Pairs, read_flag, read_limit, read_parameters
from emulator.wire.control.rules import values_by_name
from emulator.wire.control.workflow_names import run_fields
from emulator.wire.json_fields import Json, read_choice
from emulator.wire.messaging.outgoing import headers_of_attempt
from emulator.wire.reasons import arithmetic, disturbed, is_duplicate
from emulator.wire.redaction import redact_headers, redacted_text

MAX_LIMIT = 1000

_PARAMETERS = ("url", "message_id", "outcome", "order", "limit", "cursor", "redact", "brief")
# As the messaging API spells them.
_ORDERS = ("earliestFirst", "latestFirst")
# As much of a failing answer as says why.
_EXCERPT = 200
_OUTCOMES = {"succeeded": "succeeded", "delivered": "succeeded", "failed": "failed"}


def read_delivery_query(pairs: Pairs) -> DeliveryQuery:
    """The query of the delivery journal. Raises: InvalidInput.

    `outcome` is succeeded or failed; `delivered` is taken for succeeded.
    """
    given = read_parameters(pairs, _PARAMETERS)
    outcome = given.get("outcome")
    return DeliveryQuery(
        limit=read_limit(given["limit"], MAX_LIMIT) if "limit" in given else DeliveryQuery().limit,
        cursor=given.get("cursor"),
        url=given.get("url"),
        message_id=given.get("message_id"),
        outcome=None if outcome is None else _OUTCOMES[read_choice(outcome, "outcome", tuple(_OUTCOMES))],
        latest_first=read_choice(given.get("order", _ORDERS[0]), "order", _ORDERS) == _ORDERS[1],
    )


def read_brief(pairs: Pairs) -> bool:
    """Whether attempts are asked for without headers and bodies (D-322). Raises: InvalidInput."""
    return any(read_flag(value, name) for name, value in pairs if name == "brief" and value)


def brief_view(delivery: Delivery) -> dict[str, Json]:
    """One attempt as a line of a list: no headers and no bodies, but what the message was made of (D-322).

    `attempts` is how many it may have in all; `excerpt` the first 200 characters of a failing answer; `retry` how the
    delay of the next attempt comes about, None if there is none (D-324). If chance did something, `chaos` says what
    (D-439).
    """
    message, outcome = delivery.message, delivery.outcome
    response = outcome.response
    failed = response is not None and not 200 <= response.status < 300
    return {
        "seq": delivery.seq,
        **instant_fields("at", delivery.at_ms),
        "message_id": message.message_id,
        "attempt": delivery.attempt,
        "attempts": message.max_retries + 1,
        "method": message.method.value,
        "url": message.url,
        "via": outcome.via.value,
        "status": None if response is None else response.status,
        "error": outcome.error,
        "excerpt": response.body[: 4 * _EXCERPT].decode(errors="replace")[:_EXCERPT] if response and failed else None,
        "retry": _retry(delivery),
        "duration_ms": delivery.finished_ms - delivery.at_ms,
        "created_ms": message.created_ms,
        "created_by": message.created_by.value,
        "schedule_id": message.schedule_id,
        "queue": message.queue,
        "url_group": message.url_group,
        "flow_control_key": None if message.flow_control is None else message.flow_control.key,
        "labels": list(message.labels),
        "source_message_id": message.source_message_id,
    } | _chaos(delivery)


def _retry(delivery: Delivery) -> str | None:
    message, outcome = delivery.message, delivery.outcome
    is_last = outcome.non_retryable or delivery.attempt > message.max_retries
    if outcome.succeeded or is_last or is_duplicate(delivery.answered_by):
        return None
    return arithmetic(delay_after(message, outcome, retried=delivery.attempt - 1, now_ms=delivery.finished_ms))


def delivery_view(delivery: Delivery, *, redact: bool) -> dict[str, Json]:
    """One attempt: what was sent and what came back, exactly, or with the message's redaction applied."""
    message, outcome = delivery.message, delivery.outcome
    headers = headers_of_attempt(
        message, delivery.attempt, delivery.at_ms, outcome, is_duplicate=is_duplicate(delivery.answered_by)
    )
    body = message.body
    if redact and message.redaction is not None:
        headers = redact_headers(headers, message.redaction)
        body = redacted_text(body).encode() if body and message.redaction.body else body
    response: dict[str, Json] | None = None
    if outcome.response is not None:
        response = {
            "status": outcome.response.status,
            "headers": values_by_name(outcome.response.headers),
            **_content(outcome.response.body),
        }
    return {
        "seq": delivery.seq,
        **instant_fields("at", delivery.at_ms),
        "created_ms": message.created_ms,
        "message_id": message.message_id,
        "attempt": delivery.attempt,
        "method": message.method.value,
        "url": message.url,
        **run_fields(message),
        "headers": values_by_name(headers),
        **_content(body),
        "via": outcome.via.value,
        "response": response,
        "error": outcome.error,
        "duration_ms": delivery.finished_ms - delivery.at_ms,
    } | _chaos(delivery)


def _chaos(delivery: Delivery) -> dict[str, Json]:
    did = disturbed(delivery.outcome, delivery.answered_by, delivery.attempt)
    return {} if did is None else {"chaos": chaos_view(delivery.message, delivery.attempt, did)}


def chaos_view(message: Message, attempt: int, did: str) -> dict[str, Json]:
    """What chance did to an attempt: the name by which a rule can spare it, and what that was."""
    return {"id": mark_of(message, attempt), "did": did}


def _content(body: bytes) -> dict[str, Json]:
    """A body as text, or as base64 if it is not UTF-8; the other one is null."""
    try:
        return {"body": body.decode(), "body_base64": None}
    except UnicodeDecodeError:
        return {"body": None, "body_base64": b64encode(body).decode()}
