"""What a world knows, and the read-only views of it that decisions get.

Only `State.apply` changes any of it. A rule that handles one account calls its state `owner`: it owns
the messages, queues and schedules in question.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from emulator.core.language.cron import CronSchedule
from emulator.core.language.cron import parse as parse_cron
from emulator.core.model.accounts import Account, SearchIndex, TeamMember, VectorIndex
from emulator.core.model.answers import DestinationRule
from emulator.core.model.messages import BriefProgress, DeadLetter, Duplicate, Hold, HoldKind, Message, Phase, Progress
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
from emulator.core.model.resources import FlowState, Queue, ScheduleProgress, UrlGroup
from emulator.core.timers import Timers
from emulator.core.wait_list import WaitList
from emulator.core.workflows import WorkflowRun


def subject_of(account_id: AccountId, name: str) -> str:
    """A timer subject for something that lives in an account; account ids hold no slash."""
    return f"{account_id}/{name}"


def split_subject(subject: str) -> tuple[AccountId, str]:
    account_id, _, name = subject.partition("/")
    return AccountId(account_id), name


def duplicate_subject(message_id: MessageId, number: int) -> str:
    """A timer subject for the duplicate of a message's attempt."""
    return f"{message_id}/{number}"


def waiter_subject(account_id: AccountId, number: int, run_id: RunId) -> str:
    """The timer subject of a waiter's deadline."""
    return subject_of(account_id, f"{number}/{run_id}")


def split_waiter_subject(subject: str) -> tuple[AccountId, int, RunId]:
    account_id, name = split_subject(subject)
    number, _, run_id = name.partition("/")
    return account_id, int(number), RunId(run_id)


class AccountState:
    """Everything that belongs to one account."""

    __slots__ = (
        "account",
        "active",
        "dead_letters",
        "deduplications",
        "flow_keys",
        "flow_wait_lists",
        "global_wait_list",
        "groups",
        "queue_lag",
        "queue_slots",
        "queue_wait_lists",
        "queues",
        "run_messages",
        "runs",
        "schedules",
        "usage_count",
        "usage_day",
        "waiting_runs",
    )

    def __init__(self, account: Account) -> None:
        self.account = account
        self.active = 0
        # Messages accepted on the UTC day `usage_day` (days since the Unix epoch), for the daily quota.
        self.usage_day = 0
        self.usage_count = 0
        self.schedules: dict[ScheduleId, ScheduleProgress] = {}
        self.groups: dict[GroupName, UrlGroup] = {}
        self.queues: dict[QueueName, Queue] = {}
        self.queue_wait_lists: dict[QueueName, WaitList] = {}
        # Per queue, the messages that hold a slot and how many of (itself, its callbacks) are still going.
        self.queue_slots: dict[QueueName, dict[MessageId, int]] = {}
        self.queue_lag: dict[QueueName, int] = {}
        self.flow_keys: dict[FlowKey, FlowState] = {}
        self.flow_wait_lists: dict[FlowKey, WaitList] = {}
        self.global_wait_list = WaitList()
        # Key -> (message id, end of its window); in order of acceptance, which is the order of expiry.
        self.deduplications: dict[str, tuple[MessageId, int]] = {}
        self.dead_letters: dict[DeadLetterId, DeadLetter] = {}
        # Workflow runs that have not ended.
        self.runs: dict[RunId, WorkflowRun] = {}
        # Per number of a run, its live messages; a failure callback outlasts its run.
        self.run_messages: dict[int, dict[MessageId, None]] = {}
        # Per event, the numbers of the waiters in the order of waiting, each with its run.
        self.waiting_runs: dict[str, dict[int, RunId]] = {}

    def wait_list(self, hold: Hold) -> WaitList:
        """The list that a held message waits in."""
        match hold.kind:
            case HoldKind.QUEUE:
                return self.queue_wait_lists[QueueName(hold.name)]
            case HoldKind.FLOW_CONTROL:
                return self.flow_wait_lists[FlowKey(hold.name)]
            case HoldKind.GLOBAL:
                return self.global_wait_list

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
    def deduplications(self) -> Mapping[str, tuple[MessageId, int]]: ...
    @property
    def dead_letters(self) -> Mapping[DeadLetterId, DeadLetter]: ...
    @property
    def runs(self) -> Mapping[RunId, WorkflowRun]: ...
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
    def accounts(self) -> Mapping[AccountId, AccountView]: ...
    @property
    def search_indexes(self) -> Mapping[IndexId, SearchIndex]: ...
    @property
    def vector_indexes(self) -> Mapping[IndexId, VectorIndex]: ...
    @property
    def team(self) -> Sequence[TeamMember]: ...
    @property
    def timers(self) -> Timers: ...


def progress_of(message: Message) -> Progress:
    """A message as it stands right after it was created."""
    return BriefProgress(message=message, phase=Phase.PENDING, due_ms=message.not_before_ms)


def cron_of(progress: ScheduleProgress) -> CronSchedule:
    """The parsed cron expression of a schedule (parsing is cached)."""
    return parse_cron(progress.schedule.cron)
