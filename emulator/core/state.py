"""A world's state: what facts change, and the read-only views of it that decisions get.

`State.apply` is the only entry that changes any of it. A rule that handles one account calls its state `owner`: it
owns the messages, queues and schedules in question.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from typing import ClassVar, Protocol, TypeVar

from msgspec import Struct, field

from emulator.core.errors import NotFound
from emulator.core.language.cron import CronSchedule
from emulator.core.language.cron import parse as parse_cron
from emulator.core.model.messages import DeadLetter, Duplicate, HeldDestination, Hold, HoldKind, Message, Progress
from emulator.core.model.options import CallType
from emulator.core.model.resources import (
    Account,
    DestinationRule,
    FlowState,
    Queue,
    ScheduleProgress,
    SearchIndex,
    TeamMember,
    UrlGroup,
    VectorIndex,
)
from emulator.core.model.workflows import WorkflowRun, as_delivered
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
from emulator.core.timers import Timers, WaitList


def subject_of(account_id: AccountId, name: str) -> str:
    """A timer subject for something that lives in an account; account ids hold no slash."""
    return f"{account_id}/{name}"


def split_subject(subject: str) -> tuple[AccountId, str]:
    account_id, _, name = subject.partition("/")
    return AccountId(account_id), name


def duplicate_subject(message_id: MessageId, number: int, redelivery: int = 0) -> str:
    """A timer subject for the duplicate of a message's attempt, or for one of its redeliveries."""
    return f"{message_id}/{number}/{redelivery}" if redelivery else f"{message_id}/{number}"


def waiter_subject(account_id: AccountId, number: int, run_id: RunId) -> str:
    """The timer subject of a waiter's deadline."""
    return subject_of(account_id, f"{number}/{run_id}")


def split_waiter_subject(subject: str) -> tuple[AccountId, int, RunId]:
    account_id, name = split_subject(subject)
    number, _, run_id = name.partition("/")
    return account_id, int(number), RunId(run_id)


class AccountState(Struct, eq=False):
    """Everything that belongs to one account."""

    account: Account
    active: int = 0
    # Messages accepted on the UTC day `usage_day` (days since the Unix epoch), for the daily quota.
    usage_day: int = 0
    usage_count: int = 0
    schedules: dict[ScheduleId, ScheduleProgress] = {}
    groups: dict[GroupName, UrlGroup] = {}
    queues: dict[QueueName, Queue] = {}
    queue_wait_lists: dict[QueueName, WaitList] = {}
    # Per queue, the messages that hold a slot and how many of (itself, its callbacks) are still going.
    queue_slots: dict[QueueName, dict[MessageId, int]] = {}
    queue_lag: dict[QueueName, int] = {}
    flow_keys: dict[FlowKey, FlowState] = {}
    flow_wait_lists: dict[FlowKey, WaitList] = {}
    global_wait_list: WaitList = field(default_factory=WaitList)
    # Per origin that is held, the messages that wait until it is not.
    destination_wait_lists: dict[str, WaitList] = {}
    # Key -> (message id, end of its window); in order of acceptance, which is the order of expiry.
    deduplications: dict[str, tuple[MessageId, int]] = {}
    dead_letters: dict[DeadLetterId, DeadLetter] = {}
    # Workflow runs that have not ended.
    runs: dict[RunId, WorkflowRun] = {}
    # By their numbers, runs that have ended and have messages that are still to be delivered.
    ended_runs: dict[int, WorkflowRun] = {}
    # How deep the latest runs that have ended were invoked, for those that they invoke afterwards (D-600).
    ended_depths: dict[RunId, int] = {}
    # Per number of a run, its live messages; a failure callback outlasts its run.
    run_messages: dict[int, dict[MessageId, None]] = {}
    # Per event, the numbers of the waiters in the order of waiting, each with its run.
    waiting_runs: dict[str, dict[int, RunId]] = {}

    def wait_list(self, hold: Hold) -> WaitList:
        """The list that a held message waits in."""
        match hold.kind:
            case HoldKind.QUEUE:
                return self.queue_wait_lists[QueueName(hold.name)]
            case HoldKind.FLOW_CONTROL:
                return self.flow_wait_lists[FlowKey(hold.name)]
            case HoldKind.GLOBAL:
                return self.global_wait_list
            case HoldKind.DESTINATION:
                return self.destination_wait_lists.setdefault(hold.name, WaitList())

    def stop_waiting(self, event_id: str, number: int) -> None:
        """A waiter's event has come, its deadline, or the end of its run."""
        waiting = self.waiting_runs[event_id]
        del waiting[number]
        if not waiting:
            del self.waiting_runs[event_id]


class AccountView(Protocol):
    """An account's state as decisions see it."""

    @property
    def account(self) -> Account: ...
    @property
    def active(self) -> int: ...
    @property
    def usage_day(self) -> int: ...
    @property
    def usage_count(self) -> int: ...
    @property
    def schedules(self) -> Mapping[ScheduleId, ScheduleProgress]: ...
    @property
    def groups(self) -> Mapping[GroupName, UrlGroup]: ...
    @property
    def queues(self) -> Mapping[QueueName, Queue]: ...
    @property
    def queue_wait_lists(self) -> Mapping[QueueName, WaitList]: ...
    @property
    def queue_slots(self) -> Mapping[QueueName, Mapping[MessageId, int]]: ...
    @property
    def queue_lag(self) -> Mapping[QueueName, int]: ...
    @property
    def flow_keys(self) -> Mapping[FlowKey, FlowState]: ...
    @property
    def flow_wait_lists(self) -> Mapping[FlowKey, WaitList]: ...
    @property
    def global_wait_list(self) -> WaitList: ...
    @property
    def destination_wait_lists(self) -> Mapping[str, WaitList]: ...
    @property
    def deduplications(self) -> Mapping[str, tuple[MessageId, int]]: ...
    @property
    def dead_letters(self) -> Mapping[DeadLetterId, DeadLetter]: ...
    @property
    def runs(self) -> Mapping[RunId, WorkflowRun]: ...
    @property
    def ended_runs(self) -> Mapping[int, WorkflowRun]: ...
    @property
    def ended_depths(self) -> Mapping[RunId, int]: ...
    @property
    def run_messages(self) -> Mapping[int, Mapping[MessageId, None]]: ...
    @property
    def waiting_runs(self) -> Mapping[str, Mapping[int, RunId]]: ...


class Counters(Struct, gc=False, kw_only=True):
    """How many of each kind the world has made; the next id of a kind follows from its counter.

    `indexes` counts search and vector indexes together; `account_tokens` and `index_tokens` count how often
    an account's or an index's tokens were replaced. Only `State.apply` changes it.
    """

    messages: int = 0
    schedules: int = 0
    rules: int = 0
    dead_letters: int = 0
    signing_keys: int = 0
    tickets: int = 0
    indexes: int = 0
    account_tokens: int = 0
    index_tokens: int = 0
    runs: int = 0
    waiters: int = 0
    redeliveries: int = 0


class StateView(Protocol):
    """The read-only face of `State`."""

    @property
    def key(self) -> bytes: ...
    @property
    def event_key(self) -> bytes: ...
    @property
    def now_ms(self) -> int: ...
    @property
    def counters(self) -> Counters: ...
    @property
    def messages(self) -> Mapping[MessageId, Progress]: ...
    @property
    def rules(self) -> Mapping[RuleId, DestinationRule]: ...
    @property
    def duplicates(self) -> Mapping[str, Duplicate]: ...
    @property
    def held_destinations(self) -> Mapping[str, HeldDestination]: ...
    @property
    def accounts(self) -> Mapping[AccountId, AccountView]: ...
    @property
    def search_indexes(self) -> Mapping[IndexId, SearchIndex]: ...
    @property
    def vector_indexes(self) -> Mapping[IndexId, VectorIndex]: ...
    @property
    def team(self) -> Sequence[TeamMember]: ...
    @property
    def timers(self) -> Timers: ...


class Fact(Record):
    """One change of a world, in the past tense.

    A fact is complete: applying the recorded facts of a world again, in order, gives the same state without asking any
    rule a second time. Each stands beside others of its subject, in `message_facts.py`, `resource_facts.py` or
    `run_facts.py`. With `in_history`, a table of history shows it, or needs it for another's row.
    """

    in_history: ClassVar[bool] = True

    def apply(self, state: State) -> None:
        """Record it in the state, and arm the timers that follow from it. It decides nothing. Only `State` calls it."""
        raise NotImplementedError


class UnloggedFact(Fact):
    """A fact that history does not show."""

    in_history = False


class State:
    """One world: its clock, accounts, live messages, destination rules and timers.

    `key` seeds tokens, signing keys and statistics, `event_key` the identifiers of messages, schedules and
    signatures (D-260). A state of before there were two has one for both.
    """

    def __init__(self, *, key: bytes, event_key: bytes = b"", now_ms: int, accounts: Iterable[Account]) -> None:
        self.key = key
        self.event_key = event_key or key
        self.now_ms = now_ms
        self.counters = Counters()
        self.messages: dict[MessageId, Progress] = {}
        self.rules: dict[RuleId, DestinationRule] = {}
        # Deliveries to be made again, and those under way, by their timers' subjects.
        self.duplicates: dict[str, Duplicate] = {}
        # Those subjects by message, for the duplicates of live and of ended messages.
        self.duplicates_of: dict[MessageId, dict[str, None]] = {}
        # By origin, the destinations to which nothing leaves.
        self.held_destinations: dict[str, HeldDestination] = {}
        self.accounts: dict[AccountId, AccountState] = {account.id: AccountState(account) for account in accounts}
        self.search_indexes: dict[IndexId, SearchIndex] = {}
        # No command changes these two: they are what the world was made with.
        self.vector_indexes: dict[IndexId, VectorIndex] = {}
        self.team: tuple[TeamMember, ...] = ()
        self.timers = Timers()

    def apply(self, fact: Fact) -> None:
        """Record one fact. Raises WorldBroken for one that cannot follow on the present state."""
        fact.apply(self)

    def add_duplicate(self, duplicate: Duplicate) -> str:
        """Its subject."""
        message_id = duplicate.message.message_id
        subject = duplicate_subject(message_id, duplicate.number, duplicate.redelivery)
        self.duplicates[subject] = duplicate
        self.duplicates_of.setdefault(message_id, {})[subject] = None
        return subject

    def remove_duplicate(self, subject: str) -> Duplicate:
        duplicate = self.duplicates.pop(subject)
        message_id = duplicate.message.message_id
        of_message = self.duplicates_of[message_id]
        del of_message[subject]
        if not of_message:
            del self.duplicates_of[message_id]
        return duplicate


# -- decisions -----------------------------------------------------------------------------------

R = TypeVar("R")
K = TypeVar("K", bound=str)
V = TypeVar("V")

# Each fact is applied before the generator continues, so a decision sees what it has just caused.
Decision = Generator[Fact, None, R]


def account_state(state: StateView, account_id: AccountId) -> AccountView:
    """An account's state. Raises NotFound for an account this world does not have."""
    owner = state.accounts.get(account_id)
    # Not by `found`: every publish would pay for a call more.
    if owner is None:
        raise NotFound("account", account_id)
    return owner


def found(things: Mapping[K, V], name: K, kind: str, more: str = "") -> V:
    """The thing of that name. Raises NotFound, whose text names the kind of thing."""
    thing = things.get(name)
    if thing is None:
        raise NotFound(kind, name, more)
    return thing


def delivered_message(state: StateView, message: Message) -> Message:
    """A live message with the body that it delivers."""
    part = message.run
    if part is None or not part.listed:
        return message
    owner = state.accounts[message.account_id]
    run = owner.runs.get(part.run_id)
    if run is None or run.number != part.run_number:
        run = owner.ended_runs[part.run_number]
    return as_delivered(message, run.steps)


def is_called_off(state: StateView, progress: Progress) -> bool:
    """Whether no further attempt of a live message is made: it was canceled, or its run has ended (D-780).

    The call of a failure function outlasts its run.
    """
    part = progress.message.run
    if progress.dispatch.cancel_requested or part is None or part.call_type is CallType.FAILURE_CALL:
        return progress.dispatch.cancel_requested
    run = state.accounts[progress.message.account_id].runs.get(part.run_id)
    return run is None or run.number != part.run_number


def cron_of(progress: ScheduleProgress) -> CronSchedule:
    """The parsed cron expression of a schedule (parsing is cached)."""
    return parse_cron(progress.schedule.cron)
