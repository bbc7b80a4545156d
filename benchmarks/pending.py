"""An emulator that holds many messages that are due later: what they take, and what they slow down."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks import processes, servers
from benchmarks.checkouts import Checkout
from benchmarks.figures import Figure, Target, Unit

_ITEM: dict[str, object] = {
    "destination": "https://receiver.example.com/hook",
    "body": '{"hello":"world","number":12345}',
    "headers": {"Svc-Delay": "90d"},
}
_DAYS = 5
_FIRINGS = _DAYS * 1440


def pending(checkout: Checkout) -> Iterator[Figure]:
    """300,000 messages in a file database."""
    # What is due later costs a firing nothing; the rest of the ratio is what a measurement varies by.
    yield from _with_pending(checkout, 300_000, firing=Target(limit=1.05, of_floor=True))


def million(checkout: Checkout) -> Iterator[Figure]:
    """1,000,000 of them."""
    yield from _with_pending(
        checkout,
        1_000_000,
        resident=Target(limit=700),
        stop=Target(limit=5),
        file=Target(limit=1024),
        restart=Target(limit=6),
    )


def _with_pending(checkout: Checkout, count: int, **targets: Target) -> Iterator[Figure]:
    beside = f"{count:,} pending"
    with servers.database(in_memory=False) as database:
        options = ("--db", database, *servers.FROZEN)
        with servers.emulator(checkout, *options) as emulator:
            idle_mb = emulator.resident_mb
            emulator.rule("https://api.example.com/*", respond={"status": 200})
            emulator.schedule("* * * * *", "https://api.example.com/tick")
            alone_us = _firing_us(emulator)
            before_s, began = emulator.cpu_s, time.perf_counter()
            emulator.batch(_ITEM, count)
            took_s = time.perf_counter() - began
            emulator.settle()
            cpu_s = emulator.cpu_s - before_s
            resident_mb = emulator.resident_mb
            yield Figure(what=f"publish {beside}", value=took_s, unit=Unit.SECONDS, count=count, things="messages")
            yield Figure(
                what=f"publish {beside}, CPU", value=cpu_s, unit=Unit.CPU_SECONDS, count=count, things="messages"
            )
            yield Figure(
                what=f"resident, {beside}",
                value=resident_mb,
                unit=Unit.MEGABYTES,
                floor=idle_mb,
                beside="idle",
                target=targets.get("resident"),
            )
            yield Figure(
                what=f"a firing beside {beside}, CPU",
                value=_firing_us(emulator),
                unit=Unit.MICROSECONDS,
                floor=alone_us,
                beside="without",
                target=targets.get("firing"),
            )
            began = time.perf_counter()
            processes.stop(emulator.process)
            took_s = time.perf_counter() - began
            yield Figure(what=f"clean stop, {beside}", value=took_s, unit=Unit.SECONDS, target=targets.get("stop"))
        size_mb = sum(file.stat().st_size for file in Path(database).parent.rglob("*") if file.is_file()) / 2**20
        yield Figure(what=f"file size, {beside}", value=size_mb, unit=Unit.MEGABYTES, target=targets.get("file"))
        began = time.perf_counter()
        with servers.emulator(checkout, *options) as emulator:
            took_s = time.perf_counter() - began
            yield Figure(what=f"restart, {beside}", value=took_s, unit=Unit.SECONDS, target=targets.get("restart"))
            yield Figure(what=f"resident after a restart, {beside}", value=emulator.resident_mb, unit=Unit.MEGABYTES)


def _firing_us(emulator: servers.Emulator) -> float:
    """What a firing of a schedule and its delivery cost."""
    emulator.settle()
    before_s = emulator.cpu_s
    report = emulator.advance(f"{_DAYS}d")
    if report["succeeded"] != _FIRINGS:
        raise RuntimeError(f"expected {_FIRINGS} deliveries, got {report}")
    emulator.settle()
    return (emulator.cpu_s - before_s) / _FIRINGS * 1e6
