"""Fast-forward: a clock that is moved by weeks, and all that is due on the way."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from benchmarks import servers
from benchmarks.checkouts import Checkout
from benchmarks.figures import Figure, Target, Unit

_BACKLOG = 10_000
# Whether the state is in memory, for each of the servers that are measured.
_PLACES = (False, True)


def month(checkout: Checkout, *, days: int = 30, places: Sequence[bool] = _PLACES) -> Iterator[Figure]:
    """A month of a minutely schedule, answered by a rule."""
    firings = days * 1440
    for in_memory in places:
        with (
            servers.database(in_memory=in_memory) as database,
            servers.emulator(checkout, "--db", database, *servers.FROZEN) as emulator,
        ):
            emulator.rule("https://api.example.com/*", respond={"status": 200})
            emulator.schedule("* * * * *", "https://api.example.com/tick")
            took_s, cpu_s = _advance(emulator, f"{days}d", expected=firings)
        what = f"{days} days, minutely, {_where(in_memory)}"
        yield _seconds(what, took_s, firings, "firings", Target(limit=(3.2 if in_memory else 3.4) * days / 30))
        yield _cpu(what, cpu_s, firings, "firings")


def receiver(
    checkout: Checkout, *, hours: int = 96, at_once: int = 4000, places: Sequence[bool] = _PLACES
) -> Iterator[Figure]:
    """To a real HTTP receiver: one attempt at a time, each at its own instant; and 16 at a time, all at one instant."""
    deliveries = hours * 60
    for in_memory in places:
        with (
            servers.database(in_memory=in_memory) as database,
            servers.receiver() as port,
            servers.emulator(checkout, "--db", database, *servers.FROZEN) as emulator,
        ):
            emulator.schedule("* * * * *", f"http://127.0.0.1:{port}/tick")
            emulator.advance("1h")
            took_s, cpu_s = _advance(emulator, f"{hours}h", expected=deliveries)
        what = f"to a real receiver, {_where(in_memory)}"
        yield _rate(what, deliveries / took_s, 2800 if in_memory else 2200)
        yield _cpu(what, cpu_s, deliveries, "deliveries")
    for in_memory in places:
        with (
            servers.database(in_memory=in_memory) as database,
            servers.receiver() as port,
            servers.emulator(checkout, "--db", database, "--concurrency", "16", *servers.FROZEN) as emulator,
        ):
            item = {"destination": f"http://127.0.0.1:{port}/hook", "body": "x", "headers": {"Svc-Delay": "1h"}}
            emulator.batch({**item, "headers": {"Svc-Delay": "1m"}}, 100)
            emulator.advance("30m")
            emulator.batch(item, at_once)
            took_s, cpu_s = _advance(emulator, "2h", expected=at_once)
        what = f"to a real receiver, 16 at a time, {_where(in_memory)}"
        yield _rate(what, at_once / took_s, 6000)
        yield _cpu(what, cpu_s, at_once, "deliveries")


def backlog(checkout: Checkout) -> Iterator[Figure]:
    """10,000 messages drained through a flow control key of parallelism 10, answered by a rule of 1 s."""
    with servers.emulator(checkout, *servers.FROZEN) as emulator:
        emulator.rule("*", respond={"status": 200, "latency": "1s"})
        flow = {"Svc-Flow-Control-Key": "key", "Svc-Flow-Control-Value": "parallelism=10"}
        emulator.batch({"destination": "https://api.example.com/", "body": "x", "headers": flow}, _BACKLOG)
        emulator.settle()
        before_s, began = emulator.cpu_s, time.perf_counter()
        report = emulator.client.post("/_emulator/clock/drain").raise_for_status().json()
        took_s = time.perf_counter() - began
        emulator.settle()
        cpu_s = emulator.cpu_s - before_s
    if report["succeeded"] != _BACKLOG or report["to_ms"] - report["from_ms"] != _BACKLOG * 100:
        raise RuntimeError(f"expected {_BACKLOG} deliveries in {_BACKLOG // 10} virtual seconds, got {report}")
    yield _seconds("backlog through a flow key", took_s, _BACKLOG, "deliveries")
    yield _cpu("backlog through a flow key", cpu_s, _BACKLOG, "deliveries")


def _advance(emulator: servers.Emulator, by: str, *, expected: int) -> tuple[float, float]:
    """Seconds and seconds of CPU. Raises RuntimeError if not all was delivered."""
    emulator.settle()
    before_s, began = emulator.cpu_s, time.perf_counter()
    report = emulator.advance(by)
    took_s = time.perf_counter() - began
    emulator.settle()
    cpu_s = emulator.cpu_s - before_s
    if report["succeeded"] != expected:
        raise RuntimeError(f"expected {expected} deliveries, got {report}")
    return took_s, cpu_s


def _where(in_memory: bool) -> str:
    return "in memory" if in_memory else "file database"


def _seconds(what: str, took_s: float, count: int, things: str, target: Target | None = None) -> Figure:
    return Figure(what=what, value=took_s, unit=Unit.SECONDS, count=count, things=things, target=target)


def _rate(what: str, rate: float, limit: float) -> Figure:
    return Figure(what=what, value=rate, unit=Unit.PER_SECOND, target=Target(limit=limit))


def _cpu(what: str, cpu_s: float, count: int, things: str) -> Figure:
    return Figure(what=f"{what}, CPU", value=cpu_s, unit=Unit.CPU_SECONDS, count=count, things=things)
