"""Publishing over HTTP with 16 connections and a file database, beside a bare handler that gets the same bodies."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import harmonic_mean, mean
from types import MappingProxyType

from benchmarks import load, processes, servers, starting, uncounted
from benchmarks.checkouts import HERE, Checkout
from benchmarks.figures import Figure, Target, Unit

_BODY = b'{"hello":"world","number":12345}'
_JSON = MappingProxyType({"Content-Type": "application/json"})
_LATER = MappingProxyType({"Svc-Delay": "1h"})
_URL = "https://receiver.example.com/hook"
_CONNECTIONS = 16
_REQUESTS = 4000
_BATCHES = MappingProxyType({100: 150, 1000: 24})
# A machine may be twice as fast for a few seconds: what is compared has short turns.
_OF_A_TURN = 400
# What the first requests pay for, imports and caches, is not what a publish costs.
_WARM_UP = 200


def publish(checkout: Checkout, *, requests: int = _REQUESTS) -> Iterator[Figure]:
    """Messages that are due at once, and so are signed, delivered (captured) and recorded; and others due later."""
    path = f"/v2/publish/{_URL}"
    for when, headers, limit in (("and deliver", {}, 0.4), ("due later", _LATER, 0.4)):
        what, target = f"publish over HTTP, {when}", Target(limit=limit, of_floor=True)
        yield from _against_floor(checkout, what, path, _BODY, target=target, requests=requests, headers=headers)


def enqueue(checkout: Checkout) -> Iterator[Figure]:
    """The same through a queue of parallelism 1."""
    yield from _against_floor(checkout, "enqueue over HTTP", f"/v2/enqueue/line/{_URL}", _BODY)


def batch(checkout: Checkout, *, sizes: Mapping[int, int] = _BATCHES) -> Iterator[Figure]:
    """Batches; the figures count messages. `sizes` has how many there are of each size."""
    item = {"destination": _URL, "body": _BODY.decode()}
    for messages, requests in sizes.items():
        for when, headers in (("", {}), (" due later", dict(_LATER))):
            body = json.dumps([{**item, "headers": headers}] * messages).encode()
            what = f"batch of {messages}, messages{when}"
            target = Target(limit=18_000) if (messages, when) == (100, "") else None
            yield from _against_floor(
                checkout, what, "/v2/batch", body, target=target, messages=messages, requests=requests
            )


# Beside the same without counting; what is more than this, one run differs by from the next.
_NOTHING = Target(limit=1.03, of_floor=True)
_TURNS = 20


def telemetry(checkout: Checkout, *, starts: int = 5, requests: int = 5 * _REQUESTS) -> Iterator[Figure]:
    """What counting for metrics costs a server whose metrics and traces nobody asks for: a start, memory, a publish.

    Beside the same program without what counts. Publishes come in short turns to a server of either kind, since what
    the machine does meanwhile would otherwise be more than what is measured.
    """
    programs = (None, Path(uncounted.__file__))
    found = [[starting.start(checkout, program) for program in programs] for _ in range(starts)]
    for what, index, unit in (
        ("ready, CPU, with metrics off", 1, Unit.CPU_SECONDS),
        ("resident when idle, with metrics off", 2, Unit.MEGABYTES),
    ):
        ours, floor = (min(each[number][index] for each in found) for number in range(len(programs)))
        yield Figure(what=what, value=ours, unit=unit, floor=floor, beside="without counting", target=_NOTHING)
    with ExitStack() as ending:
        emulators = []
        for program in programs:
            database = ending.enter_context(servers.database(in_memory=False))
            emulators.append(ending.enter_context(servers.emulator(checkout, "--db", database, program=program)))
        calls = [(each.port, _request(each, f"/v2/publish/{_URL}", _BODY, {})) for each in emulators]
        for port, request in calls:
            _load(port, request, _WARM_UP)
        before_s = [each.cpu_s for each in emulators]
        for turn in range(_TURNS):
            for port, request in calls[:: 1 if turn % 2 else -1]:
                _load(port, request, requests // _TURNS)
        for each in emulators:
            each.settle()
        ours, floor = ((each.cpu_s - before) / requests * 1e6 for each, before in zip(emulators, before_s, strict=True))
    yield Figure(
        what="publish over HTTP, with metrics off, CPU",
        value=ours,
        unit=Unit.MICROSECONDS,
        floor=floor,
        beside="without counting",
        target=_NOTHING,
    )


def follower(checkout: Checkout, *, requests: int = _REQUESTS) -> Iterator[Figure]:
    """What a follower of the stream costs those who publish, beside the same without one."""
    with servers.database(in_memory=False) as database, servers.emulator(checkout, "--db", database) as emulator:
        request = _request(emulator, f"/v2/publish/{_URL}", _BODY, {})
        _load(emulator.port, request, _WARM_UP)
        emulator.settle()
        # Alone before and after, so that what grows or passes meanwhile counts for both.
        before = _rate_and_cpu_us(emulator, request, requests // 2)
        with _following(emulator.port):
            followed = _rate_and_cpu_us(emulator, request, requests)
        after = _rate_and_cpu_us(emulator, request, requests // 2)
        alone = harmonic_mean((before[0], after[0])), mean((before[1], after[1]))
    what, beside = "publish beside a stream follower", "the same without"
    target = Target(limit=0.9, of_floor=True)
    yield Figure(what=what, value=followed[0], unit=Unit.PER_SECOND, floor=alone[0], beside=beside, target=target)
    yield Figure(what=f"{what}, CPU", value=followed[1], unit=Unit.MICROSECONDS, floor=alone[1], beside=beside)


@contextmanager
def _following(port: int) -> Iterator[None]:
    with processes.running([sys.executable, "-m", "benchmarks.follower", str(port)], HERE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        yield


def _against_floor(
    checkout: Checkout,
    what: str,
    path: str,
    body: bytes,
    *,
    target: Target | None = None,
    messages: int = 1,
    requests: int = _REQUESTS,
    headers: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[Figure]:
    """Messages a second and CPU a message; of the floor, which makes no messages, as if it made as many."""
    with (
        servers.floor() as floor_port,
        servers.database(in_memory=False) as database,
        servers.emulator(checkout, "--db", database) as emulator,
    ):
        floor_request = load.post(path, body, {**_JSON, **headers})
        our_request = _request(emulator, path, body, headers)
        _load(floor_port, floor_request, _WARM_UP)
        _load(emulator.port, our_request, max(1, _WARM_UP // messages))
        emulator.settle()
        turns = max(1, requests // _OF_A_TURN)
        floors, rates, cpu_s = [], [], 0.0
        for _ in range(turns):
            floors.append(_load(floor_port, floor_request, 2 * requests // turns) * messages)
            before_s = emulator.cpu_s
            rates.append(_load(emulator.port, our_request, requests // turns) * messages)
            emulator.settle()
            cpu_s += emulator.cpu_s - before_s
        floor, ours = harmonic_mean(floors), harmonic_mean(rates)
    yield Figure(what=what, value=ours, unit=Unit.PER_SECOND, floor=floor, target=target)
    yield Figure(what=f"{what}, CPU", value=cpu_s, unit=Unit.CPU_SECONDS, count=requests * messages, things="messages")


def _request(emulator: servers.Emulator, path: str, body: bytes, headers: Mapping[str, str]) -> bytes:
    return load.post(path, body, {**_JSON, **headers, **emulator.token})


def _load(port: int, request: bytes, requests: int) -> float:
    """Requests a second."""
    return load.run("127.0.0.1", port, request, connections=_CONNECTIONS, requests=requests)


def _rate_and_cpu_us(emulator: servers.Emulator, request: bytes, requests: int) -> tuple[float, float]:
    before_s = emulator.cpu_s
    rate = _load(emulator.port, request, requests)
    emulator.settle()
    return rate, (emulator.cpu_s - before_s) / requests * 1e6
