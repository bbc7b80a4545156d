"""Every change of a world, in the past tense. `State.apply` is their only consumer in the core.

A fact is complete: applying the recorded facts of a world again, in order, gives the same
state without asking any rule a second time. They stand in one file, because a list of all that
can happen is what one looks for in it, and `Fact` has to name each. The comment beside a fact of a message names its
transition in `lifecycle.py`.
"""

from __future__ import annotations

from emulator.core.model.accounts import Account, SearchIndex, SigningKeys
from emulator.core.model.answers import AttemptOutcome, DestinationRule, ScriptedAnswer
from emulator.core.model.messages import Duplicate, Hold, Message
from emulator.core.model.names import (
    AccountId,
    DeadLetterId,
    FlowKey,
    GroupName,
    IndexId,
    MessageId,
    QueueName,
    RuleId,
    RunId,
    ScheduleId,
)
from emulator.core.model.resources import Queue, Schedule, UrlGroup
from emulator.core.record import Record
from emulator.core.workflows import RunState, SavedEvent, Waiter, WorkflowRun, WorkflowStep


class ClockMoved(Record):
    """Virtual time is now `now_ms`."""

    now_ms: int


# -- messages ---------------------------------------------------------------------------------


class MessageCreated(Record):  # (nothing) -> PENDING
    """A message was accepted. With a `deduplication_key`, the same key finds it until `deduplicate_until_ms`."""

    message: Message
    deduplication_key: str | None = None
    deduplicate_until_ms: int = 0


class PublishDeduplicated(Record):
    """A publish was answered with an earlier message; only that one's history shows it (D-213)."""

    message_id: MessageId
    at_ms: int


class MessageHeld(Record):  # PENDING | RETRYING | HELD -> HELD
    """A due message joined a wait list, which is ordered by `ticket`."""

    message_id: MessageId
    hold: Hold
    ticket: int
    at_ms: int


class QueueSlotTaken(Record):
    """A queued message was let in by its queue; it keeps the slot until it and its callbacks have ended."""

    message_id: MessageId
    account_id: AccountId
    queue: QueueName


class QueueSlotReleased(Record):
    """The queued message and its callbacks have ended; the next that waits may start."""

    message_id: MessageId
    account_id: AccountId
    queue: QueueName


class DeliveryPostponed(Record):  # PENDING | RETRYING -> the same
    """A destination rule put a due attempt back until `due_ms`, which may be the same instant (D-422)."""

    message_id: MessageId
    due_ms: int


class AttemptStarted(Record):  # PENDING | RETRYING | HELD -> ACTIVE
    """Attempt `number` (1 for the first) left for its destination."""

    message_id: MessageId
    number: int
    at_ms: int
    answer: ScriptedAnswer | None


class ResponseDelayed(Record):  # ACTIVE -> ACTIVE
    """The outcome is known and a scripted latency holds it back until `due_ms`."""

    message_id: MessageId
    outcome: AttemptOutcome
    due_ms: int


class AttemptFinished(Record):  # ACTIVE -> ACTIVE
    """The attempt that started at `started_ms` has its outcome; its flow control slot is free again."""

    message_id: MessageId
    number: int
    started_ms: int
    at_ms: int
    outcome: AttemptOutcome


class RetryScheduled(Record):  # ACTIVE -> RETRYING
    """The next attempt is due at `due_ms`; `reason` names the header or rule that set the delay."""

    message_id: MessageId
    at_ms: int
    due_ms: int
    reason: str


class MessageDelivered(Record):  # ACTIVE -> DELIVERED
    message_id: MessageId
    at_ms: int


class MessageFailed(Record):  # ACTIVE -> FAILED
    """All retries are spent, or the answer forbade another; the message is a dead letter now."""

    message_id: MessageId
    at_ms: int
    dead_letter_id: DeadLetterId
    run_number: int | None = None


class MessageGivenUp(Record):  # ACTIVE -> FAILED
    """No further attempt is made, and no dead letter: the message's run goes on without it, or has ended."""

    message_id: MessageId
    at_ms: int


class DuplicateScheduled(Record):
    """A destination rule has a delivery made again, whatever becomes of the message (D-421)."""

    duplicate: Duplicate


class DuplicateStarted(Record):
    """The duplicate of attempt `number` left for its destination."""

    message_id: MessageId
    number: int
    at_ms: int


class DuplicateFinished(Record):
    """The duplicate of attempt `number` has its outcome, which only the delivery journal shows."""

    message_id: MessageId
    number: int
    started_ms: int
    at_ms: int
    outcome: AttemptOutcome


class CancelRequested(Record):  # any live phase -> the same
    message_id: MessageId
    at_ms: int


class MessageCanceled(Record):  # any live phase -> CANCELED
    message_id: MessageId
    at_ms: int


class DeduplicationsExpired(Record):
    """Deduplication keys whose ten minutes are over."""

    account_id: AccountId
    keys: tuple[str, ...]


# -- dead letters -----------------------------------------------------------------------------


class DeadLettersRemoved(Record):
    """Dead letters left the queue: deleted, retried, expired, or pushed out by its size."""

    account_id: AccountId
    dead_letter_ids: tuple[DeadLetterId, ...]
    at_ms: int
    cause: str


# -- schedules --------------------------------------------------------------------------------


class ScheduleWritten(Record):
    """A schedule was created, or replaced as a whole."""

    schedule: Schedule
    next_ms: int


class ScheduleFired(Record):
    """A schedule published at `at_ms` (or could not: `error`), and is due again at `next_ms`."""

    account_id: AccountId
    schedule_id: ScheduleId
    at_ms: int
    next_ms: int
    error: str | None


class SchedulePaused(Record):
    account_id: AccountId
    schedule_id: ScheduleId
    at_ms: int


class ScheduleResumed(Record):
    account_id: AccountId
    schedule_id: ScheduleId
    at_ms: int
    next_ms: int


class ScheduleDeleted(Record):
    account_id: AccountId
    schedule_id: ScheduleId
    at_ms: int


# -- URL groups, queues, flow control ---------------------------------------------------------


class UrlGroupWritten(Record):
    group: UrlGroup


class UrlGroupDeleted(Record):
    account_id: AccountId
    name: GroupName


class QueueWritten(Record):
    queue: Queue


class QueueDeleted(Record):
    account_id: AccountId
    name: QueueName


class FlowKeyChanged(Record):
    """The limits of a flow control key from now on."""

    account_id: AccountId
    key: FlowKey
    parallelism: int | None
    rate: int | None
    period_ms: int
    paused: bool
    pinned_parallelism: bool
    pinned_rate: bool


class FlowCountersReset(Record):
    """A key's counters start again at `at_ms`; with `parallelism`, active attempts no longer count either."""

    account_id: AccountId
    key: FlowKey
    at_ms: int
    parallelism: bool


class RateWindowOpened(Record):
    """A key's rate period ended with messages waiting; the next period counts from `at_ms`."""

    account_id: AccountId
    key: FlowKey
    at_ms: int


# -- accounts and rules -----------------------------------------------------------------------


class AccountChanged(Record):
    """An account's record from now on; a change of its state is under way until `settles_ms`."""

    account: Account
    settles_ms: int | None = None


class AccountSettled(Record):
    """The change of the account's state is through: it is no longer in transition."""

    account_id: AccountId


class AccountTokenRotated(Record):
    """The account has new credentials; the old ones are invalid."""

    account_id: AccountId
    password: str
    token: str
    read_only_token: str


class SigningKeysRotated(Record):
    account_id: AccountId
    keys: SigningKeys


class RuleAdded(Record):
    rule: DestinationRule


class RulesRemoved(Record):
    rule_ids: tuple[RuleId, ...]


class RulesOrdered(Record):
    """All destination rules, in the order in which they are tried from now on."""

    rule_ids: tuple[RuleId, ...]


# -- workflow runs ----------------------------------------------------------------------------


class RunStarted(Record):
    """A run began; its first step is its payload."""

    run: WorkflowRun


class RunRewritten(Record):
    """The endpoint of a triggered run published the init message itself: other options and payload from now on.

    Or a run was invoked on its way, and keeps all but its invoker.
    """

    run: WorkflowRun


class StepAccepted(Record):
    """A result joined the steps of a run."""

    account_id: AccountId
    run_id: RunId
    run_number: int
    step: WorkflowStep
    at_ms: int


class RunEnded(Record):
    """A run has its final state: `response` of a success, the dead letter of a failure."""

    account_id: AccountId
    run_id: RunId
    run_number: int
    at_ms: int
    state: RunState
    response: bytes | None = None
    dead_letter_id: DeadLetterId | None = None


class WaitBegan(Record):
    """A step of a run waits for an event, until the waiter's deadline."""

    account_id: AccountId
    run_id: RunId
    run_number: int
    at_ms: int
    waiter: Waiter


class WaitEnded(Record):
    """The event came, or the deadline; the step's result is published."""

    account_id: AccountId
    run_id: RunId
    waiter_number: int


class EventSaved(Record):
    """An event came for a run that did not wait for it (yet)."""

    account_id: AccountId
    run_id: RunId
    event: SavedEvent


class SavedEventTaken(Record):
    """The oldest saved event of an id was used by a wait."""

    account_id: AccountId
    run_id: RunId
    event_id: str


# -- search indexes ---------------------------------------------------------------------------


class SearchIndexCreated(Record):
    index: SearchIndex


class SearchIndexChanged(Record):
    """A search index was renamed, transferred, or given new tokens."""

    index: SearchIndex


class SearchIndexDeleted(Record):
    index_id: IndexId


Fact = (
    ClockMoved
    | MessageCreated
    | PublishDeduplicated
    | AttemptStarted
    | AttemptFinished
    | MessageDelivered
    | RetryScheduled
    | ScheduleFired
    | MessageHeld
    | QueueSlotTaken
    | QueueSlotReleased
    | ResponseDelayed
    | DeliveryPostponed
    | DuplicateScheduled
    | DuplicateStarted
    | DuplicateFinished
    | MessageFailed
    | MessageGivenUp
    | CancelRequested
    | MessageCanceled
    | DeduplicationsExpired
    | DeadLettersRemoved
    | ScheduleWritten
    | SchedulePaused
    | ScheduleResumed
    | ScheduleDeleted
    | UrlGroupWritten
    | UrlGroupDeleted
    | QueueWritten
    | QueueDeleted
    | FlowKeyChanged
    | FlowCountersReset
    | RateWindowOpened
    | AccountChanged
    | AccountSettled
    | AccountTokenRotated
    | SigningKeysRotated
    | RuleAdded
    | RulesRemoved
    | RulesOrdered
    | SearchIndexCreated
    | SearchIndexChanged
    | SearchIndexDeleted
    | RunStarted
    | RunRewritten
    | StepAccepted
    | RunEnded
    | WaitBegan
    | WaitEnded
    | EventSaved
    | SavedEventTaken
)
