"""Messages and their attempts, as accepted and as far as each has come."""

from __future__ import annotations

from enum import StrEnum

from emulator.core.model.answers import AttemptOutcome, ScriptedAnswer
from emulator.core.model.names import AccountId, DeadLetterId, GroupName, Headers, MessageId, QueueName, ScheduleId
from emulator.core.model.options import CallbackOptions, FlowControl, Method, Redaction, RunPart
from emulator.core.record import Record, brief


class Phase(StrEnum):
    """The phase of a message. `lifecycle.py` holds every transition."""

    PENDING = "PENDING"  # waits for its first delivery time
    HELD = "HELD"  # due, and waits for a queue, a flow control key or a global slot
    ACTIVE = "ACTIVE"  # an attempt is under way
    RETRYING = "RETRYING"  # waits for its next attempt
    DELIVERED = "DELIVERED"
    FAILED = "FAILED"
    CANCELED = "CANCELED"


class EventState(StrEnum):
    """The states the event log shows (D-013); which of them a message passes is D-044."""

    CREATED = "CREATED"
    ACTIVE = "ACTIVE"
    RETRY = "RETRY"
    ERROR = "ERROR"
    DELIVERED = "DELIVERED"
    FAILED = "FAILED"
    CANCEL_REQUESTED = "CANCEL_REQUESTED"
    CANCELED = "CANCELED"


class TimerKind(StrEnum):
    """What waits for an instant. Quiet kinds tidy up; they never draw the clock to themselves."""

    DELIVERY = "delivery"
    ANSWER = "answer"
    SCHEDULE = "schedule"
    RATE_WINDOW = "rate_window"
    DEDUPLICATION_EXPIRY = "deduplication_expiry"
    DEAD_LETTER_EXPIRY = "dead_letter_expiry"
    ACCOUNT = "account"
    DUPLICATE = "duplicate"
    WAIT = "wait"

    @property
    def is_quiet(self) -> bool:
        return self in _QUIET


_QUIET = frozenset((TimerKind.DEDUPLICATION_EXPIRY, TimerKind.DEAD_LETTER_EXPIRY, TimerKind.ACCOUNT))


class CreatedBy(StrEnum):
    """What made a message."""

    PUBLISH = "publish"
    BATCH = "batch"
    SCHEDULE = "schedule"
    CALLBACK = "callback"
    FAILURE_CALLBACK = "failure_callback"
    DEAD_LETTER = "dead_letter"
    # Whoever made it waits for the answer.
    CHAT = "chat"
    # A wait that ended, or an invoked run.
    WORKFLOW = "workflow"


class QueueSlot(Record):
    """A place in a queue, held by the message that was let in and by its callbacks."""

    queue: QueueName
    message_id: MessageId


class Message(Record, array_like=True):
    """One message as it was accepted; nothing here changes afterwards.

    There may be a million of them, so they are stored as lists, without the names of their fields: a new field goes
    to the end, and has a default value (D-403).

    `number` counts the messages of the world from 1. `headers` are those to deliver, the
    content type among them. `source_message_id` is set on callbacks, and `queue_slot` on the
    callbacks of a queued message: the queue's slot stays taken until they have ended. `api` names
    the API of the service that answers the message. The last three are told: what made the message,
    the dead letter that it is a retry of, and the headers that were given and do not apply to it (D-021).
    `run` is set on messages of a workflow run.
    """

    message_id: MessageId
    number: int
    account_id: AccountId
    created_ms: int
    not_before_ms: int
    url: str
    method: Method
    headers: Headers
    body: bytes
    max_retries: int
    timeout_ms: int
    caller_ip: str
    created_by: CreatedBy = CreatedBy.PUBLISH
    retry_delay: str | None = None
    callback: CallbackOptions | None = None
    failure_callback: CallbackOptions | None = None
    url_group: GroupName | None = None
    endpoint_name: str | None = None
    queue: QueueName | None = None
    schedule_id: ScheduleId | None = None
    labels: tuple[str, ...] = ()
    redaction: Redaction | None = None
    flow_control: FlowControl | None = None
    source_message_id: MessageId | None = None
    queue_slot: QueueSlot | None = None
    api: str | None = None
    from_dead_letter: DeadLetterId | None = None
    not_applied: tuple[str, ...] = ()
    run: RunPart | None = None


# Most messages have nothing in the fields from `retry_delay` on.
BriefMessage = brief(Message, *Message.__struct_fields__[:13])


class HoldKind(StrEnum):
    QUEUE = "queue"
    FLOW_CONTROL = "flow_control"
    GLOBAL = "global"


class HoldReason(StrEnum):
    PAUSED = "paused"
    PARALLELISM = "parallelism"
    RATE = "rate"


class Hold(Record):
    """Why a due message waits: the wait list it is in, and what that list waits for."""

    kind: HoldKind
    name: str
    reason: HoldReason


class Progress(Record):
    """A live message and how far it has come.

    `retried` counts retries already made, `due_ms` is its next delivery time. `ticket` is its
    place in every wait list for the dispatch that is due. `answer` and `outcome` belong to
    the attempt under way: the scripted answer chosen for it, and an outcome that a scripted
    latency still holds back; so does `holds_key_slot`: it counts as active on its flow control
    key, which a reset of the key's counters ends. `postponed` counts how often rules have put back
    the attempt that is due.
    """

    message: Message
    phase: Phase
    retried: int = 0
    due_ms: int
    ticket: int = 0
    hold: Hold | None = None
    started_ms: int = 0
    answer: ScriptedAnswer | None = None
    outcome: AttemptOutcome | None = None
    cancel_requested: bool = False
    holds_key_slot: bool = False
    postponed: int = 0


# Of a message that waits for its first delivery time.
BriefProgress = brief(Progress, "message", "phase", "due_ms")


class Duplicate(Record):
    """A delivery that is made again, as at-least-once allows: of attempt `number`, at `due_ms` (D-421).

    It counts on no limit, and its outcome changes nothing. It is under way from `started_ms` on.
    """

    message: Message
    number: int
    due_ms: int
    answer: ScriptedAnswer | None
    started_ms: int | None = None


class DeadLetter(Record):
    """The index entry of a dead letter; its message and last response are history, in the journal.

    `run_number` is set on those of workflow runs, which are a queue of their own.
    """

    dead_letter_id: DeadLetterId
    account_id: AccountId
    message_id: MessageId
    failed_ms: int
    run_number: int | None = None


class MessageFilter(Record):
    """Which live messages a bulk operation means: values of one field are OR-ed, fields AND-ed."""

    message_ids: tuple[str, ...] = ()
    url_groups: tuple[str, ...] = ()
    queues: tuple[str, ...] = ()
    urls: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    flow_keys: tuple[str, ...] = ()
    schedule_ids: tuple[str, ...] = ()
    caller_ips: tuple[str, ...] = ()
    from_ms: int | None = None
    to_ms: int | None = None


class Attempt(Record):
    """One attempt to make: all that is needed to send it, and nothing that changes.

    `number` is 1 for the first attempt; `at_ms` its virtual start. `signing_key` is the account's
    current key.
    """

    message: Message
    number: int
    at_ms: int
    answer: ScriptedAnswer | None
    signing_key: str
    region: str
    is_duplicate: bool = False

    @property
    def retried(self) -> int:
        """Retries made before this attempt: the API counts retries, not attempts."""
        return self.number - 1
