"""Accounts with their limits, their search and vector indexes, and their team."""

from __future__ import annotations

from enum import StrEnum

from emulator.core.model.names import AccountId, IndexId
from emulator.core.record import Record


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
