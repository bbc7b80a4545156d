"""The records the rules work on: frozen, compared by value, tuples inside.

Times are `int` milliseconds since the Unix epoch and end in `_ms`; durations too. Header
collections are tuples of `(name, value)` in the order the client gave them.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NewType

from emulator.core.record import Record, brief

AccountId = NewType("AccountId", str)
MessageId = NewType("MessageId", str)
ScheduleId = NewType("ScheduleId", str)
GroupName = NewType("GroupName", str)
QueueName = NewType("QueueName", str)
FlowKey = NewType("FlowKey", str)
DeadLetterId = NewType("DeadLetterId", str)
RuleId = NewType("RuleId", str)
IndexId = NewType("IndexId", str)
RunId = NewType("RunId", str)

Headers = tuple[tuple[str, str], ...]

# The rate period of a flow control key that names none.
DEFAULT_PERIOD_MS = 1000


class Method(StrEnum):
    """The methods a delivery may use (interface document, Svc-Method)."""

    GET = "GET"
    POST = "POST"
    PUT = "PUT"
    PATCH = "PATCH"
    DELETE = "DELETE"


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


class Via(StrEnum):
    """What answered an attempt."""

    NETWORK = "network"
    RULE = "rule"
    CAPTURE = "capture"
    MOUNT = "mount"


class Fault(StrEnum):
    """A connection failure a destination rule can stage."""

    REFUSED = "refused"
    TIMEOUT = "timeout"
    RESET = "reset"
    DNS = "dns"
    TLS = "tls"


class ScheduleRunState(StrEnum):
    """How a message of a schedule's last firing went (D-038)."""

    IN_PROGRESS = "IN_PROGRESS"
    SUCCESS = "SUCCESS"
    FAIL = "FAIL"


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


class DestinationKind(StrEnum):
    URL = "url"
    GROUP = "group"
    API = "api"


class Destination(Record):
    """What a publish names: a URL exactly as typed, the name of a URL group, or that of an API such as `api/llm`.

    `url` is where the messages to an API go.
    """

    kind: DestinationKind
    text: str
    url: str | None = None


class Redaction(Record):
    """What API answers hide; deliveries always carry the original. Names are lower-case."""

    body: bool
    all_headers: bool
    header_names: tuple[str, ...]

    def joined(self, other: Redaction | None) -> Redaction:
        """What either of two hides."""
        if other is None:
            return self
        return Redaction(
            body=self.body or other.body,
            all_headers=self.all_headers or other.all_headers,
            header_names=tuple(dict.fromkeys((*self.header_names, *other.header_names))),
        )


class FlowControl(Record):
    """The flow control a message asks for. Values left out (None) leave the key's own limit unset."""

    key: FlowKey
    parallelism: int | None
    rate: int | None
    period_ms: int


class CallType(StrEnum):
    """What a message of a workflow run is to the run."""

    STEP = "step"
    # The request of a call step, which goes to a third party, and the message that brings its response.
    TO_CALLBACK = "toCallback"
    FROM_CALLBACK = "fromCallback"
    FAILURE_CALL = "failureCall"


class RunOptions(Record):
    """What the workflow headers of one request say: the run that a message is part of, and how.

    `invokes` starts a run for another one; `by_sdk` is the second half of a trigger's handshake.
    """

    run_id: RunId
    is_init: bool = False
    url: str | None = None
    call_type: CallType = CallType.STEP
    invokes: bool = False
    by_sdk: bool = False
    features: tuple[str, ...] = ()


class RunPart(Record):
    """What a message is to the run that it belongs to; `run_number` tells runs of one id apart.

    `awaits_sdk` marks the first delivery of a trigger's handshake. With `detects_workflow` a 2xx answer
    that is no workflow's fails the run.
    """

    run_id: RunId
    run_number: int
    run_created_ms: int
    url: str
    call_type: CallType
    is_init: bool = False
    awaits_sdk: bool = False
    detects_workflow: bool = False


class MessageOptions(Record):
    """What the configuration headers of one request say; None is "not said".

    `forwarded` are the headers that had the forward prefix. `incoming` are the request's other
    headers, which are forwarded only if `forward_incoming` is true.
    """

    method: Method | None = None
    content_type: str | None = None
    forwarded: Headers = ()
    incoming: Headers = ()
    forward_incoming: bool | None = None
    delay_ms: int | None = None
    not_before_ms: int | None = None
    timeout_ms: int | None = None
    max_retries: int | None = None
    retry_delay: str | None = None
    callback: CallbackOptions | None = None
    failure_callback: CallbackOptions | None = None
    labels: tuple[str, ...] = ()
    redaction: Redaction | None = None
    flow_control: FlowControl | None = None
    queue: QueueName | None = None
    deduplication_id: str | None = None
    content_deduplication: bool | None = None
    workflow: RunOptions | None = None


class CallbackOptions(Record):
    """Where a callback goes, and the configuration of the callback message itself."""

    url: str
    options: MessageOptions


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


class Response(Record):
    """What a destination answered."""

    status: int
    headers: Headers
    body: bytes


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
    makes them. `non_retryable` says that the answer asked for no further attempt (D-017). An `error` beside a
    response is why that answer counts as a failure.
    """

    response: Response | None
    error: str | None
    via: Via
    request_headers: Headers = ()
    non_retryable: bool = False
    unsent: Unsent | None = None

    @property
    def succeeded(self) -> bool:
        """Any 2xx answer is a delivery; a redirect is not (D-010)."""
        return self.response is not None and 200 <= self.response.status < 300 and self.error is None


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


class ScriptedResponse(Record):
    """A response as a destination rule writes it; `latency_ms` passes on the virtual clock.

    With `latest_ms` the latency is drawn for each attempt, between the two (D-420).
    """

    status: int = 200
    headers: Headers = ()
    body: bytes = b""
    latency_ms: int = 0
    latest_ms: int | None = None


class Disturbance(Record):
    """What rules did to one attempt by chance, or beside its answer (D-420).

    `is_answered` says that the rule answered or failed it instead of the destination, `latency_ms` is
    a latency that was added, and `is_postponed` says that it left later than it was due.
    """

    is_answered: bool = False
    latency_ms: int = 0
    is_postponed: bool = False
    is_duplicate: bool = False


class ScriptedAnswer(Record):
    """What rules decided for one attempt.

    At most one of the first three is set; with none of them the attempt goes where it would go
    without a rule. `duplicate_ms` is how long after a delivery the message is delivered again, and
    `others` are further rules that disturb the attempt.
    """

    rule_id: RuleId
    respond: ScriptedResponse | None = None
    forward_to: str | None = None
    fault: Fault | None = None
    latency_ms: int = 0
    duplicate_ms: int | None = None
    disturbance: Disturbance | None = None
    others: tuple[RuleId, ...] = ()

    @property
    def decides(self) -> bool:
        """Whether it says where the attempt goes."""
        return self.respond is not None or self.forward_to is not None or self.fault is not None


class Duplicate(Record):
    """A delivery that is made again, as at-least-once allows: of attempt `number`, at `due_ms` (D-421).

    It counts on no limit, and its outcome changes nothing. It is under way from `started_ms` on.
    """

    message: Message
    number: int
    due_ms: int
    answer: ScriptedAnswer | None
    started_ms: int | None = None


class DestinationRule(Record):
    """What happens at a destination instead of, or before, the network.

    `url` is exact, or a glob in which `*` matches any characters; `times` limits how many
    attempts the rule decides (None: all), `used` counts those it has decided. At most one of
    `responses`, `forward_to` and `fault` is given; of several responses each attempt takes the
    next, and the last repeats. A rule without any of them disturbs attempts and leaves the answer
    to the rules after it.

    `chance` is the probability that the rule meets an attempt (None: every one), and `spared` names
    attempts that it never meets, such as `3.1` for the first one of the third message. `duplicate_ms`
    is how long after a delivery it is made again. `reorder_ms` puts an attempt back: 0 behind others
    of its instant, else for up to so long. `latest_ms` is the end of a range of latencies.
    """

    rule_id: RuleId
    url: str
    method: Method | None
    responses: tuple[ScriptedResponse, ...] = ()
    forward_to: str | None = None
    fault: Fault | None = None
    latency_ms: int = 0
    times: int | None = None
    used: int = 0
    is_sequence: bool = False
    chance: float | None = None
    duplicate_ms: int | None = None
    reorder_ms: int | None = None
    latest_ms: int | None = None
    spared: tuple[str, ...] = ()

    @property
    def answers(self) -> bool:
        """Whether it says where an attempt goes, so that no later rule is asked."""
        return bool(self.responses) or self.forward_to is not None or self.fault is not None


class Schedule(Record):
    """A schedule as it was last written: what is published at every firing of `cron`."""

    schedule_id: ScheduleId
    account_id: AccountId
    cron: str
    destination: Destination
    body: bytes
    options: MessageOptions
    caller_ip: str
    created_ms: int


class ScheduleProgress(Record):
    """A schedule and what has come of it; `next_ms` is None while it is paused."""

    schedule: Schedule
    paused: bool = False
    next_ms: int | None
    last_fired_ms: int | None = None
    last_states: tuple[tuple[MessageId, ScheduleRunState], ...] = ()
    error: str | None = None


class Endpoint(Record):
    url: str
    name: str | None


class UrlGroup(Record):
    """A named set of endpoints. `headers` are the default headers as given, `defaults` what they say."""

    name: GroupName
    account_id: AccountId
    endpoints: tuple[Endpoint, ...]
    headers: tuple[tuple[str, tuple[str, ...]], ...]
    defaults: MessageOptions
    created_ms: int
    updated_ms: int


class Queue(Record):
    name: QueueName
    account_id: AccountId
    parallelism: int
    paused: bool
    created_ms: int
    updated_ms: int


class FlowState(Record):
    """One flow control key: its limits, and what they have let through.

    `parallelism` and `rate` are None while no message or pin has set them. `window_start_ms` is
    when the current rate period began, 0 before the first dispatch under a rate.
    """

    key: FlowKey
    account_id: AccountId
    parallelism: int | None = None
    rate: int | None = None
    period_ms: int = DEFAULT_PERIOD_MS
    active: int = 0
    rate_count: int = 0
    window_start_ms: int = 0
    paused: bool = False
    pinned_parallelism: bool = False
    pinned_rate: bool = False


class DeadLetter(Record):
    """The index entry of a dead letter; its message and last response are history, in the journal.

    `run_number` is set on those of workflow runs, which are a queue of their own.
    """

    dead_letter_id: DeadLetterId
    account_id: AccountId
    message_id: MessageId
    failed_ms: int
    run_number: int | None = None


class SigningKeys(Record):
    current: str
    next: str


class Plan(StrEnum):
    FREE = "free"
    PAID = "paid"


class Account(Record):
    """A queue account with every field of the interface document's table, in its units.

    The limits are enforced as they stand here: sizes in bytes, `max_delay` and `timeout` in
    seconds, `max_dlq_retention_time_milis` in milliseconds, `retention` in days (D-002). `rate_limit`,
    the budget and the completion caps are only shown (D-004, D-265). `max_parallelism` bounds queues alone (D-264).
    `signing_keys` and `read_only_token` are the account's too, though its record does not show them.
    `burst_limit_is_set` tells that a test or a fixture chose `max_requests_per_second` (D-032).
    """

    customer_id: str
    id: AccountId
    password: str
    token: str
    read_only_token: str
    signing_keys: SigningKeys
    active: bool
    state: str
    modifying_state: str
    last_plan_upgrade_time: int
    max_message_size: int
    max_requests_per_day: int
    max_requests_per_day_hard: int
    max_endpoints_per_topic: int
    max_requests_per_second: int
    max_dlq_size: int
    max_completion_tokens_per_day: int
    max_completion_tokens_per_minute: int
    max_completions_per_day: int
    max_completions_per_minute: int
    max_retries: int
    max_topics: int
    max_schedules: int
    max_events_size: int
    max_dlq_retention_time_milis: int
    max_delay: int
    max_parallelism: int
    max_global_parallelism: int
    max_queues: int
    retention: int
    timeout: int
    rate_limit: int
    type: Plan
    reserved_type: str
    reserved_price: float
    prod_pack_enabled: bool
    metrics_enabled: str
    enterprise: bool | None
    region: str
    budget: int
    created_by: str
    creation_time: int
    burst_limit_is_set: bool = False


class IndexType(StrEnum):
    """The payment plan of an index (interface document, "Search index")."""

    FREE = "free"
    PAYG = "payg"
    FIXED = "fixed"


class SearchIndex(Record):
    """A search index with every field of the interface document's table but `throughput_vector`.

    That one is a statistic. `profile_number` is the index's own number in its world: what seeds
    the usage that is invented for it. A limit of -1 means unlimited.
    """

    id: IndexId
    profile_number: int
    customer_id: str
    name: str
    endpoint: str
    type: IndexType
    region: str
    integration_email: str
    token: str
    read_only_token: str
    max_vector_count: int
    max_monthly_reranks: int
    max_daily_updates: int
    max_daily_queries: int
    max_monthly_bandwidth: int
    max_writes_per_second: int
    max_query_per_second: int
    max_reads_per_request: int
    max_writes_per_request: int
    creation_time: int
    input_enrichment_enabled: bool


class VectorIndex(Record):
    """A vector index, of which the service shows only statistics; its caps are those of its type."""

    id: IndexId
    profile_number: int
    customer_id: str
    name: str
    type: IndexType
    region: str
    creation_time: int


class TeamRole(StrEnum):
    OWNER = "owner"
    ADMIN = "admin"
    DEV = "dev"
    FINANCE = "finance"


class TeamMember(Record):
    """A person of the team that owns the world's resources."""

    name: str
    email: str
    role: TeamRole


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
