"""Firings and attempts as JSON, and the sentences about changes of a clock."""

from __future__ import annotations

import pytest

from emulator.core.language import cron
from emulator.queries.meanings import firings, ladder
from emulator.wire.instants import read_instant_ms
from emulator.wire.meanings import explanation, firings_view, ladder_view


@pytest.mark.parametrize(
    ("expression", "after", "expected"),
    [
        (
            "30 2 * * *",
            "2026-03-28T12:00:00Z",
            "the clock goes from 02:00 to 03:00, and 02:30 does not exist on 2026-03-29: "
            "it fires at the first minute after the gap",
        ),
        (
            "*/5 2 * * *",
            "2026-03-28T12:00:00Z",
            "the clock goes from 02:00 to 03:00 on 2026-03-29: nothing fires for the 1h that do not exist",
        ),
        (
            "30 2 * * *",
            "2026-10-24T12:00:00Z",
            "the clock goes back from 03:00 to 02:00, and 02:30 comes twice on 2026-10-25: only the first fires",
        ),
        (
            "* 2 * * *",
            "2026-10-24T12:00:00Z",
            "the clock goes back from 03:00 to 02:00, and 02:00 comes twice on 2026-10-25: both fire",
        ),
        ("30 4 * * *", "2026-03-28T12:00:00Z", None),
    ],
)
def test_a_change_of_the_clock_is_one_sentence(expression: str, after: str, expected: str | None) -> None:
    [firing] = firings(cron.parse(f"CRON_TZ=Europe/Berlin {expression}"), read_instant_ms(after), 1)
    assert explanation(firing) == expected


def test_firings_are_shown_with_their_local_times() -> None:
    schedule = cron.parse("CRON_TZ=Europe/Berlin 0 9 * * *")
    view = firings_view(schedule, 0, firings(schedule, 0, 1))
    assert view == {
        "cron": "CRON_TZ=Europe/Berlin 0 9 * * *",
        "time_zone": "Europe/Berlin",
        "from": "1970-01-01T00:00:00.000Z",
        "from_ms": 0,
        "firings": [
            {
                "at": "1970-01-01T08:00:00.000Z",
                "at_ms": 28_800_000,
                "local": "1970-01-01T09:00:00+01:00",
                "explanation": None,
            }
        ],
    }


def test_attempts_are_shown_with_their_arithmetic() -> None:
    view = ladder_view("5000", ladder("5000", 1), 1_000)
    assert view["attempts"] == [
        {
            "attempt": 1,
            "at": "1970-01-01T00:00:01.000Z",
            "at_ms": 1_000,
            "after_ms": 0,
            "delay_ms": 0,
            "arithmetic": "the first attempt",
        },
        {
            "attempt": 2,
            "at": "1970-01-01T00:00:06.000Z",
            "at_ms": 6_000,
            "after_ms": 5_000,
            "delay_ms": 5_000,
            "arithmetic": "5000 with retried = 0 is 5000 ms -> 5s",
        },
    ]
