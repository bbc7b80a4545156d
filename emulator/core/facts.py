"""Every change of a world, in the past tense. `State.apply` is their only consumer in the core.

A fact is complete: applying the recorded facts of a world again, in order, gives the same
state without asking any rule a second time. The comment beside a fact of a message names its
transition in `lifecycle.py`.
"""

from __future__ import annotations

from dataclasses import dataclass

from emulator.core.model import (
    Account,
    AccountId,
    AttemptOutcome,
    DeadLetterId,
    DestinationRule,
    FlowKey,
    GroupName,
    Hold,
    IndexId,
    Message,
    MessageId,
    Queue,
    QueueName,
    RuleId,
    Schedule,
    ScheduleId,
    ScriptedAnswer,
    SearchIndex,
    SigningKeys,
    UrlGroup,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockMoved:
    """Virtual time stands at `now_ms`."""

    now_ms: int


# -- messages ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageCreated:  # (nothing) -> PENDING
    """A message was accepted. With a `deduplication_key`, the same key finds it until `deduplicate_until_ms`."""

    message: Message
    deduplication_key: str | None = None
    deduplicate_until_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishDeduplicated:
    """A publish was answered with a message that already stood for it; only its history tells (D-213)."""

    message_id: MessageId
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageHeld:  # PENDING | RETRYING | HELD -> HELD
    """A due message joined a line. `ticket` orders the lines."""

    message_id: MessageId
    hold: Hold
    ticket: int
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSlotTaken:
    """A queued message was let in by its queue; it keeps the slot until it and its callbacks have ended."""

    message_id: MessageId
    account_id: AccountId
    queue: QueueName


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSlotReleased:
    """The queued message and its callbacks have ended; the next in line may start."""

    message_id: MessageId
    account_id: AccountId
    queue: QueueName


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptStarted:  # PENDING | RETRYING | HELD -> ACTIVE
    """Attempt `number` (1 for the first) left for its destination."""

    message_id: MessageId
    number: int
    at_ms: int
    answer: ScriptedAnswer | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerPromised:  # ACTIVE -> ACTIVE
    """The outcome is known and a scripted latency holds it back until `due_ms`."""

    message_id: MessageId
    outcome: AttemptOutcome
    due_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptFinished:  # ACTIVE -> ACTIVE
    """The attempt that started at `started_ms` has its outcome; its flow control slot is free again."""

    message_id: MessageId
    number: int
    started_ms: int
    at_ms: int
    outcome: AttemptOutcome


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryScheduled:  # ACTIVE -> RETRYING
    """The next attempt is due at `due_ms`; `reason` names the header or rule that set the delay."""

    message_id: MessageId
    at_ms: int
    due_ms: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageDelivered:  # ACTIVE -> DELIVERED
    message_id: MessageId
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageFailed:  # ACTIVE -> FAILED
    """All retries are spent, or the answer forbade another; the message is a dead letter now."""

    message_id: MessageId
    at_ms: int
    dead_letter_id: DeadLetterId


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelRequested:  # any live phase -> the same
    message_id: MessageId
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageCanceled:  # any live phase -> CANCELED
    message_id: MessageId
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DeduplicationsExpired:
    """Deduplication keys whose ten minutes are over."""

    account_id: AccountId
    keys: tuple[str, ...]


# -- dead letters -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLettersRemoved:
    """Dead letters left the queue: deleted, retried, expired, or pushed out by its size."""

    account_id: AccountId
    dead_letter_ids: tuple[DeadLetterId, ...]
    at_ms: int
    cause: str


# -- schedules --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleWritten:
    """A schedule was created, or replaced as a whole."""

    schedule: Schedule
    next_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleFired:
    """A schedule published at `at_ms` (or could not: `error`), and is due again at `next_ms`."""

    account_id: AccountId
    schedule_id: ScheduleId
    at_ms: int
    next_ms: int
    error: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulePaused:
    account_id: AccountId
    schedule_id: ScheduleId
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleResumed:
    account_id: AccountId
    schedule_id: ScheduleId
    at_ms: int
    next_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleDeleted:
    account_id: AccountId
    schedule_id: ScheduleId
    at_ms: int


# -- URL groups, queues, flow control ---------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class UrlGroupWritten:
    group: UrlGroup


@dataclass(frozen=True, slots=True, kw_only=True)
class UrlGroupDeleted:
    account_id: AccountId
    name: GroupName


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueWritten:
    queue: Queue


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueDeleted:
    account_id: AccountId
    name: QueueName


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowKeyChanged:
    """The limits of a flow control key as they stand from now on."""

    account_id: AccountId
    key: FlowKey
    parallelism: int | None
    rate: int | None
    period_ms: int
    paused: bool
    pinned_parallelism: bool
    pinned_rate: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowCountersReset:
    """A key's counters start again at `at_ms`; `parallelism` tells whether active attempts are forgotten too."""

    account_id: AccountId
    key: FlowKey
    at_ms: int
    parallelism: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RateWindowOpened:
    """A key's rate period ended with messages in line; the next period counts from `at_ms`."""

    account_id: AccountId
    key: FlowKey
    at_ms: int


# -- accounts and rules -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountChanged:
    """An account's record as it stands from now on; a change of its state is under way until `settles_ms`."""

    account: Account
    settles_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountSettled:
    """The change of the account's state is through: it is no longer in transition."""

    account_id: AccountId


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountTokenRotated:
    """The account has new credentials; nobody holds the old ones any more."""

    account_id: AccountId
    password: str
    token: str
    read_only_token: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SigningKeysRotated:
    account_id: AccountId
    keys: SigningKeys


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleAdded:
    rule: DestinationRule


@dataclass(frozen=True, slots=True, kw_only=True)
class RulesRemoved:
    rule_ids: tuple[RuleId, ...]


# -- search indexes ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchIndexCreated:
    index: SearchIndex


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchIndexChanged:
    """A search index was renamed, transferred, or given new tokens."""

    index: SearchIndex


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchIndexDeleted:
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
    | AnswerPromised
    | MessageFailed
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
    | SearchIndexCreated
    | SearchIndexChanged
    | SearchIndexDeleted
)
