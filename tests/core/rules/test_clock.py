"""The virtual clock: the instants it can show, and how it may move."""

from __future__ import annotations

import pytest

from emulator.core import commands
from emulator.core.errors import Conflict, Malformed
from emulator.core.rules.clock import check_clock_instant, is_clock_instant
from tests.harness.simulations import DAY, EPOCH_MS, HOUR, MINUTE, World

URL = "https://api.example.com/hook"

FIRST_MS, LAST_MS = 1, 253_402_300_799_999


@pytest.mark.parametrize("instant_ms", [FIRST_MS, EPOCH_MS, LAST_MS])
def test_a_clock_shows_instants_after_1970_up_to_the_year_9999(instant_ms: int) -> None:
    assert is_clock_instant(instant_ms)
    assert check_clock_instant(instant_ms) == instant_ms


@pytest.mark.parametrize(
    ("instant_ms", "reason"),
    [(FIRST_MS - 1, "after 1970-01-01T00:00:00Z"), (-DAY, "after 1970"), (LAST_MS + 1, "year 9999 at the latest")],
)
def test_a_clock_shows_no_other_instant(instant_ms: int, reason: str) -> None:
    assert not is_clock_instant(instant_ms)
    with pytest.raises(Malformed, match=reason):
        check_clock_instant(instant_ms)


def test_the_clock_refuses_to_pass_what_is_due() -> None:
    world = World()
    world.publish(URL, delay_ms=HOUR)
    before = world.snapshot()
    with pytest.raises(Conflict):
        world.do(commands.AdvanceClock(to_ms=EPOCH_MS + HOUR + 1))
    assert world.snapshot() == before
    world.do(commands.AdvanceClock(to_ms=EPOCH_MS + HOUR))
    assert world.starts() == [(URL, 1, 3_600_000)]


def test_the_clock_never_goes_back() -> None:
    world = World()
    world.run_until(HOUR)
    with pytest.raises(Conflict):
        world.do(commands.AdvanceClock(to_ms=EPOCH_MS + HOUR - 1))


def test_moving_the_clock_to_where_it_stands_is_no_fact() -> None:
    world = World()
    world.do(commands.AdvanceClock(to_ms=EPOCH_MS))
    assert world.facts == []


def test_the_clock_also_stops_for_expiries() -> None:
    world = World()
    world.publish(URL, deduplication_id="x")
    with pytest.raises(Conflict):
        world.do(commands.AdvanceClock(to_ms=EPOCH_MS + 10 * MINUTE + 1))


def test_the_clock_may_be_set_back_only_before_anything_has_happened() -> None:
    world = World()
    world.do(commands.SetBackClock(to_ms=EPOCH_MS - DAY))
    assert world.simulation.now_ms == EPOCH_MS - DAY
    world.publish(URL)
    with pytest.raises(Conflict):
        world.do(commands.SetBackClock(to_ms=EPOCH_MS - 2 * DAY))


def test_the_clock_may_not_be_set_back_once_a_schedule_waits() -> None:
    world = World()
    world.write_schedule("* * * * *", URL)
    with pytest.raises(Conflict):
        world.do(commands.SetBackClock(to_ms=EPOCH_MS - DAY))
