"""The accounts a world starts with, and how its credentials follow from its seed."""

from __future__ import annotations

import json
from base64 import b64encode
from dataclasses import replace

from emulator.core.identifiers import signing_key, token_text, uuid
from emulator.core.model import Account, AccountId, Plan, SigningKeys


def queue_token(user_id: str, password: str) -> str:
    """A messaging token: base64 of the JSON that names its user (D-051)."""
    return b64encode(json.dumps({"UserID": user_id, "Password": password}, separators=(",", ":")).encode()).decode()


def queue_account(*, key: bytes, number: int, plan: Plan, owner: str, epoch_ms: int) -> Account:
    """Queue account `number` of a world, with the limits of its plan (D-030).

    `key` is secret to the world, so that no two worlds share a token; `owner` is an email address.
    """
    account_id = AccountId(uuid(key, "account", number))
    password = token_text(key, "password", number, 40)
    limits = _FREE if plan is Plan.FREE else _PAID
    return Account(
        customer_id=owner,
        id=account_id,
        password=password,
        token=queue_token(account_id, password),
        read_only_token=queue_token(account_id, token_text(key, "read-only", number, 40)),
        signing_keys=SigningKeys(current=signing_key(key, 2 * number), next=signing_key(key, 2 * number + 1)),
        active=True,
        state="active",
        modifying_state="",
        last_plan_upgrade_time=0 if plan is Plan.FREE else epoch_ms // 1000,
        max_completion_tokens_per_day=10_000,
        max_completion_tokens_per_minute=1_000,
        max_completions_per_day=100,
        max_completions_per_minute=10,
        retention=7,
        rate_limit=100,
        type=plan,
        prod_pack_enabled=False,
        metrics_enabled="false",
        enterprise=None,
        budget=0,
        created_by=owner,
        creation_time=epoch_ms // 1000,
        max_message_size=limits["max_message_size"],
        max_requests_per_day=limits["max_requests_per_day"],
        max_requests_per_day_hard=limits["max_requests_per_day_hard"],
        max_endpoints_per_topic=limits["max_endpoints_per_topic"],
        max_requests_per_second=limits["max_requests_per_second"],
        max_dlq_size=limits["max_dlq_size"],
        max_retries=limits["max_retries"],
        max_topics=limits["max_topics"],
        max_schedules=limits["max_schedules"],
        max_events_size=limits["max_events_size"],
        max_dlq_retention_time_milis=limits["max_dlq_retention_time_milis"],
        max_delay=limits["max_delay"],
        max_parallelism=limits["max_parallelism"],
        max_global_parallelism=limits["max_global_parallelism"],
        max_queues=limits["max_queues"],
        timeout=limits["timeout"],
        reserved_type="" if plan is Plan.FREE else "queue_fixed_1m",
        reserved_price=0 if plan is Plan.FREE else 180,
        region="eu-central-1" if plan is Plan.FREE else "us-east-1",
    )


def with_credentials(account: Account, *, token: str, signing_keys: SigningKeys) -> Account:
    """The account under a token and keys that are given rather than made."""
    return replace(account, token=token, signing_keys=signing_keys)


_FREE = {
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
    "max_delay": 604_800,
    "max_parallelism": 2,
    "max_global_parallelism": 10,
    "max_queues": 10,
    "timeout": 900,
}

_PAID = {
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
    "max_delay": 2_147_483_647,
    "max_parallelism": 10,
    "max_global_parallelism": 200,
    "max_queues": 1_000,
    "timeout": 21_600,
}
