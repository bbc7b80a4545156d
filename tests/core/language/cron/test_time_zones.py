"""When cron expressions fire in a time zone, daylight-saving changes included (D-011)."""

from __future__ import annotations

import io
import struct
from dataclasses import replace
from zoneinfo import ZoneInfo

import pytest

from emulator.core.language import cron
from tests.core.language.cron.firings import at, firings, table


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
@table(
    """
    new-york | America/New_York 30 2 * * * | 2024-03-09 07:00 | 03-09 07:30 03-10 07:00 03-11 06:30
    berlin | Europe/Berlin 30 2 * * * | 2024-03-30 00:00 | 03-30 01:30 03-31 01:00 04-01 00:30
    several-in-one-gap-collapse | America/New_York 0,15,59 2 * * * | 2024-03-09 08:00 | 03-10 07:00 03-11 06:00 06:15
    collapse-into-a-regular-match | America/New_York 0 2,3 * * * | 2024-03-09 08:00 | 03-10 07:00 03-11 06:00 07:00
    hourly-fires-every-real-hour | America/New_York 0 * * * * | 2024-03-10 05:30 | 03-10 06:00 07:00 08:00
    only-in-the-gap | America/New_York 30 2 10 3 * | 2024-01-01 00:00 | 03-10 07:00
    minute-before-the-gap | America/New_York 59 1 * * * | 2024-03-10 00:00 | 03-10 06:59 03-11 05:59
    gap-of-half-an-hour | Australia/Lord_Howe 15 2 * * * | 2024-10-04 12:00 | 10-04 15:45 10-05 15:30 10-06 15:15
    gap-at-midnight | Asia/Beirut 0 0 * * * | 2024-03-29 12:00 | 03-29 22:00 03-30 22:00 03-31 21:00
    gap-of-a-day | Pacific/Apia 0 12 * * * | 2011-12-29 00:00 | 12-29 22:00 12-30 10:00 22:00
    several-in-a-gap-of-a-day | Pacific/Apia 0 0,6,18 30 12 * | 2011-12-01 00:00 | 12-30 10:00 2012-12-29 10:00
    a-lost-day-and-the-next | Pacific/Apia 0 0 30,31 12 * | 2011-12-01 00:00 | 12-30 10:00 2012-12-29 10:00
    """
)
def test_local_time_that_does_not_exist_fires_at_the_next_minute_that_does(
    spec: str, after: str, expected: list[str]
) -> None:
    """D-011."""
    assert firings(spec, after, len(expected)) == expected


# New York: 2024-11-03 02:00 -> 01:00 at 06:00 UTC. Berlin: 2024-10-27 03:00 -> 02:00 at 01:00 UTC.
# Lord Howe: 2024-04-07 02:00 -> 01:30 at 15:00 UTC the day before. Kwajalein had most of a day twice.
@table(
    """
    new-york | America/New_York 30 1 * * * | 2024-11-02 12:00 | 11-03 05:30 11-04 06:30
    berlin | Europe/Berlin 0,30 2 * * * | 2024-10-26 12:00 | 10-27 00:00 00:30 10-28 01:00
    asked-between-the-two | America/New_York 30 1 * * * | 2024-11-03 06:00 | 11-04 06:30
    first-minute-after-the-repeated-hour | America/New_York 0 2 * * * | 2024-11-02 12:00 | 11-03 07:00 11-04 07:00
    every-half-hour-of-a-fixed-hour | America/New_York */30 1 * * * | 2024-11-03 04:59 | 11-03 05:00 05:30 11-04 06:00
    a-range-of-hours-is-fixed | America/New_York 0 0-6 * * * | 2024-11-03 04:30 | 11-03 05:00 07:00
    every-minute-of-a-fixed-hour | Europe/Berlin ? 2 27 10 ? | 2024-10-27 00:58 | 10-27 00:59 2025-10-27 01:00
    half-an-hour-repeated | Australia/Lord_Howe 15,45 1 * * * | 2024-04-06 12:00 | 04-06 14:15 14:45 04-07 14:45 15:15
    # The zone moved from 12 hours west to 12 hours east in 1993 after it had moved the other way in 1969.
    most-of-a-day-repeated | Pacific/Kwajalein 0 12 * * * | 1969-09-29 00:00 | 09-29 01:00 09-30 01:00 10-02 00:00
    """
)
def test_local_time_that_exists_twice_fires_at_its_first_occurrence_only(
    spec: str, after: str, expected: list[str]
) -> None:
    """D-011."""
    assert firings(spec, after, len(expected)) == expected


@table(
    """
    every-minute-across-a-gap | America/New_York * * * * * | 2024-03-10 06:58 | 03-10 06:59 07:00 07:01
    nothing-to-shift-in-a-gap | America/New_York */30 2 * * * | 2024-03-09 07:00 | 03-09 07:30 03-11 06:00 06:30
    half-an-hour-left-out | Australia/Lord_Howe */15 2 * * * | 2024-10-05 15:20 | 10-05 15:30 15:45 10-06 15:00
    a-day-left-out | Pacific/Apia * 12 30 12 * | 2011-12-01 00:00 | 2012-12-29 22:00
    """
)
def test_wildcard_minutes_fire_on_every_real_minute(spec: str, after: str, expected: list[str]) -> None:
    """D-011."""
    assert firings(spec, after, len(expected)) == expected


@table(
    """
    hourly | America/New_York 0 * * * * | 2024-11-03 04:30 | 11-03 05:00 06:00 07:00
    every-other-hour | Europe/Berlin 15 */2 * * * | 2024-10-26 23:00 | 10-27 00:15 01:15 03:15
    every-minute | Europe/Berlin ? ? 27 10 ? | 2024-10-27 00:58 | 10-27 00:59 01:00 01:01
    half-an-hour-repeated | Australia/Lord_Howe */15 * * * * | 2024-04-06 14:40 | 04-06 14:45 15:00 15:15 15:30
    a-gap-is-no-second-firing | America/New_York 0 * * * * | 2024-03-10 06:30 | 03-10 07:00 08:00
    """
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
