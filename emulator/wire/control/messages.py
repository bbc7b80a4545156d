"""Lists of messages and of dead letters as JSON, and the queries that ask for them."""

from __future__ import annotations

from collections.abc import Mapping

from emulator.core.errors import InvalidInput
from emulator.core.language.excerpts import excerpt
from emulator.core.model.messages import Message, Phase
from emulator.core.state_view import StateView
from emulator.queries.history import DeadLetterEntry, DeadLetterQuery, MessageFilter
from emulator.queries.listings import LIVE, ListedMessage, MessageQuery
from emulator.wire.control.instants import instant_fields
from emulator.wire.control.parameters import Pairs, read_limit, read_parameters
from emulator.wire.json_fields import Json
from emulator.wire.reasons import answered, held_by

MAX_LIMIT = 1000

_FILTERS = ("url", "label", "schedule", "queue", "id", "text")
_PAGE = ("limit", "cursor")
_STATES: Mapping[str, frozenset[Phase]] = {
    **{phase.value: frozenset((phase,)) for phase in Phase},
    "LIVE": LIVE,
    "ENDED": frozenset(Phase) - LIVE,
}


def read_message_query(pairs: Pairs) -> MessageQuery:
    """The query of a list of messages. `state` may be several, with commas between them. Raises: InvalidInput."""
    given = read_parameters(pairs, (*_FILTERS, "state", *_PAGE))
    phases: frozenset[Phase] = frozenset()
    for name in given.get("state", "").split(",") if "state" in given else ():
        if name.strip().upper() not in _STATES:
            expected = ", ".join(state.lower() for state in _STATES)
            raise InvalidInput("state", f"expected some of {expected}, got {excerpt(name)}")
        phases |= _STATES[name.strip().upper()]
    return MessageQuery(limit=_limit(given), cursor=given.get("cursor"), wanted=_filter(given), phases=phases)


def read_dead_letter_query(pairs: Pairs) -> DeadLetterQuery:
    """The query of a list of dead letters of all accounts, the newest first. Raises: InvalidInput."""
    given = read_parameters(pairs, (*_FILTERS, *_PAGE))
    return DeadLetterQuery(
        account_id=None, count=_limit(given), cursor=given.get("cursor"), latest_first=True, wanted=_filter(given)
    )


def _limit(given: Mapping[str, str]) -> int:
    return read_limit(given["limit"], MAX_LIMIT) if "limit" in given else MessageQuery().limit


def _filter(given: Mapping[str, str]) -> MessageFilter:
    return MessageFilter(
        url=given.get("url"),
        label=given.get("label"),
        schedule_id=given.get("schedule"),
        queue=given.get("queue"),
        id=given.get("id"),
        text=given.get("text"),
    )


def message_view(listed: ListedMessage) -> dict[str, Json]:
    """A message, where it stands, and how its last attempt went; `attempts` counts those that were begun."""
    course, hold, last = listed.course, None, listed.course.last
    if listed.progress is not None and listed.phase is Phase.HELD:
        hold = listed.progress.hold
    response = None if last is None else last.outcome.response
    return {
        **_message_fields(course.message),
        "state": listed.phase.value,
        "attempts": course.attempts,
        "max_attempts": course.message.max_retries + 1,
        "cancel_requested": listed.progress is not None and listed.progress.cancel_requested,
        **instant_fields("next", listed.next_ms),
        "waits": None if hold is None else held_by(hold.kind, hold.name, hold.reason),
        **instant_fields("ended", course.ended_ms),
        "last_status": None if response is None else response.status,
        "last_error": None if last is None else last.outcome.error,
        "last_result": None if last is None else answered(last.outcome, last.answered_by),
        "dead_letter_id": listed.dead_letter_id,
    }


def dead_letter_view(entry: DeadLetterEntry, state: StateView) -> dict[str, Json]:
    """A dead letter with its message, and the attempt that was the last."""
    response = entry.outcome.response
    retention_ms = state.accounts[entry.message.account_id].account.max_dlq_retention_time_milis
    return {
        "dead_letter_id": entry.dead_letter_id,
        **_message_fields(entry.message),
        "max_attempts": entry.message.max_retries + 1,
        **instant_fields("failed", entry.failed_ms),
        **instant_fields("expires", entry.failed_ms + retention_ms),
        "last_status": None if response is None else response.status,
        "last_error": entry.outcome.error,
        "last_result": answered(entry.outcome, None),
    }


def _message_fields(message: Message) -> dict[str, Json]:
    return {
        "message_id": message.message_id,
        "account_id": message.account_id,
        "method": message.method.value,
        "url": message.url,
        **instant_fields("created", message.created_ms),
        "created_by": message.created_by.value,
        "labels": list(message.labels),
        "schedule_id": message.schedule_id,
        "queue": message.queue,
        "url_group": message.url_group,
        "flow_control_key": None if message.flow_control is None else message.flow_control.key,
        "source_message_id": message.source_message_id,
    }
