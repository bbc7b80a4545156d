"""The delivery journal in the control API's JSON. Unlike on the messaging API, a field without a value is null."""

from __future__ import annotations

from base64 import b64encode

from emulator.core.model import Message
from emulator.core.rules.destination_rules import mark_of
from emulator.queries.history import Delivery, DeliveryQuery
from emulator.wire.control.instants import instant_fields
from emulator.wire.control.parameters import Pairs, read_limit, read_parameters
from emulator.wire.control.rules import values_by_name
from emulator.wire.control.workflow_names import run_fields
from emulator.wire.json_fields import Json, read_choice
from emulator.wire.messaging.outgoing import headers_of_attempt
from emulator.wire.reasons import disturbed, is_duplicate
from emulator.wire.redaction import redact_headers, redacted_text

MAX_LIMIT = 1000

_PARAMETERS = ("url", "message_id", "outcome", "order", "limit", "cursor", "redact")
# As the messaging API spells them.
_ORDERS = ("earliestFirst", "latestFirst")
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
        latest_first=read_choice(given.get("order", _ORDERS[0]), "order", _ORDERS) == _ORDERS[1],
        outcome=None if outcome is None else _OUTCOMES[read_choice(outcome, "outcome", tuple(_OUTCOMES))],
    )


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
    did = disturbed(outcome, delivery.answered_by, delivery.attempt)
    chaos: dict[str, Json] = {} if did is None else {"chaos": chaos_view(message, delivery.attempt, did)}
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
    } | chaos


def chaos_view(message: Message, attempt: int, did: str) -> dict[str, Json]:
    """What chance did to an attempt: the name by which a rule can spare it, and what that was."""
    return {"id": mark_of(message, attempt), "did": did}


def _content(body: bytes) -> dict[str, Json]:
    """A body as text, or as base64 if it is not UTF-8; the other one is null."""
    try:
        return {"body": body.decode(), "body_base64": None}
    except UnicodeDecodeError:
        return {"body": None, "body_base64": b64encode(body).decode()}
