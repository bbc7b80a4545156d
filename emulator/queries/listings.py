"""What a world holds, as lists: messages and where they stand, schedules, queues, flow control keys (D-340)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import islice

from emulator.core.lifecycle import FINAL
from emulator.core.model.messages import HoldReason, Message, Phase, Progress
from emulator.core.model.names import AccountId, DeadLetterId, MessageId
from emulator.core.model.resources import FlowState, Queue, ScheduleProgress
from emulator.core.record import Record
from emulator.core.rules import flow_control
from emulator.core.state_view import StateView, cron_of, subject_of
from emulator.queries.history import ANY_MESSAGE, MessageFilter
from emulator.queries.message_log import RecordedAttempt
from emulator.queries.upcoming import LAST_MS

LIVE = frozenset(Phase) - FINAL
# At most so many of the messages that wait for a queue or a key are named.
MAX_WAITING = 10

# -- messages -----------------------------------------------------------------------------------


class MessageQuery(Record):
    """A page of the messages of all accounts, the newest first. Without `phases` those of any."""

    limit: int = 100
    cursor: str | None = None
    wanted: MessageFilter = ANY_MESSAGE
    phases: frozenset[Phase] = frozenset()


class Course(Record):
    """How far a message has come, as history tells it: attempts begun, the last that came back, and its end."""

    message: Message
    attempts: int
    last: RecordedAttempt | None
    ended: Phase | None
    ended_ms: int | None


class ListedMessage(Record):
    """A message and where it stands. `progress` is None for one that has ended."""

    course: Course
    progress: Progress | None
    dead_letter_id: DeadLetterId | None

    @property
    def phase(self) -> Phase:
        if self.progress is not None:
            return self.progress.phase
        assert self.course.ended is not None
        return self.course.ended

    @property
    def next_ms(self) -> int | None:
        """When a message that waits for an instant may leave."""
        is_timed = self.phase in (Phase.PENDING, Phase.RETRYING)
        return self.progress.due_ms if self.progress is not None and is_timed else None


class Moment(Record):
    """What is live at a moment. `last_number` is that of the newest message."""

    last_number: int
    live: Mapping[MessageId, Progress]

    def numbers_in(self, phases: frozenset[Phase]) -> list[int]:
        """The messages in some phases, by their numbers."""
        return [progress.message.number for progress in self.live.values() if progress.phase in phases]


def moment(state: StateView) -> Moment:
    """Take it before history is read: every message up to its number is live in it, or has an end in history."""
    return Moment(last_number=state.counters.messages, live=dict(state.messages))


def listed(state: StateView, at: Moment, courses: tuple[Course, ...]) -> tuple[ListedMessage, ...]:
    """The messages that history told of, each with where it stood."""
    letters = {
        letter.message_id: letter.dead_letter_id
        for owner in state.accounts.values()
        for letter in owner.dead_letters.values()
    }
    return tuple(
        ListedMessage(
            course=course,
            # History is the later of the two.
            progress=at.live[course.message.message_id] if course.ended is None else None,
            dead_letter_id=letters.get(course.message.message_id),
        )
        for course in courses
    )


# -- schedules ----------------------------------------------------------------------------------


class Firing(Record):
    """An instant at which a schedule fires; its zone's clock is `offset_minutes` ahead of UTC then."""

    at_ms: int
    offset_minutes: int


class ListedSchedule(Record):
    """A schedule with its next firings; one that is paused has none."""

    progress: ScheduleProgress
    time_zone: str
    firings: tuple[Firing, ...]


def schedules(state: StateView, count: int) -> Iterator[ListedSchedule]:
    """The schedules of all accounts, each with at most `count` firings."""
    for owner in state.accounts.values():
        for progress in owner.schedules.values():
            firings = tuple(islice(_firings(progress), count))
            yield ListedSchedule(progress=progress, time_zone=cron_of(progress).time_zone, firings=firings)


def _firings(progress: ScheduleProgress) -> Iterator[Firing]:
    cron = cron_of(progress)
    at_ms = progress.next_ms
    while at_ms is not None and at_ms <= LAST_MS:
        yield Firing(at_ms=at_ms, offset_minutes=cron.offset_minutes(at_ms))
        at_ms = cron.next_after(at_ms)


# -- queues and flow control keys ---------------------------------------------------------------


class ListedQueue(Record):
    """A queue. `lag` counts its messages that have not ended, `holders` have its slots, `waiting` are next in line."""

    queue: Queue
    lag: int
    holders: tuple[MessageId, ...]
    waiting_count: int
    waiting: tuple[MessageId, ...]


class ListedKey(Record):
    """A flow control key. `lag` counts its messages that have not ended; `reason` is why none may start now."""

    flow: FlowState
    lag: int
    rate_count: int
    reason: HoldReason | None
    waiting_count: int
    waiting: tuple[MessageId, ...]


class Parallelism(Record):
    """The limit on an account's attempts under way, how many there are, and how many messages wait for it."""

    account_id: AccountId
    maximum: int
    active: int
    waiting_count: int


def queues(state: StateView) -> Iterator[ListedQueue]:
    """The queues of all accounts."""
    for owner in state.accounts.values():
        for name, queue in owner.queues.items():
            waiting = owner.queue_wait_lists[name]
            yield ListedQueue(
                queue=queue,
                lag=owner.queue_lag[name],
                holders=tuple(islice(owner.queue_slots[name], MAX_WAITING)),
                waiting_count=len(waiting),
                waiting=tuple(islice(waiting, MAX_WAITING)),
            )


def flow_keys(state: StateView) -> Iterator[ListedKey]:
    """The flow control keys of all accounts."""
    lags = Counter(
        subject_of(progress.message.account_id, progress.message.flow_control.key)
        for progress in state.messages.values()
        if progress.message.flow_control is not None
    )
    for owner in state.accounts.values():
        for key, flow in owner.flow_keys.items():
            waiting = owner.flow_wait_lists[key]
            yield ListedKey(
                flow=flow,
                lag=lags[subject_of(owner.account.id, key)],
                rate_count=flow_control.rate_count(flow, state.now_ms),
                reason=flow_control.reason_to_hold(flow, state.now_ms),
                waiting_count=len(waiting),
                waiting=tuple(islice(waiting, MAX_WAITING)),
            )


def parallelism(state: StateView) -> Iterator[Parallelism]:
    """The global parallelism of each account."""
    for owner in state.accounts.values():
        yield Parallelism(
            account_id=owner.account.id,
            maximum=owner.account.max_global_parallelism,
            active=owner.active,
            waiting_count=len(owner.global_wait_list),
        )
