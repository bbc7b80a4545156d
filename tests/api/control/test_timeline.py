"""`/_emulator/timeline`: the journal in rows, also as the stream tells it."""

from __future__ import annotations

import json

from tests.harness.emulators import EPOCH_MS, in_process
from tests.harness.loops import on_loop

URL, DOWN = "https://api.test/hook", "https://down.test/hook"


@on_loop
async def test_rows_are_the_newest_first_and_say_how_a_retry_comes_about() -> None:
    """D-324."""
    async with in_process() as emulator:
        await emulator.rule(DOWN, respond={"status": 503, "headers": {"Retry-After": "10"}, "body": "é" * 300})
        await emulator.rule("https://gone.test/", fault="refused")
        message = await emulator.publish(DOWN, {"Svc-Retries": "1", "Svc-Label": "red"})
        await emulator.publish("https://gone.test/", {"Svc-Retries": "0"})
        await emulator.publish(URL)
        await emulator.control("POST", "/clock/advance", {"by": "10s"})

        page = (await emulator.control("GET", "/timeline?limit=2")).json
        rest = (await emulator.control("GET", f"/timeline?cursor={page['cursor']}")).json

        last, delivered, gone, first = (*page["rows"], *rest["rows"])
        assert rest["cursor"] is None
        assert last["seq"] > delivered["seq"] > gone["seq"] > first["seq"]
        assert (first["message_id"], first["attempt"], first["max_attempts"], first["labels"]) == (
            message,
            1,
            2,
            ["red"],
        )
        assert (first["status"], first["said"], first["retry"]) == (503, "é" * 200, "Retry-After: 10 -> 10s")
        assert (last["attempt"], last["at_ms"], last["retry"]) == (2, EPOCH_MS + 10_000, None)
        assert (gone["status"], gone["error"], gone["via"], gone["said"]) == (None, "connection refused", "rule", None)
        assert (delivered["status"], delivered["said"], delivered["created_by"]) == (200, None, "publish")
        assert "headers" not in first


@on_loop
async def test_rows_take_no_unknown_parameter_and_no_foreign_cursor() -> None:
    async with in_process() as emulator:
        for query, field in (("url=x", "url"), ("cursor=x", "cursor"), ("limit=1001", "limit")):
            answer = await emulator.control("GET", f"/timeline?{query}")
            assert (answer.status, answer.json["field"]) == (400, field)


@on_loop
async def test_a_brief_stream_tells_attempts_as_rows() -> None:
    """D-324."""
    async with in_process() as emulator:
        await emulator.publish(URL)
        rows = (await emulator.control("GET", "/timeline")).json["rows"]
        told = await emulator.control("GET", "/stream?from=start&follow=false&brief=true")
        attempts = [
            block.rpartition("data: ")[2] for block in told.body.decode().split("\n\n") if "event: attempt" in block
        ]
        assert [json.loads(each) for each in attempts] == rows
