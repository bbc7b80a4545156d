"""What a cron expression and a retry delay come to: firings around changes of the clock (D-430), attempts (D-431)."""

from __future__ import annotations

import pytest

from emulator.core.language import cron
from emulator.core.language.calendar import MINUTE_MS
from emulator.core.rules.clock import LATEST_MS
from emulator.queries.meanings import Effect, firings, ladder
from emulator.wire.instants import local_iso, read_instant_ms


def found(expression: str, after: str, count: int) -> list[tuple[str, list[Effect]]]:
    schedule = cron.parse(expression)
    return [
        (local_iso(each.at_ms, each.offset_minutes), [change.effect for change in each.changes])
        for each in firings(schedule, read_instant_ms(after), count)
    ]


def test_a_firing_that_a_gap_moves_or_a_repeat_doubles_says_so() -> None:
    assert found("CRON_TZ=Europe/Berlin 30 2 * * *", "2026-03-28T12:00:00Z", 2) == [
        ("2026-03-29T03:00:00+02:00", [Effect.MOVED]),
        ("2026-03-30T02:30:00+02:00", []),
    ]
    assert found("CRON_TZ=Europe/Berlin 30 2 * * *", "2026-10-24T12:00:00Z", 2) == [
        ("2026-10-25T02:30:00+02:00", [Effect.FIRST_PASS]),
        ("2026-10-26T02:30:00+01:00", []),
    ]


def test_a_wildcard_of_minutes_loses_the_gap_and_fires_in_both_passes() -> None:
    assert found("CRON_TZ=Europe/Berlin */30 2 * * *", "2026-03-28T12:00:00Z", 2) == [
        ("2026-03-30T02:00:00+02:00", [Effect.SKIPPED]),
        ("2026-03-30T02:30:00+02:00", []),
    ]
    both = found("CRON_TZ=Europe/Berlin */30 2 * * *", "2026-10-24T12:00:00Z", 5)
    assert [effects for _, effects in both] == [[Effect.BOTH_PASSES]] * 4 + [[]]


def test_firings_away_from_changes_and_in_utc_have_no_explanation() -> None:
    for expression in ("30 2 * * *", "CRON_TZ=Europe/Berlin 0 9 * * *"):
        assert all(effects == [] for _, effects in found(expression, "2026-01-01", 365))


def test_a_change_tells_its_instant_and_both_local_times() -> None:
    schedule = cron.parse("CRON_TZ=Australia/Lord_Howe 15 2 * * *")
    [firing] = firings(schedule, read_instant_ms("2026-10-03T12:00:00Z"), 1)
    [change] = firing.changes
    assert (change.at_ms, change.to_minute - change.from_minute) == (firing.at_ms, 30)
    assert local_iso(change.minute * MINUTE_MS, 0)[:16] == "2026-10-04T02:15"


def test_firings_end_with_the_calendar() -> None:
    assert len(list(firings(cron.parse("0 0 1 1 *"), LATEST_MS - 1, 5))) == 0
    assert len(list(firings(cron.parse("0 0 1 1 *"), read_instant_ms("9997-06-01"), 5))) == 2


def test_a_ladder_adds_the_waits_up() -> None:
    rungs = list(ladder("pow(2, retried) * 1000", 3))
    assert [(each.attempt, each.after_ms) for each in rungs] == [(1, 0), (2, 1_000), (3, 3_000), (4, 7_000)]
    assert [each.after_ms for each in ladder(None, 2)] == [0, 12_000, 160_000]
    assert len(list(ladder(None, 0))) == 1


@pytest.mark.parametrize("expression", ["30 2 * * *", "*/20 1-3 * * *", "0 0 * * 0"])
def test_firings_are_those_of_a_schedule(expression: str) -> None:
    schedule = cron.parse(f"CRON_TZ=America/New_York {expression}")
    at_ms = start_ms = read_instant_ms("2026-02-20")
    for firing in firings(schedule, start_ms, 60):
        at_ms = schedule.next_after(at_ms)
        assert firing.at_ms == at_ms
