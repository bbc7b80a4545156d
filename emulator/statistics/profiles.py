"""What accounts and indexes are imagined to have done: one profile for each, from the world's seed.

`synthetic.py` turns profiles into numbers.
"""

from __future__ import annotations

from functools import lru_cache
from hashlib import blake2b
from random import Random

from msgspec import convert

from emulator.core.language.calendar import DAY_MINUTES, MINUTE_MS
from emulator.core.model.resources import Account, IndexType, Plan, SearchIndex, VectorIndex
from emulator.core.plans import INDEX_CAPS, IndexCaps
from emulator.statistics.series import Invented
from emulator.statistics.synthetic import IndexProfile, QueueProfile, Rhythm

_DAY_S = 86_400
# A day that does not come: that of an index which has seen no traffic.
_NEVER = 1 << 40
_NO_LIMIT = 1 << 40
_LONGEST_MONTH = 31
_DIMENSIONS = (384, 768, 1024, 1536)
_FLOAT_BYTES = 4


def before_the_world(key: bytes, number: int, account: Account, began_ms: int) -> Invented:
    """What account `number` of a world did before the world began at `began_ms`.

    `account` is its record at that time. An account on the free plan rests on the day the world
    begins: that day's allowance is left to the user of the emulator (D-196).
    """
    end_minute = began_ms // MINUTE_MS
    if account.type is Plan.FREE:
        end_minute -= end_minute % DAY_MINUTES
    profile = _queue_profile(key, number, account.type, account.max_requests_per_day, account.creation_time // _DAY_S)
    return Invented(profile=profile, account=account, end_minute=end_minute)


def search_index_profile(key: bytes, index: SearchIndex, epoch_ms: int) -> IndexProfile:
    """How a search index is used, within its own caps; not at all if it was made after the epoch."""
    caps = convert(index, IndexCaps, from_attributes=True)
    return _index_profile(key, "search", index.profile_number, index.type, caps, _first_day(index, epoch_ms))


def vector_index_profile(key: bytes, index: VectorIndex, epoch_ms: int) -> IndexProfile:
    """How a vector index is used, within the caps of its type."""
    caps = INDEX_CAPS[index.type]
    return _index_profile(key, "vector", index.profile_number, index.type, caps, _first_day(index, epoch_ms))


def _first_day(index: SearchIndex | VectorIndex, epoch_ms: int) -> int:
    """Nothing passes through the emulator to an index, so one that a user makes stays empty (D-193)."""
    return _NEVER if index.creation_time * 1000 >= epoch_ms else index.creation_time // _DAY_S + 1


@lru_cache(maxsize=256)
def _queue_profile(key: bytes, number: int, plan: Plan, daily_limit: int, created_on: int) -> QueueProfile:
    own_key = _key_of(key, "queue", number)
    random = Random(int.from_bytes(own_key, "big"))
    base = random.randint(40, 350) if plan is Plan.FREE else random.randint(2_000, 60_000)
    return QueueProfile(
        key=own_key,
        first_day=created_on + 1,
        requests=_rhythm(random, "requests", base, daily_limit),
        canceled=random.randint(20, 150),
        failing=random.randint(5, 60),
        erring=random.randint(50, 300),
        trouble_one_in=random.randint(20, 60),
        message_bytes=random.randint(700, 6_000),
    )


@lru_cache(maxsize=256)
def _index_profile(
    key: bytes, kind: str, number: int, type_: IndexType, caps: IndexCaps, first_day: int
) -> IndexProfile:
    own_key = _key_of(key, kind, number)
    random = Random(int.from_bytes(own_key, "big"))
    is_free = type_ is IndexType.FREE
    query_bytes, update_bytes = random.randint(1_200, 6_000), random.randint(1_500, 9_000)
    # Queries and updates may each have half of a day's part of the bandwidth.
    daily_bytes = _limit(caps.max_monthly_bandwidth) // _LONGEST_MONTH // 2
    update_limit = min(_limit(caps.max_daily_updates), daily_bytes // update_bytes)
    half_days = random.randint(20, 120)
    vectors = random.randint(2_000, 120_000) if is_free else random.randint(20_000, 900_000)
    vectors = min(vectors, _limit(caps.max_vector_count), update_limit * half_days // 2)
    return IndexProfile(
        key=own_key,
        first_day=first_day,
        queries=_rhythm(
            random,
            "queries",
            random.randint(60, 2_500) if is_free else random.randint(3_000, 150_000),
            min(_limit(caps.max_daily_queries), daily_bytes // query_bytes),
        ),
        updates=_rhythm(
            random, "updates", random.randint(20, 600) if is_free else random.randint(400, 20_000), update_limit
        ),
        reranks=_rhythm(
            random,
            "reranks",
            random.randint(3, 20) if is_free else random.randint(30, 3_000),
            _limit(caps.max_monthly_reranks) // _LONGEST_MONTH,
        ),
        vectors=vectors,
        half_days=half_days,
        vector_bytes=_FLOAT_BYTES * _DIMENSIONS[random.randint(0, 3)] + random.randint(100, 900),
        query_bytes=query_bytes,
        update_bytes=update_bytes,
        query_latency_us=random.randint(4_000, 28_000),
        update_latency_us=random.randint(3_000, 20_000),
        embeds_latency_us=random.randint(15_000, 90_000),
        rerank_latency_us=random.randint(60_000, 250_000),
    )


def _limit(cap: int) -> int:
    """A negative cap means unlimited."""
    return _NO_LIMIT if cap < 0 else cap


def _rhythm(random: Random, series: str, base: int, limit: int) -> Rhythm:
    return Rhythm(
        series=series,
        base=base,
        growth=random.randint(20, 150),
        weekend=random.randint(30, 75),
        night=random.randint(8, 30),
        peak_hour=random.randint(9, 17),
        noise=random.randint(8, 20),
        spike=random.randint(170, 320),
        spike_one_in=random.randint(18, 45),
        limit=limit,
    )


def _key_of(key: bytes, kind: str, number: int) -> bytes:
    return blake2b(f"{kind}/{number}".encode(), key=key, digest_size=32, person=b"profile").digest()
