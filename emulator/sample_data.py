"""What a world starts with where nobody said otherwise, all of it a function of the world's seed.

Identifiers and tokens come from a key that only the world has, so that no two worlds share one.
Names and addresses of people come from Faker, which is slow to import and is only when needed.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from hashlib import blake2b
from typing import TYPE_CHECKING

from emulator.core.identifiers import queue_token, signing_key, token_text, uuid
from emulator.core.model import Account, AccountId, IndexId, Plan, SigningKeys
from emulator.core.plans import TERMS, PlanName

if TYPE_CHECKING:
    from faker import Faker

_DAY_MS = 86_400_000
# The youngest and the oldest that something is whose age nobody gave.
_LEAST_AGE_DAYS, _MOST_AGE_DAYS = 30, 400


def queue_account(*, key: bytes, number: int, plan: PlanName, owner: str, created_ms: int) -> Account:
    """Queue account `number` of a world, with the limits of its plan (D-030).

    `key` is secret to the world; `owner` is an email address.
    """
    account_id = AccountId(uuid(key, "account", number))
    password = token_text(key, "password", number, 40)
    terms = TERMS[plan]
    is_free = terms.type is Plan.FREE
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
        last_plan_upgrade_time=0 if is_free else created_ms // 1000,
        max_completion_tokens_per_day=10_000,
        max_completion_tokens_per_minute=1_000,
        max_completions_per_day=100,
        max_completions_per_minute=10,
        rate_limit=100,
        prod_pack_enabled=False,
        metrics_enabled="false",
        enterprise=None,
        budget=0,
        created_by=owner,
        creation_time=created_ms // 1000,
        region="eu-central-1" if is_free else "us-east-1",
        **{name: getattr(terms, name) for name in terms.__dataclass_fields__},
    )


def with_credentials(account: Account, *, token: str, signing_keys: SigningKeys) -> Account:
    """The account under a token and keys that are given rather than made."""
    return replace(account, token=token, signing_keys=signing_keys)


def vector_index_id(key: bytes, number: int) -> IndexId:
    return IndexId(uuid(key, "vector index", number))


def age_ms(key: bytes, kind: str, number: int) -> int:
    """How long before the world's first instant something was made: one month to a bit over a year."""
    value = _number(key, f"age of {kind}", number)
    days = _LEAST_AGE_DAYS + value % (_MOST_AGE_DAYS - _LEAST_AGE_DAYS)
    return days * _DAY_MS + (value >> 16) % _DAY_MS


# -- names of people and things ---------------------------------------------------------------


def email(seed: int, kind: str, number: int) -> str:
    """An address under one of the domains that are reserved for examples."""
    return str(_faker(seed, kind, number).ascii_safe_email())


def person(seed: int, kind: str, number: int) -> str:
    return str(_faker(seed, kind, number).name())


def thing(seed: int, kind: str, number: int) -> str:
    """A name as somebody gives an index: two words and a hyphen."""
    return "-".join(_faker(seed, kind, number).words(2))


def _faker(seed: int, kind: str, number: int) -> Faker:
    """Faker at a point that depends on what is to be invented, not on what was invented before."""
    faker = _loaded()
    faker.seed_instance(_number(b"", f"{seed}/{kind}", number))
    return faker


@lru_cache(maxsize=1)
def _loaded() -> Faker:
    from faker import Faker

    return Faker("en_US")


def _number(key: bytes, kind: str, number: int) -> int:
    digest = blake2b(f"{kind}/{number}".encode(), key=key, digest_size=8, person=b"sample").digest()
    return int.from_bytes(digest, "big")
