"""Accounts, indexes and teams; schedules, URL groups, queues, flow control keys; destination rules."""

from __future__ import annotations

from enum import StrEnum

from emulator.core.model.options import DEFAULT_PERIOD_MS, Destination, MessageOptions, Method
from emulator.core.record import (
    AccountId,
    FlowKey,
    GroupName,
    Headers,
    IndexId,
    MessageId,
    QueueName,
    Record,
    RuleId,
    ScheduleId,
)


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


# -- made by name -------------------------------------------------------------------------------
# What is made by name and kept: schedules, URL groups, queues and flow control keys.


class ScheduleRunState(StrEnum):
    """How a message of a schedule's last firing went (D-038)."""

    IN_PROGRESS = "IN_PROGRESS"
    SUCCESS = "SUCCESS"
    FAIL = "FAIL"


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


class ScheduleProgress(Record, kw_only=True):
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


def new_queue(account_id: AccountId, name: QueueName, now_ms: int) -> Queue:
    """A queue as it is made, by its first message or by hand: parallelism 1, not paused (D-022)."""
    return Queue(name=name, account_id=account_id, parallelism=1, paused=False, created_ms=now_ms, updated_ms=now_ms)


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


# -- destination rules --------------------------------------------------------------------------


class Fault(StrEnum):
    """A connection failure a destination rule can stage."""

    REFUSED = "refused"
    TIMEOUT = "timeout"
    RESET = "reset"
    DNS = "dns"
    TLS = "tls"


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


class DestinationRule(Record, rename={"exempt_attempts": "spared"}):
    """What happens at a destination instead of, or before, the network.

    `url` is exact, or a glob in which `*` matches any characters; `times` limits how many
    attempts the rule decides (None: all), `used` counts those it has decided. At most one of
    `responses`, `forward_to` and `fault` is given; of several responses each attempt takes the
    next, and the last repeats. A rule without any of them disturbs attempts and leaves the answer
    to the rules after it.

    `chance` is the probability that the rule meets an attempt (None: every one), and `exempt_attempts` names
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
    exempt_attempts: tuple[str, ...] = ()

    @property
    def answers(self) -> bool:
        """Whether it says where an attempt goes, so that no later rule is asked."""
        return bool(self.responses) or self.forward_to is not None or self.fault is not None
