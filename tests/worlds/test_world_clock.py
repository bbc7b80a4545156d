"""The clock of a world as its user sees it."""

from __future__ import annotations

import pytest

from emulator.engine.limits import Limits
from tests.harness.emulators import in_process
from tests.harness.loops import on_loop, turns

HOOK = "https://receiver.example.com/hook"


@on_loop
async def test_clock_that_slips_says_so_in_its_answer_and_once_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    async with in_process(limits=Limits(slip_after_ms=0)) as emulator:
        await emulator.post(f"/v2/schedules/{HOOK}", {"Svc-Cron": "* * * * *"}, b"tick")
        status = (await emulator.control("PUT", "/clock", {"rate": 1_000_000})).json
        assert status["slipped_ms"] == 0

        slips: list[int] = []
        while len(slips) < 3:
            await turns(1)
            slipped_ms = (await emulator.control("GET", "/clock")).json["slipped_ms"]
            if slipped_ms not in (0, *slips):
                slips.append(slipped_ms)

        assert slips == sorted(slips)
        (told,) = (text for text in caplog.messages if "slips" in text)
        assert told.startswith(
            "the clock of the world default slips: at rate 1e+06 more comes due than can be delivered; "
        )
        # The count is that of one rate.
        assert (await emulator.control("PUT", "/clock", {"rate": 0})).json["slipped_ms"] == 0
