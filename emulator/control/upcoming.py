"""`/_emulator/upcoming`: what is due later, in the order in which it will happen, found without doing any of it.

Two lists: what has an instant (timers, and the expiries behind them), and what is due and waits without one (D-211).
Each kind is a record. A field that a kind does not have is left out; one that has no value is null.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import islice, takewhile
from operator import attrgetter
from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType
from msgspec.structs import replace

from emulator.control.call import OWN_QUERY, ControlCall, ControlRoute
from emulator.control.records import (
    TWIN,
    ChaosDone,
    Instant,
    InstantMs,
    LocalTime,
    PositiveNumber,
    Text,
    View,
    WholeNumber,
    chaos_view,
    of_message,
)
from emulator.control.waiting import UpcomingWait, not_left, waits
from emulator.core.language.calendar import LAST_LOCAL_MS
from emulator.core.model.messages import Message, TimerKind
from emulator.core.model.options import DestinationKind
from emulator.core.record import AccountId, DeadLetterId, FlowKey, MessageId, Record, RuleId, ScheduleId
from emulator.core.rules import destination_rules, retries
from emulator.core.rules.limits import READABLE_AFTER_END_MS, readable_until_ms
from emulator.core.rules.retries import RetryReason
from emulator.core.state import AccountView, StateView, cron_of, split_subject, split_waiter_subject
from emulator.core.timers import Timer
from emulator.queries.history import EndedMessage, Failure
from emulator.queries.workflow_runs import read_step, step_of
from emulator.wire.query_reader import Pairs, control_query
from emulator.wire.reasons import arithmetic
from emulator.wire.times import format_duration, iso, local_iso

DEFAULT_LIMIT = 1000
MAX_LIMIT = 10_000


class UpcomingQuery(Record):
    """How far to look ahead (None: to the end, and each schedule's next firing only), for how much, and for what."""

    until_ms: int | None
    limit: int
    expiries: bool = True


# -- what has an instant ----------------------------------------------------------------------


class UpcomingItem(View):
    """Something that is due at an instant. Which fields it has depends on its kind."""

    #: What is due: a `schedule` fires; the first attempt of a delayed message (`delivery`) or a `retry` may
    #: leave; a rule's latency lets an `answer` through or the attempt meets its `timeout`; a rule has a
    #: delivery made again (`duplicate`); the period of a flow control key's rate ends (`rate_window`); a step of
    #: a workflow run has waited long enough (`wait`); a publish with a deduplication key is new again; a message
    #: that has ended is no longer found by its id; a dead letter leaves its queue by age; an `account` has
    #: changed its state.
    kind: str
    at: Instant = TWIN  #: When it is due.
    at_ms: InstantMs
    why: Text  #: Why it is due then, in one line.
    account_id: AccountId  #: The queue account it belongs to.


class ScheduleFiring(UpcomingItem):
    """A schedule publishes."""

    kind: Literal["schedule"] = "schedule"
    schedule_id: Text  #: The schedule.
    destination: Text  #: What the schedule publishes to, a URL or the name of a URL group.
    cron: Text  #: The schedule's expression, its time zone prefix included.
    time_zone: Text  #: The time zone in which it is read.
    local: LocalTime  #: The instant by the clock of that time zone.


class MessageItem(UpcomingItem):
    """Something that is due for a message."""

    message_id: MessageId  #: The message.
    url: Text  #: The destination of the message.
    workflow_run_id: Text | UnsetType = UNSET  #: The workflow run that it is about, or that waits.
    step: str | UnsetType | None = UNSET  #: The step of that run; null for the first call and for failure functions.


class FirstAttempt(MessageItem):
    """A delayed message may leave."""

    kind: Literal["delivery"] = "delivery"
    created: Instant = TWIN  #: When the message was made.
    created_ms: InstantMs
    chaos: ChaosDone | UnsetType = UNSET


class Retry(MessageItem):
    """A message is tried again; what set its delay is null if it was retried while that was looked up."""

    kind: Literal["retry"] = "retry"
    retry: PositiveNumber  #: Which retry it is, from 1.
    retries: PositiveNumber  #: How many retries the message has at most.
    delay_ms: WholeNumber | None = None  #: The delay of the retry, in milliseconds.
    set_by: RetryReason | None = None  #: What set the delay.
    arithmetic: str | None = None  #: How the delay came about, in one line.
    chaos: ChaosDone | UnsetType = UNSET


class RuleAnswer(MessageItem):
    """A rule's latency passes, and the attempt under way has its answer, or has timed out."""

    kind: Literal["answer", "timeout"]
    attempt: PositiveNumber  #: Which attempt is under way, from 1.
    rule_id: RuleId | None  #: The destination rule that decided the attempt; null if it is gone.
    chaos: ChaosDone | UnsetType


class Redelivery(MessageItem):
    """A rule has the delivery of an attempt made again (D-421)."""

    kind: Literal["duplicate"] = "duplicate"
    attempt: PositiveNumber
    rule_id: RuleId | None
    chaos: ChaosDone


class RateWindowEnd(UpcomingItem):
    """A flow control key's rate period ends."""

    kind: Literal["rate_window"] = "rate_window"
    key: Text  #: The flow control key or the deduplication key.
    rate: WholeNumber | None  #: How many messages the key lets start in a period.
    period_ms: WholeNumber  #: The length of the period, in milliseconds.
    waiting: WholeNumber  #: How many messages wait for the key.


class WaitDeadline(UpcomingItem):
    """A step of a workflow run has waited for its event long enough."""

    kind: Literal["wait"] = "wait"
    workflow_run_id: Text
    step: str | None
    url: Text
    event_id: Text  #: The event that it waits for.


class DeduplicationExpiry(UpcomingItem):
    """A publish with this key is a new message again."""

    kind: Literal["deduplication_expiry"] = "deduplication_expiry"
    message_id: MessageId
    key: Text


class MessageExpiry(MessageItem):
    """A message that has ended is no longer found by its id."""

    kind: Literal["message_expiry"] = "message_expiry"


class DeadLetterExpiry(UpcomingItem):
    """A dead letter leaves the queue by age."""

    kind: Literal["dead_letter_expiry"] = "dead_letter_expiry"
    message_id: MessageId
    dead_letter_id: DeadLetterId  #: The dead letter.


class AccountTransition(UpcomingItem):
    """A change of an account's state is through."""

    kind: Literal["account"] = "account"


class Upcoming(View):
    """The due work to come."""

    now: Instant = TWIN  #: The present virtual instant.
    now_ms: InstantMs
    until: Instant | None = TWIN  #: The last instant that is listed, as it was asked for.
    until_ms: InstantMs | None
    #: What is due at an instant, in order.
    items: Annotated[tuple[UpcomingItem, ...], Meta(max_length=MAX_LIMIT)]
    #: What is due and waits for something else, attempts under way first.
    waiting: Annotated[tuple[UpcomingWait, ...], Meta(max_length=MAX_LIMIT)]
    truncated: bool  #: Whether there is more of one of the two lists.


async def list_upcoming(call: ControlCall) -> Upcoming:
    query = read_upcoming(call.parts.query)
    world = call.world
    await world.current_state()
    state = world.state
    ended: Sequence[EndedMessage] = ()
    if query.expiries:
        ended = await world.logs.ended_after(state.now_ms - READABLE_AFTER_END_MS, query.limit + 1)
    found = preview(state, query, ended=ended, not_left=not_left(world))
    retrying = {
        each.message_id: state.messages[each.message_id].message for each in found.items if isinstance(each, Retry)
    }
    # What failed is in history only, and the state may change while that is read.
    failures = await world.logs.last_failures(message.number for message in retrying.values())
    return with_delays(found, retrying, failures)


def read_upcoming(pairs: Pairs) -> UpcomingQuery:
    """The query of a listing of due work: `until` (ISO 8601 or ms), `limit`, `expiries`. Raises: InvalidInput."""
    given = control_query(pairs, "until", "limit", "expiries")
    return UpcomingQuery(
        until_ms=given.instant_ms("until"),
        limit=given.limit(MAX_LIMIT, DEFAULT_LIMIT),
        expiries=given.flag("expiries", default=True),
    )


def preview(
    state: StateView, query: UpcomingQuery, *, ended: Sequence[EndedMessage] = (), not_left: Collection[MessageId] = ()
) -> Upcoming:
    """All due work to come. `until_ms` None lists everything, and of each schedule the next firing only (D-210).

    `ended` are the messages that ended lately, in order; `not_left` those whose attempts have started and wait to
    leave. Retries come without their arithmetic; see `with_delays`.
    """
    items = list(islice(_items(state, query, ended), query.limit + 1))
    waiting = list(islice(waits(state, not_left), query.limit + 1))
    return Upcoming(
        now_ms=state.now_ms,
        until_ms=query.until_ms,
        items=tuple(items[: query.limit]),
        waiting=tuple(waiting[: query.limit]),
        truncated=len(items) > query.limit or len(waiting) > query.limit,
    )


def with_delays(
    found: Upcoming, retrying: Mapping[MessageId, Message], failures: Mapping[MessageId, Failure]
) -> Upcoming:
    """The same preview, its retries with the arithmetic that set their delay; `retrying` are their messages."""
    items = list(found.items)
    for index, retry in enumerate(items):
        failure = failures.get(retry.message_id) if isinstance(retry, Retry) else None
        # It may have been retried while history was read.
        if isinstance(retry, Retry) and failure is not None and failure.number == retry.retry:
            message, retried = retrying[retry.message_id], retry.retry - 1
            delay = retries.delay_after(message, failure.outcome, retried=retried, now_ms=failure.at_ms)
            how = arithmetic(delay)
            items[index] = replace(
                retry, why=f"{retry.why}: {how}", delay_ms=delay.delay_ms, set_by=delay.reason, arithmetic=how
            )
    return replace(found, items=tuple(items))


# -- finding it -------------------------------------------------------------------------------


def _items(state: StateView, query: UpcomingQuery, ended: Sequence[EndedMessage]) -> Iterator[UpcomingItem]:
    """Everything that has an instant; at one instant expiries come last."""
    last_ms = LAST_LOCAL_MS if query.until_ms is None else min(query.until_ms, LAST_LOCAL_MS)
    timers = _timers(state, last_ms, every_firing=query.until_ms is not None)
    streams: list[Iterator[UpcomingItem]] = [
        (make(state, timer) for timer in timers if (make := OF_TIMER[timer.kind]) is not None)
    ]
    if query.expiries:
        streams += [expiries(owner) for owner in state.accounts.values() for expiries in _EXPIRIES]
    # `merge` keeps the order of the streams where instants are equal.
    found = heapq.merge(*streams, map(_message_expiry, ended), key=attrgetter("at_ms"))
    return takewhile(lambda item: item.at_ms <= last_ms, found)


def _timers(state: StateView, last_ms: int, *, every_firing: bool) -> Iterator[Timer]:
    """The timers in the order in which they fire, those included that a schedule's firings will arm."""
    armed = state.timers.up_to(last_ms)
    first = next(armed, None)
    later: list[Timer] = []
    sequence = state.timers.sequence
    while first is not None or later:
        if first is not None and not (later and later[0] < first):
            timer, first = first, next(armed, None)
        else:
            timer = heapq.heappop(later)
        yield timer
        if every_firing and timer.kind is TimerKind.SCHEDULE:
            account_id, name = split_subject(timer.subject)
            next_ms = cron_of(state.accounts[account_id].schedules[ScheduleId(name)]).next_after(timer.due_ms)
            if next_ms <= last_ms:
                sequence += 1
                heapq.heappush(later, replace(timer, due_ms=next_ms, sequence=sequence))


def _delivery(state: StateView, timer: Timer) -> FirstAttempt | Retry:
    progress = state.messages[MessageId(timer.subject)]
    message, at_ms, retried = progress.message, progress.due_ms, progress.dispatch.retried
    chaos = chaos_view(message, retried + 1, "put back") if progress.dispatch.postponed else UNSET
    if retried:
        most = message.policy.max_retries
        why = f"retry {retried} of {most}"
        return Retry(at_ms=at_ms, why=why, **of_message(message), retry=retried, retries=most, chaos=chaos)
    step = step_of(message)
    if message.run is not None and step is not None and step.is_sleep:
        why = f'step "{step.step_name}" of workflow run {message.run.run_id} sleeps until then'
    else:
        why = f"the first attempt, {format_duration(at_ms - message.created_ms)} after the message was made"
    return FirstAttempt(at_ms=at_ms, why=why, **of_message(message), created_ms=message.created_ms, chaos=chaos)


def _answer(state: StateView, timer: Timer) -> RuleAnswer:
    progress = state.messages[MessageId(timer.subject)]
    message, answer, attempt = progress.message, progress.dispatch.answer, progress.dispatch.retried + 1
    rule_id = None if answer is None else answer.rule_id
    duration = format_duration(timer.due_ms - progress.dispatch.started_ms)
    why = f"attempt {attempt} is answered after {duration}, the latency of {_rule(rule_id)}"
    has_timed_out = destination_rules.times_out(answer, message.policy.timeout_ms)
    if has_timed_out:
        why = f"attempt {attempt} times out after {duration}: {_rule(rule_id)} keeps it waiting longer"
    is_disturbed = answer is not None and answer.disturbance is not None
    return RuleAnswer(
        kind="timeout" if has_timed_out else "answer",
        at_ms=timer.due_ms,
        why=why,
        **of_message(message),
        attempt=attempt,
        rule_id=rule_id,
        chaos=chaos_view(message, attempt, "answer held back") if is_disturbed else UNSET,
    )


def _redelivery(state: StateView, timer: Timer) -> Redelivery:
    duplicate = state.duplicates[timer.subject]
    rule_id = None if duplicate.answer is None else duplicate.answer.rule_id
    return Redelivery(
        at_ms=duplicate.due_ms,
        why=f"{_rule(rule_id)} has attempt {duplicate.number} made again",
        **of_message(duplicate.message),
        attempt=duplicate.number,
        rule_id=rule_id,
        chaos=chaos_view(duplicate.message, duplicate.number, f"duplicate of attempt {duplicate.number}"),
    )


def _rule(rule_id: RuleId | None) -> str:
    return "a rule that is gone" if rule_id is None else rule_id


def _firing(state: StateView, timer: Timer) -> ScheduleFiring:
    account_id, name = split_subject(timer.subject)
    progress = state.accounts[account_id].schedules[ScheduleId(name)]
    cron, destination = cron_of(progress), progress.schedule.destination
    local = local_iso(timer.due_ms, cron.offset_minutes(timer.due_ms))
    target = f"URL group {destination.text}" if destination.kind is DestinationKind.GROUP else destination.text
    return ScheduleFiring(
        at_ms=timer.due_ms,
        why=f"the schedule fires at {local} in {cron.time_zone} ({cron.text}), to {target}",
        account_id=account_id,
        schedule_id=progress.schedule.schedule_id,
        destination=destination.text,
        cron=cron.text,
        time_zone=cron.time_zone,
        local=local,
    )


def _rate_window(state: StateView, timer: Timer) -> RateWindowEnd:
    account_id, name = split_subject(timer.subject)
    owner, key = state.accounts[account_id], FlowKey(name)
    flow, waiting = owner.flow_keys[key], len(owner.flow_wait_lists[key])
    period = format_duration(flow.period_ms)
    who = "1 message waits" if waiting == 1 else f"{waiting} messages wait"
    return RateWindowEnd(
        at_ms=timer.due_ms,
        why=f"flow control key {key} lets {flow.rate} start per {period}, and a new period begins; {who}",
        account_id=account_id,
        key=key,
        rate=flow.rate,
        period_ms=flow.period_ms,
        waiting=waiting,
    )


def _deadline(state: StateView, timer: Timer) -> WaitDeadline:
    account_id, number, run_id = split_waiter_subject(timer.subject)
    run = state.accounts[account_id].runs[run_id]
    (waiter,) = (each for each in run.waiters if each.number == number)
    step = read_step(waiter.step).step_name
    return WaitDeadline(
        at_ms=timer.due_ms,
        why=f'step "{step}" of workflow run {run.run_id} waits for the event {waiter.event_id} until then',
        account_id=run.account_id,
        workflow_run_id=run.run_id,
        step=step,
        url=run.url,
        event_id=waiter.event_id,
    )


def _deduplication_expiries(owner: AccountView) -> Iterator[UpcomingItem]:
    for key, (message_id, at_ms) in owner.deduplications.items():
        why = f"publishes with the key {key} are answered with {message_id} until then"
        yield DeduplicationExpiry(at_ms=at_ms, why=why, account_id=owner.account.id, message_id=message_id, key=key)


def _dead_letter_expiries(owner: AccountView) -> Iterator[UpcomingItem]:
    retention_ms = owner.account.max_dlq_retention_time_milis
    for letter in owner.dead_letters.values():
        yield DeadLetterExpiry(
            at_ms=letter.failed_ms + retention_ms,
            why=f"a dead letter is kept for {format_duration(retention_ms)}",
            account_id=letter.account_id,
            message_id=letter.message_id,
            dead_letter_id=letter.dead_letter_id,
        )


def _message_expiry(ended: EndedMessage) -> MessageExpiry:
    readable = format_duration(READABLE_AFTER_END_MS)
    why = f"a message is found by its id for {readable} after its end at {iso(ended.ended_ms)}"
    return MessageExpiry(at_ms=readable_until_ms(ended.ended_ms), why=why, **of_message(ended.message))


def _transition(state: StateView, timer: Timer) -> AccountTransition:
    account = state.accounts[AccountId(timer.subject)].account
    why = f"the account's change to {account.modifying_state} is through"
    return AccountTransition(at_ms=timer.due_ms, why=why, account_id=account.id)


# What is made of a timer. One timer serves many expiries, each of which is listed by itself.
OF_TIMER: Mapping[TimerKind, Callable[[StateView, Timer], UpcomingItem] | None] = {
    TimerKind.DELIVERY: _delivery,
    TimerKind.ANSWER: _answer,
    TimerKind.DUPLICATE: _redelivery,
    TimerKind.SCHEDULE: _firing,
    TimerKind.RATE_WINDOW: _rate_window,
    TimerKind.ACCOUNT: _transition,
    TimerKind.WAIT: _deadline,
    TimerKind.DEDUPLICATION_EXPIRY: None,
    TimerKind.DEAD_LETTER_EXPIRY: None,
}
_EXPIRIES = (_deduplication_expiries, _dead_letter_expiries)

ROUTES: tuple[ControlRoute, ...] = (ControlRoute("GET", "/_emulator/upcoming", list_upcoming, OWN_QUERY),)
