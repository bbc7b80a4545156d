"""The plans that an account starts on."""

from __future__ import annotations

import pytest

from emulator.core.model.accounts import Plan
from emulator.core.plans import PLAN_OF_TYPE, TERMS

SAMPLES = {
    Plan.FREE: {
        "type": Plan.FREE,
        "reserved_type": "",
        "reserved_price": 0,
        "max_message_size": 1_048_576,
        "max_requests_per_day": 1_000,
        "max_requests_per_day_hard": 1_000,
        "max_endpoints_per_topic": 100,
        "max_requests_per_second": 100,
        "max_dlq_size": 1_000_000,
        "max_retries": 5,
        "max_topics": 1,
        "max_schedules": 10,
        "max_events_size": 10_000,
        "max_dlq_retention_time_milis": 259_200_000,
        "retention": 3,
        "max_delay": 604_800,
        "max_parallelism": 2,
        "max_global_parallelism": 10,
        "max_queues": 10,
        "timeout": 900,
    },
    Plan.PAID: {
        "type": Plan.PAID,
        "reserved_type": "queue_fixed_1m",
        "reserved_price": 180,
        "max_message_size": 52_428_800,
        "max_requests_per_day": 1_000_000,
        "max_requests_per_day_hard": 10_000_000,
        "max_endpoints_per_topic": 1_000,
        "max_requests_per_second": 500,
        "max_dlq_size": 2_147_483_647,
        "max_retries": 20,
        "max_topics": 1_000,
        "max_schedules": 1_000_000,
        "max_events_size": 100_000,
        "max_dlq_retention_time_milis": 2_592_000_000,
        "retention": 7,
        "max_delay": 2_147_483_647,
        "max_parallelism": 10,
        "max_global_parallelism": 200,
        "max_queues": 1_000,
        "timeout": 21_600,
    },
}


@pytest.mark.parametrize("kind", Plan)
def test_an_account_starts_on_the_published_samples(kind: Plan) -> None:
    """D-030."""
    terms = TERMS[PLAN_OF_TYPE[kind]]
    assert {name: getattr(terms, name) for name in terms.__struct_fields__} == SAMPLES[kind]
