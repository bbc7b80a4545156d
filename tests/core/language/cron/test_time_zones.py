"""When cron expressions fire in a time zone, daylight-saving changes included (D-011)."""

from __future__ import annotations

import io
import struct
from dataclasses import replace
from zoneinfo import ZoneInfo

import pytest

from emulator.core.language import cron
from tests.core.language.cron.firings import at, firings


@pytest.mark.parametrize(
    ("spec", "after", "expected"),
    [
        pytest.param("CRON_TZ=Asia/Tokyo 0 9 * * *", "2024-01-15 00:00", "2024-01-16 00:00", id="tokyo"),
        pytest.param("TZ=Asia/Kolkata 0 9 * * *", "2024-01-15 00:00", "2024-01-15 03:30", id="half-hour"),
        pytest.param("CRON_TZ=Asia/Kathmandu 0 9 * * *", "2024-01-15 00:00", "2024-01-15 03:15", id="quarter-hour"),
        pytest.param("CRON_TZ=America/New_York 0 9 * 1 *", "2024-01-15 00:00", "2024-01-15 14:00", id="winter"),
        pytest.param("CRON_TZ=America/New_York 0 9 * 7 *", "2024-01-15 00:00", "2024-07-01 13:00", id="summer"),
        pytest.param("CRON_TZ=Etc/GMT+5 0 9 * * *", "2024-01-15 00:00", "2024-01-15 14:00", id="fixed-offset"),
        pytest.param("CRON_TZ=UTC 0 9 * * *", "2024-01-15 00:00", "2024-01-15 09:00", id="utc"),
        pytest.param("CRON_TZ=Pacific/Kiritimati 0 0 1 * *", "2024-01-15 00:00", "2024-01-31 10:00", id="far-east"),
        pytest.param("CRON_TZ=Asia/Tokyo 0 0 * * MON", "2024-01-15 00:00", "2024-01-21 15:00", id="local-weekday"),
        # The offset was 44 minutes 30 seconds west: the first whole minute at or after the local time.
        pytest.param("CRON_TZ=Africa/Monrovia 0 9 * * *", "1971-06-01 00:00", "1971-06-01 09:45", id="odd-seconds"),
    ],
)
def test_fields_are_read_on_the_clock_of_the_time_zone(spec: str, after: str, expected: str) -> None:
    assert firings(spec, after, 1) == [expected]


# New York: 2024-03-10 02:00 -> 03:00 at 07:00 UTC. Berlin: 2024-03-31 02:00 -> 03:00 at 01:00 UTC.
# Lord Howe: 2024-10-06 02:00 -> 02:30 at 15:30 UTC the day before. Beirut: 2024-03-31 00:00 -> 01:00
# at 22:00 UTC the day before. Apia: all of 2011-12-30 is left out, at 10:00 UTC of that day.
@pytest.mark.parametrize(
    ("spec", "after", "expected"),
    [
        pytest.param(
            "CRON_TZ=America/New_York 30 2 * * *",
            "2024-03-09 07:00",
            ["2024-03-09 07:30", "2024-03-10 07:00", "2024-03-11 06:30"],
            id="new-york",
        ),
        pytest.param(
            "CRON_TZ=Europe/Berlin 30 2 * * *",
            "2024-03-30 00:00",
            ["2024-03-30 01:30", "2024-03-31 01:00", "2024-04-01 00:30"],
            id="berlin",
        ),
        pytest.param(
            "CRON_TZ=America/New_York 0,15,59 2 * * *",
            "2024-03-09 08:00",
            ["2024-03-10 07:00", "2024-03-11 06:00", "2024-03-11 06:15"],
            id="several-in-one-gap-collapse",
        ),
        pytest.param(
            "CRON_TZ=America/New_York 0 2,3 * * *",
            "2024-03-09 08:00",
            ["2024-03-10 07:00", "2024-03-11 06:00", "2024-03-11 07:00"],
            id="collapse-into-a-regular-match",
        ),
        pytest.param(
            "CRON_TZ=America/New_York 0 * * * *",
            "2024-03-10 05:30",
            ["2024-03-10 06:00", "2024-03-10 07:00", "2024-03-10 08:00"],
            id="hourly-fires-every-real-hour",
        ),
        pytest.param(
            "CRON_TZ=America/New_York 30 2 10 3 *", "2024-01-01 00:00", ["2024-03-10 07:00"], id="only-in-the-gap"
        ),
        pytest.param(
            "CRON_TZ=America/New_York 59 1 * * *",
            "2024-03-10 00:00",
            ["2024-03-10 06:59", "2024-03-11 05:59"],
            id="minute-before-the-gap",
        ),
        pytest.param(
            "CRON_TZ=Australia/Lord_Howe 15 2 * * *",
            "2024-10-04 12:00",
            ["2024-10-04 15:45", "2024-10-05 15:30", "2024-10-06 15:15"],
            id="gap-of-half-an-hour",
        ),
        pytest.param(
            "CRON_TZ=Asia/Beirut 0 0 * * *",
            "2024-03-29 12:00",
            ["2024-03-29 22:00", "2024-03-30 22:00", "2024-03-31 21:00"],
            id="gap-at-midnight",
        ),
        pytest.param(
            "CRON_TZ=Pacific/Apia 0 12 * * *",
            "2011-12-29 00:00",
            ["2011-12-29 22:00", "2011-12-30 10:00", "2011-12-30 22:00"],
            id="gap-of-a-day",
        ),
        pytest.param(
            "CRON_TZ=Pacific/Apia 0 0,6,18 30 12 *",
            "2011-12-01 00:00",
            ["2011-12-30 10:00", "2012-12-29 10:00"],
            id="several-in-a-gap-of-a-day",
        ),
        pytest.param(
            "CRON_TZ=Pacific/Apia 0 0 30,31 12 *",
            "2011-12-01 00:00",
            ["2011-12-30 10:00", "2012-12-29 10:00"],
            id="a-lost-day-and-the-next",
        ),
    ],
)
def test_local_time_that_does_not_exist_fires_at_the_next_minute_that_does(
    spec: str, after: str, expected: list[str]
) -> None:
    """D-011."""
    assert firings(spec, after, len(expected)) == expected


# New York: 2024-11-03 02:00 -> 01:00 at 06:00 UTC. Berlin: 2024-10-27 03:00 -> 02:00 at 01:00 UTC.
# Lord Howe: 2024-04-07 02:00 -> 01:30 at 15:00 UTC the day before. Kwajalein had most of a day twice.
@pytest.mark.parametrize(
    ("spec", "after", "expected"),
    [
        pytest.param(
            "CRON_TZ=America/New_York 30 1 * * *",
            "2024-11-02 12:00",
            ["2024-11-03 05:30", "2024-11-04 06:30"],
            id="new-york",
        ),
        pytest.param(
            "CRON_TZ=Europe/Berlin 0,30 2 * * *",
            "2024-10-26 12:00",
            ["2024-10-27 00:00", "2024-10-27 00:30", "2024-10-28 01:00"],
            id="berlin",
        ),
        pytest.param(
            "CRON_TZ=America/New_York 30 1 * * *",
            "2024-11-03 06:00",
            ["2024-11-04 06:30"],
            id="asked-between-the-two",
        ),
        pytest.param(
            "CRON_TZ=America/New_York 0 2 * * *",
            "2024-11-02 12:00",
            ["2024-11-03 07:00", "2024-11-04 07:00"],
            id="first-minute-after-the-repeated-hour",
        ),
        pytest.param(
            "CRON_TZ=America/New_York */30 1 * * *",
            "2024-11-03 04:59",
            ["2024-11-03 05:00", "2024-11-03 05:30", "2024-11-04 06:00"],
            id="every-half-hour-of-a-fixed-hour",
        ),
        pytest.param(
            "CRON_TZ=America/New_York 0 0-6 * * *",
            "2024-11-03 04:30",
            ["2024-11-03 05:00", "2024-11-03 07:00"],
            id="a-range-of-hours-is-fixed",
        ),
        pytest.param(
            "CRON_TZ=Europe/Berlin ? 2 27 10 ?",
            "2024-10-27 00:58",
            ["2024-10-27 00:59", "2025-10-27 01:00"],
            id="every-minute-of-a-fixed-hour",
        ),
        pytest.param(
            "CRON_TZ=Australia/Lord_Howe 15,45 1 * * *",
            "2024-04-06 12:00",
            ["2024-04-06 14:15", "2024-04-06 14:45", "2024-04-07 14:45", "2024-04-07 15:15"],
            id="half-an-hour-repeated",
        ),
        pytest.param(
            # The zone moved from 12 hours west to 12 hours east in 1993 after it had moved the other way in 1969.
            "CRON_TZ=Pacific/Kwajalein 0 12 * * *",
            "1969-09-29 00:00",
            ["1969-09-29 01:00", "1969-09-30 01:00", "1969-10-02 00:00"],
            id="most-of-a-day-repeated",
        ),
    ],
)
def test_local_time_that_exists_twice_fires_at_its_first_occurrence_only(
    spec: str, after: str, expected: list[str]
) -> None:
    """D-011."""
    assert firings(spec, after, len(expected)) == expected


@pytest.mark.parametrize(
    ("spec", "after", "expected"),
    [
        pytest.param(
            "CRON_TZ=America/New_York * * * * *",
            "2024-03-10 06:58",
            ["2024-03-10 06:59", "2024-03-10 07:00", "2024-03-10 07:01"],
            id="every-minute-across-a-gap",
        ),
        pytest.param(
            "CRON_TZ=America/New_York */30 2 * * *",
            "2024-03-09 07:00",
            ["2024-03-09 07:30", "2024-03-11 06:00", "2024-03-11 06:30"],
            id="nothing-to-shift-in-a-gap",
        ),
        pytest.param(
            "CRON_TZ=Australia/Lord_Howe */15 2 * * *",
            "2024-10-05 15:20",
            ["2024-10-05 15:30", "2024-10-05 15:45", "2024-10-06 15:00"],
            id="half-an-hour-left-out",
        ),
        pytest.param(
            "CRON_TZ=Pacific/Apia * 12 30 12 *", "2011-12-01 00:00", ["2012-12-29 22:00"], id="a-day-left-out"
        ),
    ],
)
def test_wildcard_minutes_fire_on_every_real_minute(spec: str, after: str, expected: list[str]) -> None:
    """D-011."""
    assert firings(spec, after, len(expected)) == expected


@pytest.mark.parametrize(
    ("spec", "after", "expected"),
    [
        pytest.param(
            "CRON_TZ=America/New_York 0 * * * *",
            "2024-11-03 04:30",
            ["2024-11-03 05:00", "2024-11-03 06:00", "2024-11-03 07:00"],
            id="hourly",
        ),
        pytest.param(
            "CRON_TZ=Europe/Berlin 15 */2 * * *",
            "2024-10-26 23:00",
            ["2024-10-27 00:15", "2024-10-27 01:15", "2024-10-27 03:15"],
            id="every-other-hour",
        ),
        pytest.param(
            "CRON_TZ=Europe/Berlin ? ? 27 10 ?",
            "2024-10-27 00:58",
            ["2024-10-27 00:59", "2024-10-27 01:00", "2024-10-27 01:01"],
            id="every-minute",
        ),
        pytest.param(
            "CRON_TZ=Australia/Lord_Howe */15 * * * *",
            "2024-04-06 14:40",
            ["2024-04-06 14:45", "2024-04-06 15:00", "2024-04-06 15:15", "2024-04-06 15:30"],
            id="half-an-hour-repeated",
        ),
        pytest.param(
            "CRON_TZ=America/New_York 0 * * * *",
            "2024-03-10 06:30",
            ["2024-03-10 07:00", "2024-03-10 08:00"],
            id="a-gap-is-no-second-firing",
        ),
    ],
)
def test_wildcard_hours_fire_in_both_passes(spec: str, after: str, expected: list[str]) -> None:
    """D-011."""
    assert firings(spec, after, len(expected)) == expected


def test_a_wildcard_that_only_ever_meets_a_skipped_hour_fires_after_the_gap() -> None:
    """D-011. The clock of this zone goes forward on 31 March of every year, the only date of the expression."""
    header = struct.pack(">4sc15x6I", b"TZif", b"2", 0, 0, 0, 0, 1, 4)
    data = struct.pack(">i2B4s", 0, 0, 0, b"XXX\0")
    zone = ZoneInfo.from_file(io.BytesIO((header + data) * 2 + b"\nXXX0YYY,J90/2,J300/3\n"))
    schedule = replace(cron.parse("* 2 31 3 *"), zone=zone)

    assert schedule.next_after(at("2024-01-01 00:00")) == at("2024-03-31 02:00")
