"""`/_emulator/dead-letters`: the dead letters of all accounts."""

from __future__ import annotations

from typing import Any

from tests.harness.emulators import EPOCH_MS, InProcess, in_process
from tests.harness.loops import on_loop

DOWN, GONE = "https://down.test/hook", "https://gone.test/"


async def dead_letters(emulator: InProcess, query: str = "") -> list[Any]:
    answer = await emulator.control("GET", f"/dead-letters{query}")
    assert answer.status == 200, answer.body
    found: list[Any] = answer.json["dead_letters"]
    return found


@on_loop
async def test_dead_letters_are_found_by_either_id() -> None:
    """D-340."""
    async with in_process() as emulator:
        await emulator.rule(DOWN, respond={"status": 503})
        await emulator.rule(GONE, fault="dns")
        first = await emulator.publish(DOWN, {"Svc-Retries": "0", "Svc-Label": "red"})
        second = await emulator.publish(GONE, {"Svc-Retries": "0"})
        newest, oldest = await dead_letters(emulator)
        assert (newest["message_id"], oldest["message_id"]) == (second, first)
        assert (oldest["last_status"], oldest["last_result"]) == (503, "was answered 503 by a destination rule")
        assert (newest["last_status"], bool(newest["last_error"])) == (None, True)
        assert oldest["failed_ms"] == EPOCH_MS < oldest["expires_ms"]
        for query in (
            f"id={first[-5:]}",
            f"id={oldest['dead_letter_id']}",
            "label=red",
            "url=https://down*",
            "text=down",
        ):
            assert await dead_letters(emulator, f"?{query}") == [oldest], query
        page = (await emulator.control("GET", "/dead-letters?limit=1")).json
        assert page["dead_letters"] == [newest]
        assert await dead_letters(emulator, f"?cursor={page['cursor']}") == [oldest]
        await emulator.delete(f"/v2/dlq/{oldest['dead_letter_id']}")
        assert await dead_letters(emulator) == [newest]


@on_loop
async def test_lists_cover_all_accounts() -> None:
    """D-340."""
    async with in_process() as emulator:
        accounts = (await emulator.control("GET", "/accounts")).json["accounts"][:2]
        await emulator.rule(DOWN, respond={"status": 503})
        for account in accounts:
            token = account["token"]
            await emulator.publish(DOWN, {"Svc-Retries": "0"}, token=token)
            await emulator.post("/v2/queues", (), {"queueName": "same", "parallelism": 1}, token=token)
            await emulator.post(f"/v2/schedules/{DOWN}", {"Svc-Cron": "0 0 1 1 *"}, token=token)
            await emulator.post("/v2/topics/same/endpoints", (), {"endpoints": [{"url": DOWN}]}, token=token)
            limited = {"Svc-Flow-Control-Key": "same", "Svc-Flow-Control-Value": "parallelism=1", "Svc-Delay": "1h"}
            await emulator.publish(DOWN, limited, token=token)
        wanted = sorted(account["id"] for account in accounts)
        for path, name in (
            ("/messages", "messages"),
            ("/dead-letters", "dead_letters"),
            ("/queues", "queues"),
            ("/schedules", "schedules"),
            ("/url-groups", "url_groups"),
            ("/flow-control", "keys"),
        ):
            found = (await emulator.control("GET", path)).json[name]
            assert sorted({each["account_id"] for each in found}) == wanted, path
