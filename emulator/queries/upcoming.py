"""What is due later, in the order in which it will happen, found without doing any of it.

Two lists: what has an instant (timers, and the expiries behind them), and what waits for
something else; see `waiting.py`.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import assert_never

from msgspec.structs import replace

from emulator.core.model.messages import DeadLetter, Duplicate, Message, Progress, TimerKind
from emulator.core.model.names import AccountId, FlowKey, MessageId, RuleId, ScheduleId
from emulator.core.model.options import Destination
from emulator.core.model.resources import FlowState
from emulator.core.record import Record
from emulator.core.rules import clock, destination_rules, retries
from emulator.core.rules.retention import readable_until_ms
from emulator.core.rules.retries import RetryDelay
from emulator.core.state_view import AccountView, StateView, cron_of, split_subject, split_waiter_subject
from emulator.core.timers import Timer
from emulator.core.workflows import Waiter, WorkflowRun
from emulator.queries.history import EndedMessage
from emulator.queries.message_log import Failure
from emulator.queries.waiting import Waiting, waits

DEFAULT_LIMIT = 1000
MAX_LIMIT = 10_000
# No zone's clock is more than a day ahead of UTC: whatever is listed can be shown in local time too.
LAST_MS = clock.LATEST_MS - 86_400_000


class UpcomingQuery(Record):
    """How far to look ahead (None: to the end, and each schedule's next firing only), for how much, and for what."""

    until_ms: int | None
    limit: int
    expiries: bool = True


# -- what has an instant ----------------------------------------------------------------------


class ScheduleFiring(Record):
    """A schedule publishes; its zone's clock is `offset_minutes` ahead of UTC then."""

    at_ms: int
    account_id: AccountId
    schedule_id: ScheduleId
    destination: Destination
    cron: str
    time_zone: str
    offset_minutes: int


class FirstAttempt(Record):
    """A delayed message may leave. `is_postponed`: a rule has put it back."""

    at_ms: int
    message: Message
    is_postponed: bool = False


class Retry(Record):
    """Retry `number` (1 for the first) of a message; `delay` is the arithmetic of the instant."""

    at_ms: int
    message: Message
    number: int
    delay: RetryDelay | None
    is_postponed: bool = False


class Answer(Record):
    """A rule's latency passes, and the attempt under way has its answer, or has timed out."""

    at_ms: int
    message: Message
    attempt: int
    started_ms: int
    rule_id: RuleId | None
    has_timed_out: bool
    is_disturbed: bool = False


class Redelivery(Record):
    """A rule has a delivery made again, that of attempt `number` (D-421)."""

    at_ms: int
    message: Message
    number: int
    rule_id: RuleId | None


class WaitDeadline(Record):
    """A step of a workflow run has waited for its event long enough."""

    at_ms: int
    run: WorkflowRun
    waiter: Waiter


class RateWindowEnd(Record):
    """A flow control key's rate period ends, with so many messages waiting for it."""

    at_ms: int
    flow: FlowState
    waiting: int


class DeduplicationExpiry(Record):
    """A publish with this key is a new message again."""

    at_ms: int
    account_id: AccountId
    key: str
    message_id: MessageId


class MessageExpiry(Record):
    """A message that has ended is no longer found by its id."""

    at_ms: int
    ended: EndedMessage


class DeadLetterExpiry(Record):
    """A dead letter leaves the queue by age."""

    at_ms: int
    letter: DeadLetter


class AccountTransition(Record):
    """A change of an account's state is through."""

    at_ms: int
    account_id: AccountId
    state: str


Item = (
    ScheduleFiring
    | FirstAttempt
    | Retry
    | Answer
    | Redelivery
    | WaitDeadline
    | RateWindowEnd
    | DeduplicationExpiry
    | MessageExpiry
    | DeadLetterExpiry
    | AccountTransition
)


class Upcoming(Record):
    """The preview. `is_truncated`: there is more of one list than was asked for."""

    now_ms: int
    until_ms: int | None
    items: tuple[Item, ...]
    waiting: tuple[Waiting, ...]
    is_truncated: bool


def preview(state: StateView, query: UpcomingQuery, *, last_ms: int, ended: Sequence[EndedMessage]) -> Upcoming:
    """All due work to come. `until_ms` None lists everything, and of each schedule the next firing only (D-210).

    `last_ms` is the last instant that is listed at all; `ended` are the messages that ended lately,
    in order. Retries come without their arithmetic; see `with_delays`.
    """
    until_ms, limit = query.until_ms, query.limit
    last_ms = last_ms if until_ms is None else min(until_ms, last_ms)
    every_firing = until_ms is not None
    found = _items(state, last_ms, ended, every_firing=every_firing, expiries=query.expiries)
    items = [item for _, item in islice(found, limit + 1)]
    waiting = list(islice(waits(state), limit + 1))
    return Upcoming(
        now_ms=state.now_ms,
        until_ms=until_ms,
        items=tuple(items[:limit]),
        waiting=tuple(waiting[:limit]),
        is_truncated=len(items) > limit or len(waiting) > limit,
    )


def retrying(found: Upcoming) -> list[int]:
    """The numbers of the messages whose failures `with_delays` needs."""
    return [item.message.number for item in found.items if isinstance(item, Retry)]


def with_delays(found: Upcoming, failures: Mapping[MessageId, Failure]) -> Upcoming:
    """The same preview, its retries with the arithmetic that set their delay."""
    items = (_with_delay(item, failures) if isinstance(item, Retry) else item for item in found.items)
    return replace(found, items=tuple(items))


def _with_delay(retry: Retry, failures: Mapping[MessageId, Failure]) -> Retry:
    failure = failures.get(retry.message.message_id)
    # It may have gone on while history was read.
    if failure is None or failure.number != retry.number:
        return retry
    delay = retries.delay_after(retry.message, failure.outcome, retried=retry.number - 1, now_ms=failure.at_ms)
    return replace(retry, delay=delay)


def _items(
    state: StateView, last_ms: int, ended: Sequence[EndedMessage], *, every_firing: bool, expiries: bool
) -> Iterator[tuple[int, Item]]:
    """Everything that has an instant; at one instant expiries come last."""
    streams: list[Iterable[tuple[int, Item]]] = [_work(state, last_ms, every_firing=every_firing)]
    for owner in state.accounts.values() if expiries else ():
        streams += (_deduplication_expiries(owner), _dead_letter_expiries(owner))
    streams.append(_message_expiries(ended))
    # `merge` keeps the order of the streams where instants are equal.
    for at_ms, item in heapq.merge(*streams, key=lambda each: each[0]):
        if at_ms > last_ms:
            return
        yield at_ms, item


def _work(state: StateView, last_ms: int, *, every_firing: bool) -> Iterator[tuple[int, Item]]:
    for timer in _timers(state, last_ms, every_firing=every_firing):
        item = _item(state, timer)
        if item is not None:
            yield timer.due_ms, item


def _timers(state: StateView, last_ms: int, *, every_firing: bool) -> Iterator[Timer]:
    """The timers in the order in which they fire, those included that a schedule's firings will arm."""
    armed = state.timers.up_to(last_ms)
    first = next(armed, None)
    later: list[tuple[int, int, Timer]] = []
    sequence = state.timers.sequence
    while first is not None or later:
        if first is not None and not (later and later[0][0] < first.due_ms):
            # What is armed already has the lower sequence.
            timer, first = first, next(armed, None)
        else:
            timer = heapq.heappop(later)[2]
        yield timer
        if every_firing and timer.kind is TimerKind.SCHEDULE:
            account_id, name = split_subject(timer.subject)
            next_ms = cron_of(state.accounts[account_id].schedules[ScheduleId(name)]).next_after(timer.due_ms)
            if next_ms <= last_ms:
                sequence += 1
                following = Timer(due_ms=next_ms, sequence=sequence, kind=timer.kind, subject=timer.subject)
                heapq.heappush(later, (next_ms, sequence, following))


def _item(state: StateView, timer: Timer) -> Item | None:
    match timer.kind:
        case TimerKind.DELIVERY:
            return _delivery(state.messages[MessageId(timer.subject)])
        case TimerKind.ANSWER:
            return _answer(state.messages[MessageId(timer.subject)], timer.due_ms)
        case TimerKind.DUPLICATE:
            return _redelivery(state.duplicates[timer.subject])
        case TimerKind.SCHEDULE:
            return _firing(state, timer)
        case TimerKind.RATE_WINDOW:
            account_id, name = split_subject(timer.subject)
            owner, key = state.accounts[account_id], FlowKey(name)
            return RateWindowEnd(at_ms=timer.due_ms, flow=owner.flow_keys[key], waiting=len(owner.flow_wait_lists[key]))
        case TimerKind.ACCOUNT:
            account = state.accounts[AccountId(timer.subject)].account
            return AccountTransition(at_ms=timer.due_ms, account_id=account.id, state=account.modifying_state)
        case TimerKind.WAIT:
            return _deadline(state, timer)
        case TimerKind.DEDUPLICATION_EXPIRY | TimerKind.DEAD_LETTER_EXPIRY:
            return None  # One timer serves many expiries: each of them is listed by itself.
        case unknown:
            assert_never(unknown)


def _delivery(progress: Progress) -> Item:
    if progress.retried:
        return Retry(
            at_ms=progress.due_ms,
            message=progress.message,
            number=progress.retried,
            delay=None,
            is_postponed=progress.postponed > 0,
        )
    return FirstAttempt(at_ms=progress.due_ms, message=progress.message, is_postponed=progress.postponed > 0)


def _answer(progress: Progress, due_ms: int) -> Answer:
    return Answer(
        at_ms=due_ms,
        message=progress.message,
        attempt=progress.retried + 1,
        started_ms=progress.started_ms,
        rule_id=None if progress.answer is None else progress.answer.rule_id,
        has_timed_out=destination_rules.times_out(progress.answer, progress.message.timeout_ms),
        is_disturbed=progress.answer is not None and progress.answer.disturbance is not None,
    )


def _redelivery(duplicate: Duplicate) -> Redelivery:
    rule_id = None if duplicate.answer is None else duplicate.answer.rule_id
    return Redelivery(at_ms=duplicate.due_ms, message=duplicate.message, number=duplicate.number, rule_id=rule_id)


def _firing(state: StateView, timer: Timer) -> ScheduleFiring:
    account_id, name = split_subject(timer.subject)
    progress = state.accounts[account_id].schedules[ScheduleId(name)]
    cron = cron_of(progress)
    return ScheduleFiring(
        at_ms=timer.due_ms,
        account_id=account_id,
        schedule_id=progress.schedule.schedule_id,
        destination=progress.schedule.destination,
        cron=cron.text,
        time_zone=cron.time_zone,
        offset_minutes=cron.offset_minutes(timer.due_ms),
    )


def _deadline(state: StateView, timer: Timer) -> WaitDeadline:
    account_id, number, run_id = split_waiter_subject(timer.subject)
    run = state.accounts[account_id].runs[run_id]
    (waiter,) = (each for each in run.waiters if each.number == number)
    return WaitDeadline(at_ms=timer.due_ms, run=run, waiter=waiter)


def _deduplication_expiries(owner: AccountView) -> Iterator[tuple[int, Item]]:
    for key, (message_id, until_ms) in owner.deduplications.items():
        expiry = DeduplicationExpiry(at_ms=until_ms, account_id=owner.account.id, key=key, message_id=message_id)
        yield until_ms, expiry


def _dead_letter_expiries(owner: AccountView) -> Iterator[tuple[int, Item]]:
    retention_ms = owner.account.max_dlq_retention_time_milis
    for letter in owner.dead_letters.values():
        at_ms = letter.failed_ms + retention_ms
        yield at_ms, DeadLetterExpiry(at_ms=at_ms, letter=letter)


def _message_expiries(ended: Sequence[EndedMessage]) -> Iterator[tuple[int, Item]]:
    for each in ended:
        at_ms = readable_until_ms(each.ended_ms)
        yield at_ms, MessageExpiry(at_ms=at_ms, ended=each)
