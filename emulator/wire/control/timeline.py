"""The delivery journal in rows: what a list shows of each attempt, without what was sent (D-324)."""

from __future__ import annotations

from emulator.core.model import AttemptOutcome, Message
from emulator.core.rules.retries import delay_after
from emulator.queries.history import Delivery, DeliveryQuery
from emulator.wire.control.parameters import Pairs, read_limit, read_parameters
from emulator.wire.json_fields import Json
from emulator.wire.reasons import arithmetic

MAX_LIMIT = 1_000
# So much of a failing answer's body stands in its row.
_SAID = 200


def read_timeline_query(pairs: Pairs) -> DeliveryQuery:
    """The query of the rows, the newest first. Raises: InvalidInput."""
    given = read_parameters(pairs, ("limit", "cursor"))
    return DeliveryQuery(
        limit=read_limit(given["limit"], MAX_LIMIT) if "limit" in given else DeliveryQuery().limit,
        cursor=given.get("cursor"),
        latest_first=True,
    )


def timeline_row(delivery: Delivery) -> dict[str, Json]:
    """One attempt. `said` begins a failing answer's body; `retry` says how the delay of the next attempt came about."""
    message, outcome = delivery.message, delivery.outcome
    response = outcome.response
    return {
        "seq": delivery.seq,
        "at_ms": delivery.at_ms,
        "duration_ms": delivery.finished_ms - delivery.at_ms,
        "message_id": message.message_id,
        "attempt": delivery.attempt,
        "max_attempts": message.max_retries + 1,
        "method": message.method.value,
        "url": message.url,
        "via": outcome.via.value,
        "status": None if response is None else response.status,
        "error": outcome.error,
        "said": None if response is None or outcome.succeeded else _beginning(response.body),
        "retry": None if outcome.succeeded else _retry(message, outcome, delivery),
        "created_ms": message.created_ms,
        "created_by": message.created_by.value,
        "source_message_id": message.source_message_id,
        "schedule_id": message.schedule_id,
        "queue": message.queue,
        "url_group": message.url_group,
        "labels": list(message.labels),
    }


def _beginning(body: bytes) -> str:
    # A character has four bytes at most.
    return body[: 4 * _SAID].decode("utf-8", "replace")[:_SAID]


def _retry(message: Message, outcome: AttemptOutcome, delivery: Delivery) -> str | None:
    if outcome.non_retryable or delivery.attempt > message.max_retries:
        return None
    return arithmetic(delay_after(message, outcome, retried=delivery.attempt - 1, now_ms=delivery.finished_ms))
