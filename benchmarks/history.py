"""Whether what happens gets dearer with what has happened: deliveries after a million of them, and statistics."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import httpx

from benchmarks import recorded, servers
from benchmarks.checkouts import Checkout
from benchmarks.figures import Figure, Target, Unit

_PERIODS = ("1h", "3h", "12h", "1d", "3d", "7d", "30d")
_FIRST_DAYS = 3


def growth(checkout: Checkout) -> Iterator[Figure]:
    """The next 100,000 deliveries after a million, beside the first 100,000."""
    per_day = recorded.PER_MINUTE * 1440
    with (
        servers.database(in_memory=False) as database,
        servers.emulator(checkout, "--db", database, *servers.FROZEN) as emulator,
    ):
        recorded.schedule(emulator)
        first_s, first_cpu_s = _days(emulator, _FIRST_DAYS)
        first_mb = emulator.resident_mb
        _days(emulator, 30 - _FIRST_DAYS)
        next_s, next_cpu_s = _days(emulator, _FIRST_DAYS)
        next_mb = emulator.resident_mb
    count = f"{_FIRST_DAYS * per_day:,}"
    beside = f"the first {count}"
    yield Figure(
        what=f"{count} deliveries after a million", value=next_s, unit=Unit.SECONDS, floor=first_s, beside=beside
    )
    yield Figure(
        what=f"{count} deliveries after a million, CPU",
        value=next_cpu_s,
        unit=Unit.CPU_SECONDS,
        floor=first_cpu_s,
        beside=beside,
    )
    yield Figure(
        what="resident after a million deliveries", value=next_mb, unit=Unit.MEGABYTES, floor=first_mb, beside=beside
    )


def _days(emulator: servers.Emulator, days: int) -> tuple[float, float]:
    """Seconds and seconds of CPU that so many days take."""
    emulator.settle()
    before_s, began = emulator.cpu_s, time.perf_counter()
    report = emulator.advance(f"{days}d")
    took_s = time.perf_counter() - began
    emulator.settle()
    expected = days * recorded.PER_MINUTE * 1440
    if report["succeeded"] != expected:
        raise RuntimeError(f"expected {expected} deliveries, got {report}")
    return took_s, emulator.cpu_s - before_s


def statistics(checkout: Checkout) -> Iterator[Figure]:
    """Statistics of an account with a million recorded deliveries beside those of an account with none."""
    with servers.database(in_memory=False) as database:
        options = ("--db", database, *servers.FROZEN)
        with servers.emulator(checkout, *options) as emulator:
            login = emulator.client.get("/_emulator/credentials").json()["management"]
            auth = httpx.BasicAuth(login["username"], login["password"])
            busy, idle = [each["id"] for each in emulator.client.get("/v2/queue/users", auth=auth).json()][:2]
        if recorded.is_known(Path(database)):
            with servers.emulator(checkout, *options) as emulator:
                emulator.advance("30d")
            recorded.fill(Path(database), busy)
        else:
            with servers.emulator(checkout, *options) as emulator:
                recorded.schedule(emulator)
                # An advance makes at most a million deliveries.
                for _ in range(2):
                    emulator.advance("15d")
        with servers.emulator(checkout, *options) as emulator:
            for period in _PERIODS:
                took, floor = (_answer_ms(emulator.client, auth, each, period) for each in (busy, idle))
                yield Figure(
                    what=f"statistics of {recorded.DELIVERIES:,}, {period}",
                    value=took,
                    unit=Unit.MILLISECONDS,
                    floor=floor,
                    beside="an account without any",
                    target=Target(limit=50),
                )


def _answer_ms(client: httpx.Client, auth: httpx.BasicAuth, account_id: str, period: str) -> float:
    """The median time of an answer, of those after the first."""
    took = []
    for _ in range(21):
        began = time.perf_counter()
        answer = client.get(f"/v2/queue/stats/{account_id}", params={"period": period}, auth=auth)
        took.append((time.perf_counter() - began) * 1000)
        answer.raise_for_status()
    return median(took[1:])
