"""Every input of the core, imperative. `Command[R]` says what the reply is.

They stand in one file, by what they are about, as the facts do: all commands of a world are read here as a whole.
"""

from __future__ import annotations

from typing import Generic, TypeVar

from emulator.core.errors import Refused
from emulator.core.model.messages import (
    AttemptOutcome,
    BatchReply,
    CreatedBy,
    LoopCause,
    Message,
    MessageFilter,
    Phase,
    PublishedMessage,
    PublishReply,
)
from emulator.core.model.options import Destination, MessageOptions
from emulator.core.model.resources import Account, DestinationRule, Endpoint, IndexType, SearchIndex, SigningKeys
from emulator.core.model.workflows import Invoker, NotifiedWaiter, RunFilter, TriggeredRun, Waiter, WorkflowRun
from emulator.core.plans import PlanName
from emulator.core.record import (
    AccountId,
    DeadLetterId,
    FlowKey,
    GroupName,
    IndexId,
    MessageId,
    QueueName,
    Record,
    RuleId,
    RunId,
    ScheduleId,
)

R_co = TypeVar("R_co", covariant=True)


class Command(Record, Generic[R_co]):
    """Marks an input whose reply is an R_co."""


class AccountCommand(Command[R_co], Generic[R_co]):
    """A command on one account of the world, or on what belongs to it."""

    account_id: AccountId


# -- time and attempts ------------------------------------------------------------------------


class AdvanceClock(Command[None]):
    """Move virtual time to `to_ms`, which is at most the next due instant."""

    to_ms: int


class RecordAttempt(Command[None]):
    """Attempt `number` of a message came back, or the duplicate of that attempt, or that `redelivery` of it."""

    message_id: MessageId
    number: int
    outcome: AttemptOutcome
    is_duplicate: bool = False
    redelivery: int = 0


class AbandonAttempts(Command[None]):
    """The attempts in flight were cut off with the engine that made them: those of canceled messages end (D-780)."""


class Redeliver(Command[int]):
    """Send attempt `number` of a message, live or ended, again now (D-705); the reply numbers the redelivery."""

    message: Message
    number: int


class HoldDestination(Command[None]):
    """Let nothing leave to a destination any more, which did something more than `limit` times at this instant (D-785).

    `message_id` is the message that was one too many, which is due. `withdrawn` are those to the destination whose
    attempts have started and do not leave now; it may be among them.
    """

    origin: str
    limit: int
    cause: LoopCause
    message_id: MessageId
    withdrawn: tuple[MessageId, ...] = ()


class ReleaseDestination(Command[None]):
    """Let the messages leave that wait for a held destination. Nothing happens if it is not held."""

    origin: str


# -- messages ---------------------------------------------------------------------------------


class PublishItem(Record):
    """One thing to publish: to a URL or group, through a queue if one is named.

    `invoker` is the run that gets the result of the run that this starts. `is_near_real_time`: so is the not-before
    given, and the virtual clock is far from it. `traceparent`: see `Source`.
    """

    destination: Destination
    body: bytes
    options: MessageOptions
    caller_ip: str
    queue: QueueName | None = None
    invoker: Invoker | None = None
    is_near_real_time: bool = False
    traceparent: str | None = None


class Publish(AccountCommand[PublishReply]):
    item: PublishItem
    created_by: CreatedBy = CreatedBy.PUBLISH


class PublishBatch(AccountCommand[BatchReply]):
    """Publish many; an item that was refused (already while reading it, or by the rules) holds up none."""

    items: tuple[PublishItem | Refused, ...]


class CancelMessage(AccountCommand[None]):
    message_id: MessageId


class CancelMessages(AccountCommand[int]):
    """Cancel all live messages that match, at most `count`; the reply counts them."""

    wanted: MessageFilter
    count: int | None


# -- dead letters -----------------------------------------------------------------------------


class DeleteDeadLetters(AccountCommand[int]):
    """Delete dead letters; ids that are gone do not count, unless `strict` makes one a refusal."""

    dead_letter_ids: tuple[DeadLetterId, ...]
    strict: bool


class DeadLetterContent(Record):
    """A dead letter together with the message the journal keeps for it."""

    dead_letter_id: DeadLetterId
    message: Message


class RetryDeadLetters(AccountCommand[tuple[PublishedMessage, ...]]):
    """Publish dead letters again as new messages; `overrides` win over their own settings."""

    entries: tuple[DeadLetterContent, ...]
    overrides: MessageOptions
    strict: bool


# -- workflow runs ----------------------------------------------------------------------------


class TriggerRuns(AccountCommand[tuple[TriggeredRun, ...]]):
    """Start runs for clients that are no workflow endpoints; all are refused, or none."""

    items: tuple[PublishItem, ...]


class FinishRun(AccountCommand[None]):
    """The run returned `response`. `has_existed`: history knows a run of that id."""

    run_id: RunId
    response: bytes
    has_existed: bool


class CancelRun(AccountCommand[None]):
    """`has_existed`: history knows a run of that id."""

    run_id: RunId
    has_existed: bool


class CancelRuns(AccountCommand[int]):
    """Cancel all live runs that match, oldest first, at most `count`; the reply counts them."""

    wanted: RunFilter
    count: int | None


class FailedRun(Record):
    """The dead letter of a run with what the journal keeps: the run with its steps, and the message that failed.

    `unfinished` are the other calls of its endpoint without which the run would never end: those of parallel
    steps that have no result, or that of its latest step (D-374). `failure_call` is the phase of the latest call
    of the failure function, None without one.
    """

    dead_letter_id: DeadLetterId
    run: WorkflowRun
    message: Message
    outcome: AttemptOutcome
    unfinished: tuple[Message, ...] = ()
    failure_call: Phase | None = None


class BeginRunsAgain(AccountCommand[tuple[TriggeredRun, ...]]):
    """Make new runs of failed ones; entries that are gone do not count, unless `strict` makes one a refusal."""

    entries: tuple[FailedRun, ...]
    overrides: MessageOptions
    strict: bool


class ResumeRuns(BeginRunsAgain):
    """Continue failed runs where they failed."""


class RestartRuns(BeginRunsAgain):
    """Run failed runs from the beginning."""


class CallFailureFunction(AccountCommand[TriggeredRun]):
    """Call the failure function of a failed run again; the reply names that run."""

    entry: FailedRun


class CancelFailureFunction(AccountCommand[None]):
    """Cancel the call of a failure function."""

    entry: FailedRun


class WaitForEvent(AccountCommand[None]):
    """Let a step of a run wait for an event. The waiter's deadline counts from now, and its number is replaced."""

    run_id: RunId
    waiter: Waiter


class Notify(AccountCommand[tuple[NotifiedWaiter, ...]]):
    """An event: it resumes every run that waits for it, or with `run_id` that run alone, which saves it if need be."""

    event_id: str
    body: bytes
    run_id: RunId | None = None


# -- schedules --------------------------------------------------------------------------------


class WriteSchedule(AccountCommand[ScheduleId]):
    """Create a schedule, or replace the one with that id as a whole."""

    schedule_id: ScheduleId | None
    cron: str
    destination: Destination
    body: bytes
    options: MessageOptions
    caller_ip: str


class SetSchedulePaused(AccountCommand[None]):
    schedule_id: ScheduleId
    paused: bool


class DeleteSchedule(AccountCommand[None]):
    schedule_id: ScheduleId


# -- URL groups -------------------------------------------------------------------------------


class UpsertEndpoints(AccountCommand[None]):
    """Add endpoints, or update those with the same name or URL; makes the group if it is new."""

    name: GroupName
    endpoints: tuple[Endpoint, ...]


class EndpointSelector(Record):
    """Endpoints to remove: by name, by URL, or both."""

    url: str | None
    name: str | None


class RemoveEndpoints(AccountCommand[None]):
    name: GroupName
    selectors: tuple[EndpointSelector, ...]


class DeleteUrlGroup(AccountCommand[None]):
    name: GroupName


class SetGroupDefaults(AccountCommand[None]):
    """Replace the group's default headers: `headers` as given, `defaults` as read."""

    name: GroupName
    headers: tuple[tuple[str, tuple[str, ...]], ...]
    defaults: MessageOptions


# -- queues -----------------------------------------------------------------------------------


class UpsertQueue(AccountCommand[None]):
    name: QueueName
    parallelism: int | None
    paused: bool | None


class SetQueuePaused(AccountCommand[None]):
    name: QueueName
    paused: bool


class DeleteQueue(AccountCommand[None]):
    name: QueueName


# -- flow control -----------------------------------------------------------------------------


class SetFlowPaused(AccountCommand[None]):
    key: FlowKey
    paused: bool


class PinFlow(AccountCommand[None]):
    """Fix a key's limits against what later messages say; None leaves that limit unpinned as it is."""

    key: FlowKey
    parallelism: int | None
    rate: int | None
    period_ms: int | None


class UnpinFlow(AccountCommand[None]):
    key: FlowKey
    parallelism: bool
    rate: bool


class ResetFlow(AccountCommand[None]):
    """Start a key's rate period again, and with `parallelism` forget its active attempts too."""

    key: FlowKey
    parallelism: bool


# -- accounts and rules -----------------------------------------------------------------------


class RotateSigningKeys(AccountCommand[SigningKeys]):
    """The next signing key becomes the current one; the reply has both."""


class ChangeAccount(Command[None]):
    account: Account


class RotateToken(AccountCommand[Account]):
    """Give a queue account new credentials; the old ones end with this."""


class SetPlan(AccountCommand[None]):
    """Move a queue account to a plan, whose limits hold from this instant on."""

    plan: PlanName


class AmendAccount(AccountCommand[None]):
    """Change fields of a queue account that nothing else depends on; those that are None stay.

    `budget` is in dollars a month, 0 for none. `customer_id` is the team that the account moves to (D-164).
    """

    budget: int | None = None
    prod_pack_enabled: bool | None = None
    customer_id: str | None = None


class AddRule(Command[RuleId]):
    """Append a destination rule; its `rule_id` is replaced by a new one, which is the reply."""

    rule: DestinationRule


class RemoveRules(Command[None]):
    """Remove one destination rule, or all of them (None)."""

    rule_id: RuleId | None


class OrderRules(Command[None]):
    """Try the destination rules in another order; `rule_ids` names each of them once."""

    rule_ids: tuple[RuleId, ...]


class SetBackClock(Command[None]):
    """Move virtual time back, which a world allows only as long as nothing has happened in it."""

    to_ms: int


# -- search indexes ---------------------------------------------------------------------------


class CreateSearchIndex(Command[SearchIndex]):
    """`customer_id` is the creator."""

    customer_id: str
    name: str
    region: str
    type: IndexType


class ChangeSearchIndex(Command[None]):
    """Rename a search index, or give it another owner, in the same world (D-164); what is None stays."""

    index_id: IndexId
    name: str | None = None
    customer_id: str | None = None


class ResetSearchIndexPassword(Command[SearchIndex]):
    """Give a search index new tokens, the read-only one too."""

    index_id: IndexId


class DeleteSearchIndex(Command[None]):
    index_id: IndexId
