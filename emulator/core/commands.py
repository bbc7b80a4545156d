"""Every input of the core, imperative. `Command[R]` says what the reply is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from emulator.core.errors import Refused
from emulator.core.model import (
    Account,
    AccountId,
    AttemptOutcome,
    DeadLetterId,
    Destination,
    DestinationRule,
    Endpoint,
    FlowKey,
    GroupName,
    IndexId,
    IndexType,
    Message,
    MessageFilter,
    MessageId,
    MessageOptions,
    QueueName,
    RuleId,
    ScheduleId,
    SearchIndex,
    SigningKeys,
)
from emulator.core.plans import PlanName

R_co = TypeVar("R_co", covariant=True)


class Command(Generic[R_co]):
    """Marks an input whose reply is an R_co."""

    __slots__ = ()


# -- replies ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """One message of a publish; `deduplicated` means that an earlier one stands for it."""

    message_id: MessageId
    url: str
    deduplicated: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishReply:
    """What one publish made: one message for a URL, one per endpoint for a group."""

    is_group: bool
    messages: tuple[Published, ...]


BatchReply = tuple[PublishReply | Refused, ...]


# -- time and attempts ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class AdvanceClock(Command[None]):
    """Move virtual time to `to_ms`, which is at most the next due instant."""

    to_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordAttempt(Command[None]):
    """Attempt `number` of a message came back."""

    message_id: MessageId
    number: int
    outcome: AttemptOutcome


# -- messages ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishItem:
    """One thing to publish: to a URL or group, through a queue if one is named."""

    destination: Destination
    body: bytes
    options: MessageOptions
    caller_ip: str
    queue: QueueName | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Publish(Command[PublishReply]):
    account_id: AccountId
    item: PublishItem


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishBatch(Command[BatchReply]):
    """Publish many; an item that was refused (already while reading it, or by the rules) holds up none."""

    account_id: AccountId
    items: tuple[PublishItem | Refused, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelMessage(Command[None]):
    account_id: AccountId
    message_id: MessageId


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelMessages(Command[int]):
    """Cancel all live messages that match, at most `count`; the reply counts them."""

    account_id: AccountId
    wanted: MessageFilter
    count: int | None


# -- dead letters -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteDeadLetters(Command[int]):
    """Delete dead letters; ids that are gone do not count, unless `strict` makes one a refusal."""

    account_id: AccountId
    dead_letter_ids: tuple[DeadLetterId, ...]
    strict: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterContent:
    """A dead letter together with the message the journal keeps for it."""

    dead_letter_id: DeadLetterId
    message: Message


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryDeadLetters(Command[tuple[Published, ...]]):
    """Publish dead letters again as new messages; `overrides` win over their own settings."""

    account_id: AccountId
    entries: tuple[DeadLetterContent, ...]
    overrides: MessageOptions
    strict: bool


# -- schedules --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteSchedule(Command[ScheduleId]):
    """Create a schedule, or replace the one with that id as a whole."""

    account_id: AccountId
    schedule_id: ScheduleId | None
    cron: str
    destination: Destination
    body: bytes
    options: MessageOptions
    caller_ip: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SetSchedulePaused(Command[None]):
    account_id: AccountId
    schedule_id: ScheduleId
    paused: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteSchedule(Command[None]):
    account_id: AccountId
    schedule_id: ScheduleId


# -- URL groups -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class UpsertEndpoints(Command[None]):
    """Add endpoints, or update those with the same name or URL; makes the group if it is new."""

    account_id: AccountId
    name: GroupName
    endpoints: tuple[Endpoint, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointSelector:
    """Endpoints to remove: by name, by URL, or both."""

    url: str | None
    name: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveEndpoints(Command[None]):
    account_id: AccountId
    name: GroupName
    selectors: tuple[EndpointSelector, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteUrlGroup(Command[None]):
    account_id: AccountId
    name: GroupName


@dataclass(frozen=True, slots=True, kw_only=True)
class SetGroupDefaults(Command[None]):
    """Replace the group's default headers: `headers` as given, `defaults` as read."""

    account_id: AccountId
    name: GroupName
    headers: tuple[tuple[str, tuple[str, ...]], ...]
    defaults: MessageOptions


# -- queues -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class UpsertQueue(Command[None]):
    account_id: AccountId
    name: QueueName
    parallelism: int | None
    paused: bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SetQueuePaused(Command[None]):
    account_id: AccountId
    name: QueueName
    paused: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteQueue(Command[None]):
    account_id: AccountId
    name: QueueName


# -- flow control -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class SetFlowPaused(Command[None]):
    account_id: AccountId
    key: FlowKey
    paused: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PinFlow(Command[None]):
    """Fix a key's limits against what later messages say; None leaves that limit unpinned as it is."""

    account_id: AccountId
    key: FlowKey
    parallelism: int | None
    rate: int | None
    period_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class UnpinFlow(Command[None]):
    account_id: AccountId
    key: FlowKey
    parallelism: bool
    rate: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetFlow(Command[None]):
    """Start a key's rate period again, and with `parallelism` forget its active attempts too."""

    account_id: AccountId
    key: FlowKey
    parallelism: bool


# -- accounts and rules -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class RotateSigningKeys(Command[SigningKeys]):
    account_id: AccountId


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeAccount(Command[None]):
    account: Account


@dataclass(frozen=True, slots=True, kw_only=True)
class RotateToken(Command[Account]):
    """Give a queue account new credentials; the old ones end with this."""

    account_id: AccountId


@dataclass(frozen=True, slots=True, kw_only=True)
class SetPlan(Command[None]):
    """Move a queue account to a plan, whose limits hold from this instant on."""

    account_id: AccountId
    plan: PlanName


@dataclass(frozen=True, slots=True, kw_only=True)
class SetBudget(Command[None]):
    """`budget` is in dollars a month; 0 means none is set."""

    account_id: AccountId
    budget: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SetProductionPack(Command[None]):
    account_id: AccountId
    enabled: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveToTeam(Command[None]):
    """Make a team the customer of a queue account."""

    account_id: AccountId
    team_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AddRule(Command[RuleId]):
    """Append a destination rule; its `rule_id` is replaced by a new one, which is the reply."""

    rule: DestinationRule


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveRules(Command[None]):
    """Remove one destination rule, or all of them (None)."""

    rule_id: RuleId | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SetBackClock(Command[None]):
    """Move virtual time back, which a world allows only as long as nothing has happened in it."""

    to_ms: int


# -- search indexes ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateSearchIndex(Command[SearchIndex]):
    """`customer_id` is whoever creates it."""

    customer_id: str
    name: str
    region: str
    type: IndexType


@dataclass(frozen=True, slots=True, kw_only=True)
class RenameSearchIndex(Command[None]):
    index_id: IndexId
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetSearchIndexPassword(Command[SearchIndex]):
    """Give a search index new tokens, the read-only one too."""

    index_id: IndexId


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferSearchIndex(Command[None]):
    index_id: IndexId
    target_account: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteSearchIndex(Command[None]):
    index_id: IndexId
