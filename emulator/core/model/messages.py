"""Messages and their attempts, as accepted and as far as each has come."""

from __future__ import annotations

import re
from datetime import datetime
from enum import StrEnum
from functools import lru_cache

from emulator.core.errors import Refused
from emulator.core.model.options import DeliveryPolicy, Method, RunPart
from emulator.core.model.resources import ScriptedAnswer
from emulator.core.record import (
    AccountId,
    AsDatetime,
    DeadLetterId,
    GroupName,
    Headers,
    MessageId,
    QueueName,
    Record,
    ScheduleId,
)

_AUTHORITY_END = re.compile("[/?#]")
_DEFAULT_PORTS = {"80": "http", "443": "https"}

# -- outcomes -----------------------------------------------------------------------------------


class Via(StrEnum):
    """What answered an attempt."""

    NETWORK = "network"
    RULE = "rule"
    CAPTURE = "capture"
    MOUNT = "mount"


# So much of the body of an answer is kept, as it came and unpacked (D-790).
MAX_KEPT_BYTES = 1024 * 1024


class Response(Record):
    """What a destination answered. `received_bytes` is the length of its body, if `body` is only the beginning."""

    status: int
    headers: Headers
    body: bytes
    received_bytes: int | None = None

    @property
    def is_truncated(self) -> bool:
        """Whether `body` is not all that came."""
        return self.received_bytes is not None

    @property
    def body_bytes(self) -> int:
        """The length of the body as it came."""
        return len(self.body) if self.received_bytes is None else self.received_bytes


class Unsent(Record):
    """What the headers of a request are made of that needed no network: they are made when somebody reads them (D-400).

    `wall_ms` and the account's `signing_key` and `region` are those of the attempt, the names those of the
    dialect. `url` is where a rule sent it instead of to the message's URL.
    """

    wall_ms: int
    signing_key: str
    region: str
    header_prefix: str
    user_agent: str
    issuer: str
    url: str | None = None


class AttemptOutcome(Record):
    """How one attempt went: a response, or the text of the failure that prevented one.

    `request_headers` are the headers exactly as sent. Of an attempt that was answered inside, `unsent` has what
    makes them. `took_ms` is how long the attempt took in real time, None if it never left. `non_retryable` says
    that the answer asked for no further attempt (D-017). An `error` beside a response is why that answer counts
    as a failure. `redelivery` numbers the attempts of a world that a call sent again (D-705), 0 for all others.
    `abandoned` marks an attempt that is not made, or not made again, because its message was canceled: nobody knows
    how it went, or it never left, as `error` says (D-780).
    """

    response: Response | None
    error: str | None
    via: Via
    request_headers: Headers = ()
    non_retryable: bool = False
    unsent: Unsent | None = None
    took_ms: int | None = None
    redelivery: int = 0
    abandoned: bool = False

    @property
    def succeeded(self) -> bool:
        """Any 2xx answer is a delivery; a redirect is not (D-010)."""
        return self.response is not None and 200 <= self.response.status < 300 and self.error is None


def abandoned_attempt(error: str) -> AttemptOutcome:
    """The outcome of an attempt that is not made, or not made again, because its message was canceled (D-780)."""
    return AttemptOutcome(response=None, error=error, via=Via.NETWORK, abandoned=True)


# Why an attempt of a canceled message is abandoned (D-780).
OUTCOME_UNKNOWN = "the outcome is not known: cut off in flight, and not repeated because the message was canceled"
NOT_SENT = "not sent: the message was canceled before the attempt left"


# -- messages -----------------------------------------------------------------------------------


class Phase(StrEnum):
    """The phase of a message. `message_facts.py` holds every transition."""

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
    # The call that made it waits for the answer.
    CHAT = "chat"
    # A wait that ended, or an invoked run.
    WORKFLOW = "workflow"


class QueueSlot(Record):
    """A place in a queue, held by the message that was let in and by its callbacks."""

    queue: QueueName
    message_id: MessageId


class Source(Record, array_like=True):
    """What made a message, and for whom. Messages of one publish share it. Stored as a list, like `Message`.

    `source_message_id` is set on callbacks, and `queue_slot` on the callbacks of a queued message: the queue's
    slot stays taken until they have ended. `api` names the API of the service that answers the message.
    `from_dead_letter` is the dead letter that the message is a retry of, `not_applied` the headers that were given
    and do not apply to it (D-021). `traceparent` is the span of another tool that made the message, as W3C Trace
    Context writes it; kept only where spans are asked for (D-730).
    """

    caller_ip: str
    created_by: CreatedBy = CreatedBy.PUBLISH
    url_group: GroupName | None = None
    endpoint_name: str | None = None
    schedule_id: ScheduleId | None = None
    source_message_id: MessageId | None = None
    queue_slot: QueueSlot | None = None
    api: str | None = None
    from_dead_letter: DeadLetterId | None = None
    not_applied: tuple[str, ...] = ()
    # A not-before that was probably computed from the real time (D-506).
    real_not_before_ms: int | None = None
    traceparent: str | None = None


class Message(Record, array_like=True):
    """One message as it was accepted; nothing here changes afterwards.

    There may be a million of them, so they share their policy and source with those that have equal ones, and are
    stored as lists, without the names of their fields: a new field of one of the three goes to its end, and has a
    default value (D-403).

    `number` counts the messages of the world from 1. `headers` are those to deliver, the content type among them.
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
    policy: DeliveryPolicy
    source: Source
    run: RunPart | None = None


def delivered_bytes(message: Message) -> int:
    """The length of the body as it is delivered."""
    return message.run.listed_bytes if message.run is not None and message.run.listed else len(message.body)


class HoldKind(StrEnum):
    QUEUE = "queue"
    FLOW_CONTROL = "flow_control"
    GLOBAL = "global"
    DESTINATION = "destination"


class HoldReason(StrEnum):
    PAUSED = "paused"
    PARALLELISM = "parallelism"
    RATE = "rate"
    LOOP = "loop"


class Hold(Record):
    """Why a due message waits: the wait list it is in, and what that list waits for."""

    kind: HoldKind
    name: str
    reason: HoldReason


class LoopCause(StrEnum):
    """What a destination did without end at one instant."""

    PUBLISHED = "published"  # while it was called, it published what called it again
    RETRIED = "retried"  # a message to it was retried without a delay


class HeldDestination(Record):
    """A destination to which nothing leaves, because it did so more than `limit` times at `since_ms`.

    `origin` is its scheme, host and port. It is held for as long as `message_id` waits, the message that was one too
    many.
    """

    # D-785, D-786.

    origin: str
    since_ms: int
    limit: int
    cause: LoopCause
    message_id: MessageId

    since = AsDatetime[datetime]("since_ms")

    @property
    def why(self) -> str:
        """What it did, as everything says it that shows the hold."""
        match self.cause:
            case LoopCause.PUBLISHED:
                did = "published to itself"
            case LoopCause.RETRIED:
                did = "was retried without a delay"
        return (
            f"held: {self.origin} {did} more than {self.limit:,} times at this instant, {self.since:%Y-%m-%dT%H:%M:%SZ}"
        )


@lru_cache(maxsize=4096)
def destination_origin(url: str) -> str:
    """The scheme, host and port of a message's URL, in one spelling; a default port is left out."""
    scheme, _, rest = url.partition("://")
    scheme, authority = scheme.lower(), _AUTHORITY_END.split(rest, maxsplit=1)[0].lower()
    host, _, port = authority.rpartition(":")
    if port in _DEFAULT_PORTS and _DEFAULT_PORTS[port] == scheme:
        authority = host
    return f"{scheme}://{authority.removesuffix('.')}"


class Dispatch(Record):
    """What has come of a message since its first delivery time.

    `retried` counts retries already made. `ticket` is its place in every wait list for the dispatch that is
    due. `answer` and `outcome` belong to the attempt under way: the scripted answer chosen for it, and an outcome
    that a scripted latency still holds back; so does `holds_key_slot`: it counts as active on its flow control
    key, which a reset of the key's counters ends. `postponed` counts how often rules have put back the attempt
    that is due.
    """

    retried: int = 0
    ticket: int = 0
    hold: Hold | None = None
    started_ms: int = 0
    answer: ScriptedAnswer | None = None
    outcome: AttemptOutcome | None = None
    cancel_requested: bool = False
    holds_key_slot: bool = False
    postponed: int = 0


class Progress(Record):
    """A live message and how far it has come; `due_ms` is its next delivery time.

    Of a million live messages most wait for their first delivery time: those share one empty `dispatch`.
    """

    message: Message
    phase: Phase
    due_ms: int
    dispatch: Dispatch = Dispatch()


class Duplicate(Record):
    """A delivery that is made again, as at-least-once allows: of attempt `number`, at `due_ms` (D-421).

    It counts on no limit, and its outcome changes nothing. It is under way from `started_ms` on. One that a call
    asked for is the world's `redelivery` of that number (D-705); 0 is one that a rule makes. With `is_called_off`, its
    message was canceled after it was scheduled, and it does not leave any more (D-780).
    """

    message: Message
    number: int
    due_ms: int
    answer: ScriptedAnswer | None
    started_ms: int | None = None
    redelivery: int = 0
    is_called_off: bool = False


class DeadLetter(Record):
    """The index entry of a dead letter; its message and last response are history, in the journal.

    `run_number` is set on those of workflow runs, which are a queue of their own.
    """

    dead_letter_id: DeadLetterId
    account_id: AccountId
    message_id: MessageId
    failed_ms: int
    run_number: int | None = None


class MessageConditions(Record):
    """Conditions on messages: values of one field are OR-ed, fields AND-ed."""

    message_ids: tuple[str, ...] = ()
    url_groups: tuple[str, ...] = ()
    queues: tuple[str, ...] = ()
    urls: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    flow_keys: tuple[str, ...] = ()
    schedule_ids: tuple[str, ...] = ()
    caller_ips: tuple[str, ...] = ()
    from_ms: int | None = None
    to_ms: int | None = None


class MessageFilter(MessageConditions):
    """Which live messages a bulk operation means."""

    hosts: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()


class Attempt(Record):
    """One attempt to make: all that is needed to send it, and nothing that changes.

    `number` is 1 for the first attempt; `at_ms` its virtual start. `signing_key` is the account's
    current key. `redelivery` is that of a `Duplicate`.
    """

    message: Message
    number: int
    at_ms: int
    answer: ScriptedAnswer | None
    signing_key: str
    region: str
    is_duplicate: bool = False
    redelivery: int = 0

    @property
    def retried(self) -> int:
        """Retries made before this attempt: the API counts retries, not attempts."""
        return self.number - 1


# -- replies ------------------------------------------------------------------------------------


class PublishedMessage(Record):
    """One message of a publish; `deduplicated` means that an earlier one stands for it."""

    message_id: MessageId
    url: str
    deduplicated: bool


class Accepted(Record):
    """What one publish made: one message for a URL, one per endpoint for a group."""

    is_group: bool
    messages: tuple[PublishedMessage, ...]

    @property
    def is_deduplicated(self) -> bool:
        """Whether earlier messages stand for all of it, so that nothing new was made."""
        return bool(self.messages) and all(message.deduplicated for message in self.messages)


class DailyQuota(Record):
    """What is left of the day's soft limit; the day ends at `reset_s`, a Unix second."""

    limit: int
    remaining: int
    reset_s: int


class PublishReply(Record):
    """What a publish made, and where it left the account's quota."""

    accepted: Accepted
    quota: DailyQuota


class BatchReply(Record):
    """What became of each item of a batch, in their order, and where the whole left the account's quota."""

    items: tuple[Accepted | Refused, ...]
    quota: DailyQuota
