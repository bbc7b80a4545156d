"""Whether what happens gets dearer with what has happened: a million deliveries, those after them, and statistics."""

from __future__ import annotations

import time
from collections.abc import Iterator
from statistics import median

import httpx

from benchmarks import servers
from benchmarks.checkouts import Checkout
from benchmarks.figures import Figure, Target, Unit

_LONGEST = "30d"
_PERIODS = ("1h", "3h", "12h", "1d", "3d", "7d", _LONGEST)
_SCHEDULES = 24
_STEP_DAYS = 3
# About 100,000, so that ten steps are a million and the eleventh comes after them.
_STEP = _STEP_DAYS * 1440 * _SCHEDULES
_STEPS = 11


def growth(checkout: Checkout) -> Iterator[Figure]:
    """Steps of 100,000 deliveries, answered by a rule: the one after a million beside the first, and statistics."""
    with (
        servers.database(in_memory=False) as database,
        servers.emulator(checkout, "--db", database, *servers.FROZEN) as emulator,
    ):
        emulator.rule("https://api.example.com/*", respond={"status": 200})
        for number in range(_SCHEDULES):
            emulator.schedule("* * * * *", f"https://api.example.com/{number}")
        steps = []
        for _ in range(_STEPS):
            steps.append((*_advance(emulator), emulator.resident_mb))
        statistics = list(_statistics(emulator))
    took_s, cpu_s, resident_mb = zip(*steps, strict=True)
    what, beside = "100,000 deliveries after a million", "the first 100,000"
    yield Figure(what=what, value=took_s[-1], unit=Unit.SECONDS, floor=took_s[0], beside=beside)
    yield Figure(
        what=f"{what}, CPU of each",
        value=_each_us(cpu_s[-1]),
        unit=Unit.MICROSECONDS,
        floor=_each_us(cpu_s[0]),
        beside=beside,
        count=_STEP,
        things="deliveries",
        target=Target(limit=1.05, of_floor=True),
        steps=tuple(_each_us(each) for each in cpu_s),
    )
    yield Figure(
        what="resident after a million deliveries",
        value=resident_mb[-1],
        unit=Unit.MEGABYTES,
        floor=resident_mb[0],
        beside=beside,
    )
    yield from statistics


def _advance(emulator: servers.Emulator) -> tuple[float, float]:
    """Seconds and seconds of CPU that one step takes."""
    emulator.settle()
    before_s, began = emulator.cpu_s, time.perf_counter()
    report = emulator.advance(f"{_STEP_DAYS}d")
    took_s = time.perf_counter() - began
    emulator.settle()
    if report["succeeded"] != _STEP:
        raise RuntimeError(f"expected {_STEP} deliveries, got {report}")
    return took_s, emulator.cpu_s - before_s


def _each_us(cpu_s: float) -> float:
    return cpu_s / _STEP * 1e6


def _statistics(emulator: servers.Emulator) -> Iterator[Figure]:
    """Those of an account with a million recorded deliveries beside those of an account with none."""
    login = emulator.client.get("/_emulator/credentials").json()["management"]
    auth = httpx.BasicAuth(login["username"], login["password"])
    busy, idle = [each["id"] for each in emulator.client.get("/v2/queue/users", auth=auth).json()][:2]
    for period in _PERIODS:
        took_ms, floor_ms = (_answer_ms(emulator.client, auth, each, period) for each in (busy, idle))
        yield Figure(
            what=f"statistics of a million deliveries, {period}",
            value=took_ms,
            unit=Unit.MILLISECONDS,
            floor=floor_ms,
            beside="an account without any",
            target=Target(limit=12) if period == _LONGEST else None,
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
