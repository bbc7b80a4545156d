"""Publishing over HTTP with 16 connections and a file database, beside a bare handler that gets the same bodies."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from statistics import harmonic_mean, mean
from types import MappingProxyType

from benchmarks import load, processes, servers
from benchmarks.checkouts import HERE, Checkout
from benchmarks.figures import Figure, Target, Unit

_BODY = b'{"hello":"world","number":12345}'
_JSON = MappingProxyType({"Content-Type": "application/json"})
_LATER = MappingProxyType({"Svc-Delay": "1h"})
_URL = "https://receiver.example.com/hook"
_CONNECTIONS = 16
_REQUESTS = 4000
_BATCHES = MappingProxyType({100: 150, 1000: 24})
# What the first requests pay for, imports and caches, is not what a publish costs.
_WARM_UP = 200


def publish(checkout: Checkout, *, requests: int = _REQUESTS) -> Iterator[Figure]:
    """Messages that are due at once, and so are signed, delivered (captured) and recorded; and others due later."""
    path = f"/v2/publish/{_URL}"
    for when, headers, limit in (("and deliver", {}, 0.4), ("due later", _LATER, 0.5)):
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
            target = Target(limit=20_000) if (messages, when) == (100, "") else None
            yield from _against_floor(
                checkout, what, "/v2/batch", body, target=target, messages=messages, requests=requests
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
        floor = _load(floor_port, floor_request, 2 * requests) * messages
        before_s = emulator.cpu_s
        ours = _load(emulator.port, our_request, requests) * messages
        emulator.settle()
        cpu_s = emulator.cpu_s - before_s
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
