"""What the server logs beside the deliveries that other tests read."""

from __future__ import annotations

import logging

import pytest

from emulator.server.logs import DeliveryLog
from tests.harness.emulators import in_process
from tests.harness.loops import on_loop

HOOK = "https://api.test/hook"


def test_a_refused_firing_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """D-263."""

    @on_loop
    async def test() -> None:
        async with in_process() as emulator:
            emulator.emulation.worlds.observers.append(DeliveryLog())
            await emulator.post(f"/v2/schedules/{HOOK}", {"Svc-Cron": "0 * * * *", "Svc-Schedule-Id": "hourly"})
            account_id = emulator.world.account().id
            await emulator.control("PUT", f"/accounts/{account_id}", {"max_requests_per_day_hard": 0})
            await emulator.advance("1h")

    with caplog.at_level(logging.WARNING, "emulator"):
        test()

    assert caplog.messages == [
        "2026-01-01T01:00:00.000Z schedule hourly fired and made no message: "
        "quota maxRequestsPerDay exceeded, current limit: 0"
    ]
    assert (caplog.records[0].levelname, vars(caplog.records[0])["schedule_id"]) == ("WARNING", "hourly")
