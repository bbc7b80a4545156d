"""`/_emulator/messages`: the messages of all accounts, live and ended, each with its state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from msgspec import Meta, UnsetType

from emulator.control.call import OWN_QUERY, ControlCall, ControlRoute
from emulator.control.records import (
    TWIN,
    Dropped,
    Instant,
    InstantMs,
    Status,
    Text,
    View,
    dropped_view,
    run_number_of,
    run_of,
    source_of,
    step_name_of,
)
from emulator.core.errors import InvalidInput
from emulator.core.language.text import excerpt
from emulator.core.model.messages import CreatedBy, HeldDestination, Hold, HoldKind, Phase, Progress
from emulator.core.model.options import Method
from emulator.core.record import AccountId, DeadLetterId, MessageId
from emulator.queries.history import (
    LIVE,
    HistoryFilter,
    MessageProgress,
    MessageQuery,
    as_of,
)
from emulator.wire.query_reader import Pairs, Query, control_query
from emulator.wire.reasons import answered, held_by
from emulator.wire.redaction import Surface, visibility_of

MAX_LIMIT, DEFAULT_LIMIT = 1000, MessageQuery().limit

FILTERS = ("url", "label", "schedule", "queue", "id", "text", "run")
PAGE = ("limit", "cursor")
_STATES: Mapping[str, frozenset[Phase]] = {
    **{phase.value: frozenset((phase,)) for phase in Phase},
    "LIVE": LIVE,
    "ENDED": frozenset(Phase) - LIVE,
}


def read_message_query(pairs: Pairs) -> MessageQuery:
    """The query of a list of messages. `state` may be several, with commas between them. Raises: InvalidInput."""
    given = control_query(pairs, *FILTERS, "state", *PAGE)
    states, phases = given.text("state"), frozenset[Phase]()
    for name in () if states is None else states.split(","):
        if name.strip().upper() not in _STATES:
            expected = ", ".join(state.lower() for state in _STATES)
            raise InvalidInput("state", f"expected some of {expected}, got {excerpt(name)}")
        phases |= _STATES[name.strip().upper()]
    limit = given.limit(MAX_LIMIT, DEFAULT_LIMIT)
    return MessageQuery(limit=limit, cursor=given.text("cursor"), wanted=read_filter(given), phases=phases)


def read_filter(given: Query) -> HistoryFilter:
    """What a list of messages or of dead letters is asked for by `FILTERS`. Raises: InvalidInput."""
    return HistoryFilter(
        url=given.url("url"),
        label=given.text("label"),
        schedule_id=given.text("schedule"),
        queue=given.text("queue"),
        id=given.text("id"),
        text=given.text("text"),
        run=given.text("run"),
    )


class ListedMessage(View):
    """A message in a list, with its state."""

    message_id: MessageId  #: The message.
    account_id: AccountId  #: The queue account it belongs to.
    method: Method  #: The method it is delivered with.
    url: Text  #: Its destination.
    created: Instant = TWIN  #: When it was made.
    created_ms: InstantMs
    created_by: CreatedBy  #: What made it.
    labels: tuple[str, ...]  #: Its labels.
    schedule_id: str | None  #: The schedule that made it.
    queue: str | None  #: The queue it is in.
    url_group: str | None  #: The URL group it was published to.
    flow_control_key: str | None  #: Its flow control key.
    source_message_id: MessageId | None  #: The message that a callback reports on; null for any other.
    state: Phase  #: Its state.
    attempts: Annotated[int, Meta(ge=0)]  #: How many attempts were begun.
    max_attempts: Annotated[int, Meta(ge=1)]  #: How many attempts it may have.
    cancel_requested: bool  #: Whether it ends as canceled once its attempt is back.
    next: Instant | None = TWIN  #: When it may leave next; null unless it waits for an instant.
    next_ms: InstantMs | None
    waits: str | None  #: What holds a message that is due; null for any other.
    ended: Instant | None = TWIN  #: When it ended; null for one that is live.
    ended_ms: InstantMs | None
    last_status: Status | None  #: The status of the last answer; null without an answer.
    last_error: str | None  #: Why the last attempt had no answer; null if it had one, or none came back yet.
    last_result: str | None  #: How the last attempt went and what answered it, in words; null before any.
    dead_letter_id: DeadLetterId | None  #: Its dead letter, if that is still there.
    workflow_run_id: Text | UnsetType  #: The workflow run that it belongs to; only there if it does (D-655).
    #: The number of that run, which tells runs of one id apart (D-692).
    workflow_run_number: Annotated[int, Meta(ge=1)] | UnsetType
    #: The step of the run that it is about; null for the first call and for failure functions.
    step: str | UnsetType | None


class MessagePage(View):
    """A page of the messages of a world."""

    messages: tuple[ListedMessage, ...]
    cursor: str | None
    dropped: Dropped | UnsetType


def _hold_text(hold: Hold, destinations: Mapping[str, HeldDestination]) -> str:
    destination = destinations.get(hold.name) if hold.kind is HoldKind.DESTINATION else None
    return held_by(hold.kind, hold.name, hold.reason) if destination is None else destination.why


def _listed(
    recorded: MessageProgress,
    progress: Progress | None,
    letters: Mapping[MessageId, DeadLetterId],
    destinations: Mapping[str, HeldDestination],
) -> ListedMessage:
    """A message, its state, and how its last attempt went; `progress` is None for one that has ended.

    `destinations` are those that are held.
    """
    message, last = recorded.message, recorded.last
    phase = recorded.ended if progress is None else progress.phase
    assert phase is not None
    hold = progress.dispatch.hold if progress is not None and phase is Phase.HELD else None
    is_timed = progress is not None and phase in (Phase.PENDING, Phase.RETRYING)
    outcome = None if last is None else visibility_of(message, Surface.OWN).outcome(last.outcome)
    response = None if outcome is None else outcome.response
    return ListedMessage(
        message_id=message.message_id,
        account_id=message.account_id,
        **source_of(message),
        labels=message.policy.labels,
        state=phase,
        attempts=recorded.attempts,
        max_attempts=message.policy.max_retries + 1,
        cancel_requested=progress is not None and progress.dispatch.cancel_requested,
        next_ms=progress.due_ms if progress is not None and is_timed else None,
        waits=None if hold is None else _hold_text(hold, destinations),
        ended_ms=recorded.ended_ms,
        last_status=None if response is None else response.status,
        last_error=None if outcome is None else outcome.error,
        last_result=None if last is None or outcome is None else answered(outcome, last.answered_by),
        dead_letter_id=letters.get(message.message_id),
        workflow_run_id=run_of(message),
        workflow_run_number=run_number_of(message),
        step=step_name_of(message),
    )


async def list_messages(call: ControlCall) -> MessagePage:
    query = read_message_query(call.parts.query)
    at = as_of(await call.world.current_state())
    page = await call.world.logs.page(query, at)
    letters = {
        letter.message_id: letter.dead_letter_id
        for owner in call.world.state.accounts.values()
        for letter in owner.dead_letters.values()
    }
    destinations = call.world.state.held_destinations
    found = (
        # History is the later of the two.
        _listed(each, at.live[each.message.message_id] if each.ended is None else None, letters, destinations)
        for each in page.items
    )
    return MessagePage(messages=tuple(found), cursor=page.cursor, dropped=dropped_view(call.world.history.dropped))


ROUTES: tuple[ControlRoute, ...] = (ControlRoute("GET", "/_emulator/messages", list_messages, OWN_QUERY),)
