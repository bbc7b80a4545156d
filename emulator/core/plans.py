"""What each plan permits: of a queue account, and of an index.

Source: the interface document lists the limits as fields and no plan's numbers. Those of the free
and the first fixed plan are the service's published samples (D-030); the others are chosen from
its price list (D-160).
"""

from __future__ import annotations

from enum import StrEnum

from msgspec.structs import asdict, replace

from emulator.core.model.resources import Account, IndexType, Plan
from emulator.core.record import Record

_UNLIMITED = 2_147_483_647

# Where a search index can be (interface document, "Search index").
SEARCH_REGIONS = ("eu-west-1", "us-central1")


class PlanName(StrEnum):
    """A queue account's plan. An account of the type `paid` is on any of the last four."""

    FREE = "free"
    PAYG = "payg"
    QUEUE_FIXED_1M = "queue_fixed_1m"
    QUEUE_FIXED_10M = "queue_fixed_10m"
    QUEUE_FIXED_100M = "queue_fixed_100m"


# What an account of each type starts on: the samples of the service's own documentation (D-030).
PLAN_OF_TYPE = {Plan.FREE: PlanName.FREE, Plan.PAID: PlanName.QUEUE_FIXED_1M}


class PlanTerms(Record):
    """The fields of an account that follow from its plan, in the units of the account's record."""

    type: Plan
    reserved_type: str
    reserved_price: float
    max_message_size: int
    max_requests_per_day: int
    max_requests_per_day_hard: int
    max_endpoints_per_topic: int
    max_requests_per_second: int
    max_dlq_size: int
    max_retries: int
    max_topics: int
    max_schedules: int
    max_events_size: int
    max_dlq_retention_time_milis: int
    retention: int
    max_delay: int
    max_parallelism: int
    max_global_parallelism: int
    max_queues: int
    timeout: int


_FIXED_1M = PlanTerms(
    type=Plan.PAID,
    reserved_type=PlanName.QUEUE_FIXED_1M.value,
    reserved_price=180.0,
    max_message_size=52_428_800,
    max_requests_per_day=1_000_000,
    max_requests_per_day_hard=10_000_000,
    max_endpoints_per_topic=1_000,
    max_requests_per_second=500,
    max_dlq_size=_UNLIMITED,
    max_retries=20,
    max_topics=1_000,
    max_schedules=1_000_000,
    max_events_size=100_000,
    max_dlq_retention_time_milis=2_592_000_000,
    retention=7,
    max_delay=_UNLIMITED,
    max_parallelism=10,
    max_global_parallelism=200,
    max_queues=1_000,
    timeout=21_600,
)

TERMS: dict[PlanName, PlanTerms] = {
    PlanName.FREE: PlanTerms(
        type=Plan.FREE,
        reserved_type="",
        reserved_price=0.0,
        max_message_size=1_048_576,
        max_requests_per_day=1_000,
        max_requests_per_day_hard=1_000,
        max_endpoints_per_topic=100,
        max_requests_per_second=100,
        max_dlq_size=1_000_000,
        max_retries=5,
        max_topics=1,
        max_schedules=10,
        max_events_size=10_000,
        max_dlq_retention_time_milis=259_200_000,
        retention=3,
        max_delay=604_800,
        max_parallelism=2,
        max_global_parallelism=10,
        max_queues=10,
        timeout=900,
    ),
    PlanName.PAYG: PlanTerms(
        type=Plan.PAID,
        reserved_type="",
        reserved_price=0.0,
        max_message_size=10_485_760,
        max_requests_per_day=_UNLIMITED,
        max_requests_per_day_hard=_UNLIMITED,
        max_endpoints_per_topic=100,
        max_requests_per_second=100,
        max_dlq_size=1_000_000,
        max_retries=20,
        max_topics=100,
        max_schedules=1_000,
        max_events_size=10_000,
        max_dlq_retention_time_milis=604_800_000,
        retention=7,
        max_delay=31_536_000,
        max_parallelism=10,
        max_global_parallelism=100,
        max_queues=100,
        timeout=7_200,
    ),
    PlanName.QUEUE_FIXED_1M: _FIXED_1M,
    PlanName.QUEUE_FIXED_10M: replace(
        _FIXED_1M,
        reserved_type=PlanName.QUEUE_FIXED_10M.value,
        reserved_price=420.0,
        max_requests_per_day=10_000_000,
        max_requests_per_day_hard=100_000_000,
        max_dlq_retention_time_milis=7_776_000_000,
        max_global_parallelism=1_000,
    ),
    PlanName.QUEUE_FIXED_100M: replace(
        _FIXED_1M,
        reserved_type=PlanName.QUEUE_FIXED_100M.value,
        reserved_price=1_200.0,
        max_requests_per_day=100_000_000,
        max_requests_per_day_hard=1_000_000_000,
        max_dlq_retention_time_milis=7_776_000_000,
        max_global_parallelism=1_000,
    ),
}


def on_plan(account: Account, plan: PlanName) -> Account:
    """The account with its plan's type, price and limits, and everything else as it was."""
    return replace(account, **asdict(TERMS[plan]), burst_limit_is_set=False)


class IndexCaps(Record):
    """The limits of an index, -1 for none (interface document, Limits 1)."""

    max_vector_count: int
    max_monthly_reranks: int
    max_daily_updates: int
    max_daily_queries: int
    max_monthly_bandwidth: int


# The pay-as-you-go numbers are those of the service's sample; the others are chosen (D-161).
INDEX_CAPS: dict[IndexType, IndexCaps] = {
    IndexType.FREE: IndexCaps(
        max_vector_count=200_000,
        max_monthly_reranks=1_000,
        max_daily_updates=10_000,
        max_daily_queries=10_000,
        max_monthly_bandwidth=53_687_091_200,
    ),
    IndexType.PAYG: IndexCaps(
        max_vector_count=2_000_000,
        max_monthly_reranks=-1,
        max_daily_updates=-1,
        max_daily_queries=-1,
        max_monthly_bandwidth=-1,
    ),
    IndexType.FIXED: IndexCaps(
        max_vector_count=10_000_000,
        max_monthly_reranks=-1,
        max_daily_updates=-1,
        max_daily_queries=-1,
        max_monthly_bandwidth=1_099_511_627_776,
    ),
}
