"""Worlds with something in them, and their snapshots, through the control API."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from emulator.worlds.setup import DEFAULT
from tests.harness.emulators import Answer, InProcess, http_scope

HOUR, DAY = 3_600_000, 86_400_000
HOOK = "https://api.example.com/hook"
DOWN = "https://down.example.com/hook"
SLOW = "https://slow.example.com/hook"

each_store = pytest.mark.parametrize("is_file", [False, True], ids=["memory", "file"])


def db_of(tmp_path: Path, *, is_file: bool) -> str:
    return str(tmp_path / "w.db") if is_file else ":memory:"


async def save(emulator: InProcess, name: str = "s", world: str = DEFAULT) -> Any:
    answer = await emulator.control("POST", f"/snapshots?world={world}", {"name": name})
    assert answer.status == 201, answer.body
    return answer.json


async def restore(emulator: InProcess, name: str = "s", world: str = DEFAULT) -> Any:
    answer = await emulator.control("POST", f"/snapshots/{name}/restore?world={world}")
    assert answer.status == 200, answer.body
    return answer.json


async def export(emulator: InProcess, name: str = "s", world: str = DEFAULT) -> bytes:
    answer = await emulator.control("GET", f"/snapshots/{name}/file?world={world}")
    assert answer.status == 200, answer.body
    return answer.body


async def import_snapshot(emulator: InProcess, content: bytes, name: str = "s", world: str = DEFAULT) -> Answer:
    return await emulator.control("PUT", f"/snapshots/{name}/file?world={world}", content)


async def pieces(content: bytes, size: int = 65_536) -> AsyncIterator[bytes]:
    """A body as it comes in."""
    for start in range(0, len(content), size):
        yield content[start : start + size]


async def send(emulator: InProcess, content: AsyncIterator[bytes], name: str = "s", *, is_whole: bool = True) -> Answer:
    """Import a file piece by piece; if it is not whole, its sender goes away in the end."""
    scope = http_scope("PUT", f"/_emulator/snapshots/{name}/file".encode(), [("Host", "127.0.0.1")], "127.0.0.1")
    sent: list[Any] = []

    async def receive() -> Any:
        piece = await anext(content, None)
        if piece is None and not is_whole:
            return {"type": "http.disconnect"}
        return {"type": "http.request", "body": piece or b"", "more_body": piece is not None}

    async def answer(message: Any) -> None:
        sent.append(message)

    await emulator.emulation.app(scope, receive, answer)
    body = b"".join(message.get("body", b"") for message in sent[1:])
    return Answer(status=sent[0]["status"], headers={}, body=body)


async def names(emulator: InProcess, world: str = DEFAULT) -> list[str]:
    listed = (await emulator.control("GET", f"/snapshots?world={world}")).json["snapshots"]
    return [each["name"] for each in listed]


async def told(emulator: InProcess) -> list[bytes]:
    """All that a world can be asked about what has happened and what is to come."""
    account_id = emulator.world.account().id
    answers = [
        await emulator.control("GET", target)
        for target in ("/trace", "/deliveries?limit=1000", "/clock", "/destinations", "/accounts", "/credentials")
    ]
    answers += [
        await emulator.get(target)
        for target in ("/v2/events?count=1000", "/v2/dlq", "/v2/schedules", "/v2/queues", "/v2/flowControl", "/v2/keys")
    ]
    await emulator.world.current_state()
    statistics = await emulator.world.statistics.queue_account(account_id, None)
    return [*(unsigned(answer.body) for answer in answers), repr(statistics).encode()]


def unsigned(text: bytes) -> bytes:
    """Without the signatures of deliveries, which say when they expire in real time."""
    return re.sub(rb"eyJhbGciOi[A-Za-z0-9_.-]+", b"SIGNATURE", text)


def state_of(emulator: InProcess) -> bytes:
    """All that is pending and counted, timers included."""
    # A request that needed no network is signed when it is read, with the wall clock of its attempt.
    return re.sub(rb"wall_ms=\d+", b"wall_ms=0", unsigned(repr(emulator.image()).encode()))


async def much_of_everything(emulator: InProcess) -> None:
    await emulator.rule(DOWN, respond={"status": 503, "headers": {"Retry-After": "30"}}, times=3)
    await emulator.rule(DOWN, sequence=[{"status": 500}, {"status": 404, "body": "no"}])
    await emulator.rule(SLOW, respond={"status": 200, "latency": "5m"})
    await emulator.publish(HOOK, {"Svc-Delay": "2h", "Svc-Callback": f"{HOOK}/back"}, b"\xff\x00")
    await emulator.publish(DOWN, {"Svc-Retries": "4", "Svc-Failure-Callback": f"{HOOK}/failed"})
    await emulator.publish(DOWN, {"Svc-Retries": "0"})
    await emulator.publish(HOOK, {"Svc-Deduplication-Id": "once", "Svc-Label": "x"})
    await emulator.post("/v2/queues", (), {"queueName": "q", "parallelism": 1})
    for number in range(3):
        await emulator.post(f"/v2/enqueue/q/{SLOW}", (), b"%d" % number)
        await emulator.publish(HOOK, {"Svc-Flow-Control-Key": "k", "Svc-Flow-Control-Value": "rate=1,period=10m"})
    await emulator.post(f"/v2/schedules/{HOOK}", {"Svc-Cron": "CRON_TZ=Europe/Berlin */20 * * * *"})
    await emulator.advance("7m")
    await emulator.post("/v2/keys/rotate")
    await emulator.control("DELETE", "/deliveries")
    await emulator.publish(SLOW, {"Svc-Delay": "1m"})
    await emulator.advance("2m")


async def and_so_on(emulator: InProcess) -> list[bytes]:
    """The same calls each time, and all their answers."""
    answers = [
        await emulator.post(f"/v2/publish/{HOOK}", {"Svc-Deduplication-Id": "once"}),
        await emulator.post(f"/v2/publish/{DOWN}", {"Svc-Retries": "1"}),
        await emulator.post(f"/v2/enqueue/q/{HOOK}"),
        await emulator.control("POST", "/clock/next"),
        await emulator.post(f"/v2/schedules/{HOOK}", {"Svc-Cron": "0 * * * *"}),
        await emulator.post("/v2/keys/rotate"),
    ]
    await emulator.advance("3h")
    return [*(answer.body.partition(b',"wall_ms"')[0] for answer in answers), *await told(emulator)]
