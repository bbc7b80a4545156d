"""Measure the emulator and print one table: `python -m benchmarks [ROW ...]`.

Machines are shared and differ, so what counts are ratios against a floor measured in the same
run; times are printed beside them. Each figure is the best of a few runs.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from types import MappingProxyType
from urllib.parse import urlsplit

import httpx

from benchmarks import load, recorded, servers
from emulator import Emulator

EPOCH = "2026-01-01T00:00:00Z"
RUNS = 3
MONTH = "30d"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One measurement: what, the figure, and the target it is held against."""

    what: str
    figure: str
    target: str
    is_met: bool


def _client(url: str) -> httpx.Client:
    return httpx.Client(base_url=url, timeout=600)


def _token(client: httpx.Client) -> dict[str, str]:
    token = client.get("/_emulator/credentials").json()["queue"]["token"]
    return {"Authorization": f"Bearer {token}"}


def _database(folder: str, *, in_memory: bool) -> str:
    return ":memory:" if in_memory else str(Path(folder) / "state.db")


# -- ready ------------------------------------------------------------------------------------


def ready() -> list[Row]:
    """Process start to the first 200 on health, and memory when idle."""
    best, memory_mb = float("inf"), float("inf")
    for _ in range(RUNS + 2):
        port = _free_port()
        began = time.perf_counter()
        command = [sys.executable, "-m", "emulator", "serve", "--port", str(port), "--log-level", "error"]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL) as child:
            try:
                while not _is_healthy(port):
                    pass
                best = min(best, time.perf_counter() - began)
                memory_mb = min(memory_mb, _resident_mb(child.pid))
            finally:
                child.terminate()
                child.wait(10)
    return [
        Row(what="ready", figure=f"{best:.3f} s", target="at most 0.35 s", is_met=best <= 0.35),
        Row(what="resident when idle", figure=f"{memory_mb:.0f} MB", target="at most 60 MB", is_met=memory_mb <= 60),
    ]


def _is_healthy(port: int) -> bool:
    import socket

    try:
        with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
            connection.sendall(b"GET /_emulator/health HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
            return connection.recv(64).startswith(b"HTTP/1.1 200")
    except ConnectionError:
        time.sleep(0.002)
        return False


def _free_port() -> int:
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _resident_mb(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return float("inf")


# -- publish ----------------------------------------------------------------------------------


BODY = b'{"hello":"world","number":12345}'
JSON_TYPE = {"Content-Type": "application/json"}
CONNECTIONS = 16


def publish() -> list[Row]:
    """Publishing over HTTP against a bare handler, file database, 16 connections.

    Once for messages that are due at once, so that each is signed, delivered (captured) and its
    history recorded as well; once for messages that are only accepted, because they are due later.
    """
    path = "/v2/publish/https://receiver.example.com/hook"
    later = {"Svc-Delay": "1h"}
    return [
        _against_floor("publish over HTTP, and deliver", path, BODY, target=0.4),
        _against_floor("publish over HTTP, due later", path, BODY, target=0.4, headers=later),
    ]


def enqueue() -> list[Row]:
    """The same through a queue of parallelism 1."""
    return [_against_floor("enqueue over HTTP", "/v2/enqueue/line/https://receiver.example.com/hook", BODY)]


def batch() -> list[Row]:
    """Batches of 100 messages; the figure counts messages."""
    item = {"destination": "https://receiver.example.com/hook", "body": BODY.decode()}
    body = json.dumps([item] * 100).encode()
    return [_against_floor("batch of 100, messages", "/v2/batch", body, messages=100, requests=150)]


def _against_floor(
    what: str,
    path: str,
    body: bytes,
    *,
    target: float | None = None,
    messages: int = 1,
    requests: int = 4000,
    headers: Mapping[str, str] = MappingProxyType({}),
) -> Row:
    """The best ratio of our requests a second to those of a bare handler that gets the same bodies."""
    ratios: list[tuple[float, float, float]] = []
    with (
        tempfile.TemporaryDirectory() as folder,
        servers.process("floor") as floor_port,
        servers.emulator("--db", _database(folder, in_memory=False), "--clock", "realtime") as url,
    ):
        with _client(url) as client:
            token = _token(client)
        floor_request = load.post(path, body, {**JSON_TYPE, **headers})
        our_request = load.post(path, body, {**JSON_TYPE, **headers, **token})
        for _ in range(RUNS):
            floor = _load(floor_port, floor_request, 2 * requests)
            ours = _load(urlsplit(url).port or 0, our_request, requests)
            ratios.append((ours / floor, ours * messages, floor * messages))
    ratio, our_rate, floor_rate = max(ratios)
    return Row(
        what=what,
        figure=f"{ratio:.2f} of the floor ({our_rate:,.0f} of {floor_rate:,.0f} a second)",
        target="(no target)" if target is None else f"at least {target} of a bare Starlette handler",
        is_met=target is None or ratio >= target,
    )


def _load(port: int, request: bytes, requests: int) -> float:
    result = asyncio.run(load.run("127.0.0.1", port, request, connections=CONNECTIONS, requests=requests))
    if result.failures:
        raise RuntimeError(f"{result.failures} requests were not answered 200")
    return result.per_second


# -- fast-forward -----------------------------------------------------------------------------


def month() -> list[Row]:
    """A month of a minutely schedule, answered by a rule."""
    rows = []
    for in_memory, target in ((False, 6.0), (True, 5.0)):
        took = min(_month(in_memory=in_memory) for _ in range(RUNS))
        where = "in memory" if in_memory else "file database"
        rows.append(
            Row(
                what=f"a month, minutely, {where}",
                figure=f"{took:.2f} s ({43_200 / took:,.0f} firings a second)",
                target=f"at most {target:.0f} s",
                is_met=took <= target,
            )
        )
    return rows


def _month(*, in_memory: bool) -> float:
    with tempfile.TemporaryDirectory() as folder:
        database = _database(folder, in_memory=in_memory)
        with servers.emulator("--db", database, "--clock", "frozen", "--epoch", EPOCH) as url, _client(url) as client:
            rule = {"match": {"url": "https://api.example.com/*"}, "respond": {"status": 200}}
            client.post("/_emulator/destinations", json=rule).raise_for_status()
            headers = _token(client) | {"Svc-Cron": "* * * * *"}
            client.post(
                "/v2/schedules/https://api.example.com/tick", headers=headers, content=b"tick"
            ).raise_for_status()
            began = time.perf_counter()
            report = client.post("/_emulator/clock/advance", json={"by": MONTH}).raise_for_status().json()
            took = time.perf_counter() - began
            if report["succeeded"] != 43_200:
                raise RuntimeError(f"expected 43200 deliveries, got {report}")
            return took


def receiver() -> list[Row]:
    """Fast-forward to a real HTTP receiver: one attempt at a time, each at its own instant."""
    rows = []
    for in_memory in (True, False):
        rate = max(_receiver(in_memory=in_memory) for _ in range(RUNS))
        where = "in memory" if in_memory else "file database"
        rows.append(
            Row(
                what=f"to a real receiver, {where}",
                figure=f"{rate:,.0f} deliveries a second",
                target="at least 2,000 a second",
                is_met=rate >= 2000,
            )
        )
    return rows


def _receiver(*, in_memory: bool) -> float:
    with tempfile.TemporaryDirectory() as folder, servers.process("receiver") as port:
        database = _database(folder, in_memory=in_memory)
        with servers.emulator("--db", database, "--clock", "frozen", "--epoch", EPOCH) as url, _client(url) as client:
            headers = _token(client) | {"Svc-Cron": "* * * * *"}
            path = f"/v2/schedules/http://127.0.0.1:{port}/tick"
            client.post(path, headers=headers, content=b"tick").raise_for_status()
            client.post("/_emulator/clock/advance", json={"by": "1h"}).raise_for_status()
            began = time.perf_counter()
            report = client.post("/_emulator/clock/advance", json={"by": "4d"}).raise_for_status().json()
            took = time.perf_counter() - began
            if report["succeeded"] != 4 * 1440:
                raise RuntimeError(f"expected 5760 deliveries, got {report}")
            return 4 * 1440 / took


def backlog() -> list[Row]:
    """10,000 messages drained through a flow control key of parallelism 10, answered by a rule of 1 s."""
    count = 10_000
    best = float("inf")
    for _ in range(RUNS):
        with servers.emulator("--clock", "frozen", "--epoch", EPOCH) as url, _client(url) as client:
            rule = {"match": {"url": "*"}, "respond": {"status": 200, "latency": "1s"}}
            client.post("/_emulator/destinations", json=rule).raise_for_status()
            flow = {"Svc-Flow-Control-Key": "key", "Svc-Flow-Control-Value": "parallelism=10"}
            item = {"destination": "https://api.example.com/", "body": "x", "headers": flow}
            for _ in range(count // 1000):
                client.post("/v2/batch", headers=_token(client), json=[item] * 1000).raise_for_status()
            began = time.perf_counter()
            report = client.post("/_emulator/clock/drain").raise_for_status().json()
            best = min(best, time.perf_counter() - began)
            if report["succeeded"] != count or report["to_ms"] - report["from_ms"] != count * 100:
                raise RuntimeError(f"expected {count} deliveries in {count // 10} virtual seconds, got {report}")
    return [
        Row(
            what="backlog through a flow key",
            figure=f"{best:.2f} s ({count / best:,.0f} deliveries a second)",
            target="(no target)",
            is_met=True,
        )
    ]


# -- worlds -----------------------------------------------------------------------------------


def worlds() -> list[Row]:
    """Making and resetting a world, over HTTP."""
    rows = []
    with servers.emulator("--clock", "frozen", "--epoch", EPOCH) as url, _client(url) as client:
        floor_ms = _best_ms(lambda: client.get("/_emulator/health"))
        made_ms = _best_ms(lambda: client.post("/_emulator/worlds", json={}))
        reset_ms = _best_ms(lambda: client.post("/_emulator/reset"))
        for what, took in (("new world", made_ms), ("reset", reset_ms)):
            rows.append(
                Row(
                    what=what,
                    figure=f"{took:.1f} ms (a health check takes {floor_ms:.1f} ms)",
                    target="at most 5 ms",
                    is_met=took <= 5,
                )
            )
    return rows


def _best_ms(call: Callable[[], httpx.Response]) -> float:
    best = float("inf")
    for _ in range(30):
        began = time.perf_counter()
        call().raise_for_status()
        best = min(best, (time.perf_counter() - began) * 1000)
    return best


# -- the Python API ---------------------------------------------------------------------------


def python() -> list[Row]:
    """What a test pays: the emulator's start in its process, a world of its own, and a delivery to a mount."""
    began = time.perf_counter()
    with Emulator(epoch=EPOCH) as emulator:
        started_s = time.perf_counter() - began
        floor_ms = median(_times_ms(emulator.clock.status))
        world_ms = median(_times_ms(lambda: _make_and_remove(emulator)))
        emulator.mount("https://app.test", lambda request: 200)
        mounted_ms = median(_times_ms(lambda: emulator.publish("https://app.test/hook")))
    beside = f"(asking for the clock takes {floor_ms:.1f} ms)"
    return [
        Row(what="Emulator, first start", figure=f"{started_s:.2f} s", target="(no target)", is_met=True),
        Row(
            what="a fresh world for a test",
            figure=f"{world_ms:.1f} ms to make and remove {beside}",
            target="at most 10 ms",
            is_met=world_ms <= 10,
        ),
        Row(
            what="publish and deliver to a mount",
            figure=f"{mounted_ms:.1f} ms {beside}",
            target="(no target)",
            is_met=True,
        ),
    ]


def _make_and_remove(emulator: Emulator) -> None:
    with emulator.new_world(epoch=EPOCH):
        pass


def _times_ms(work: Callable[[], object]) -> list[float]:
    took = []
    for _ in range(200):
        began = time.perf_counter()
        work()
        took.append((time.perf_counter() - began) * 1000)
    return took


def snapshots() -> list[Row]:
    """Saving and restoring a world of 10,000 delivered messages, in memory and in a file."""
    rows = []
    for in_memory in (True, False):
        with (
            tempfile.TemporaryDirectory() as folder,
            servers.emulator(
                "--db", _database(folder, in_memory=in_memory), "--clock", "frozen", "--epoch", EPOCH
            ) as url,
            _client(url) as client,
        ):
            item = {"destination": "https://receiver.example.com/hook", "body": BODY.decode()}
            for _ in range(10):
                client.post("/v2/batch", headers=_token(client), json=[item] * 1000).raise_for_status()
            client.post("/_emulator/clock/advance", json={"by": 0}).raise_for_status()
            client.get("/_emulator/deliveries?limit=1").raise_for_status()
            took: dict[str, float] = {"save": float("inf"), "restore": float("inf")}
            for number in range(RUNS):
                name = f"run{number}"
                for what, path in (("save", ""), ("restore", f"/{name}/restore")):
                    began = time.perf_counter()
                    client.post(f"/_emulator/snapshots{path}", json={"name": name}).raise_for_status()
                    took[what] = min(took[what], (time.perf_counter() - began) * 1000)
        where = "in memory" if in_memory else "file database"
        rows += [
            Row(
                what=f"{what} 10,000 messages, {where}",
                figure=f"{best:.0f} ms",
                target="(no target)",
                is_met=True,
            )
            for what, best in took.items()
        ]
    return rows


# -- statistics -------------------------------------------------------------------------------

PERIODS = ("1h", "3h", "12h", "1d", "3d", "7d", "30d")
EPOCH_MINUTE = 29_453_760


def statistics() -> list[Row]:
    """Statistics of an account with a million recorded deliveries against those of an account with none."""
    with tempfile.TemporaryDirectory() as folder:
        database = Path(folder) / "state.db"
        options = ("--db", str(database), "--clock", "frozen", "--epoch", EPOCH)
        with servers.emulator(*options) as url, _client(url) as client:
            login = client.get("/_emulator/credentials").json()["management"]
            busy, idle = [account["id"] for account in client.get("/v2/queue/users", auth=_basic(login)).json()][:2]
            client.post("/_emulator/clock/advance", json={"by": MONTH}).raise_for_status()
        recorded.fill(database, busy, EPOCH_MINUTE)
        with servers.emulator(*options) as url, _client(url) as client:
            auth = _basic(login)
            figures = [
                (_statistics_ms(client, auth, busy, each), _statistics_ms(client, auth, idle, each)) for each in PERIODS
            ]
    return [
        Row(
            what=f"statistics of {recorded.DELIVERIES:,}, {period}",
            figure=f"{took:.1f} ms, {took / floor:.1f} times an account without any ({floor:.1f} ms)",
            target="at most 50 ms at the median",
            is_met=took <= 50,
        )
        for period, (took, floor) in zip(PERIODS, figures, strict=True)
    ]


def _basic(login: dict[str, str]) -> httpx.BasicAuth:
    return httpx.BasicAuth(login["username"], login["password"])


def _statistics_ms(client: httpx.Client, auth: httpx.BasicAuth, account_id: str, period: str) -> float:
    """The median time of an answer, of those after the first."""
    took = []
    for _ in range(21):
        began = time.perf_counter()
        answer = client.get(f"/v2/queue/stats/{account_id}", params={"period": period}, auth=auth)
        took.append((time.perf_counter() - began) * 1000)
        answer.raise_for_status()
    return median(took[1:])


ROWS: dict[str, Callable[[], list[Row]]] = {
    "ready": ready,
    "publish": publish,
    "enqueue": enqueue,
    "batch": batch,
    "month": month,
    "receiver": receiver,
    "backlog": backlog,
    "worlds": worlds,
    "python": python,
    "snapshots": snapshots,
    "statistics": statistics,
}


def main() -> int:
    wanted = sys.argv[1:] or list(ROWS)
    unknown = [name for name in wanted if name not in ROWS]
    if unknown:
        print(f"no such row: {', '.join(unknown)}; there are {', '.join(ROWS)}", file=sys.stderr)
        return 2
    os.environ.pop("EMULATOR_CONFIG", None)
    print(f"| {'what':32} | {'figure':62} | {'target':42} | |\n|---|---|---|---|")
    for name in wanted:
        for row in ROWS[name]():
            print(
                f"| {row.what:32} | {row.figure:62} | {row.target:42} | {'ok' if row.is_met else 'MISSED'} |",
                flush=True,
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
