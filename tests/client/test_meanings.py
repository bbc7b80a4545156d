"""`emulator.when` and `emulator.attempts`, held against what an emulator does."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest

import emulator
from emulator import Emulator

BERLIN = "CRON_TZ=Europe/Berlin 30 2 * * *"


def test_a_schedule_fires_when_it_is_told() -> None:
    told = emulator.when(BERLIN, datetime(2026, 3, 27), count=4)
    assert [each.explanation is None for each in told] == [True, True, False, True]
    with Emulator(epoch="2026-03-27") as emu:
        emu.schedules.create("https://app.test", BERLIN)
        emu.clock.advance_to(told[-1].at)
        assert [each.at for each in emu.deliveries()] == [each.at for each in told]


@pytest.mark.parametrize("retry_delay", ["pow(2, retried) * 1000", "10s", timedelta(minutes=1), 5, None])
def test_attempts_are_made_when_they_are_told(retry_delay: str | timedelta | int | None) -> None:
    told = emulator.attempts(retry_delay, retries=3)
    with Emulator(epoch="2026-01-01") as emu:
        emu.destinations.respond("https://app.test", 503)
        emu.publish("https://app.test", retries=3, retry_delay=retry_delay)
        emu.clock.advance("2d")
        epoch = datetime(2026, 1, 1, tzinfo=UTC)
        assert [each.at - epoch for each in emu.deliveries()] == [each.after for each in told]
    assert [each.delay for each in told[1:]] == [b.after - a.after for a, b in pairwise(told)]


def test_what_cannot_be_meant_is_named() -> None:
    with pytest.raises(ValueError, match=r"^expression: expected exactly 5 fields"):
        emulator.when("* *", "2026-01-01")
    with pytest.raises(ValueError, match=r"^start: expected an ISO 8601"):
        emulator.when("* * * * *", "soon")
    with pytest.raises(ValueError, match=r"^start: expected an instant after 1970"):
        emulator.when("* * * * *", "1531-09-06")
    with pytest.raises(ValueError, match=r"^count: expected 1 to 1000, got 0"):
        emulator.when("* * * * *", "2026-01-01", count=0)
    with pytest.raises(ValueError, match=r"^retry_delay: "):
        emulator.attempts("pow(2")
    with pytest.raises(ValueError, match=r"^retry_delay: expected 0 or more"):
        emulator.attempts(-1)
    with pytest.raises(ValueError, match=r"^retries: expected 0 to 20, got 21"):
        emulator.attempts(retries=21)
