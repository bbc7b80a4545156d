"""Cron expressions: what is accepted (D-012), and when they fire, daylight-saving changes included (D-011)."""

from __future__ import annotations

import functools
import io
import struct
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from emulator.core.errors import Malformed
from emulator.core.language import cron

DAY_MS = 86_400_000


def at(text: str) -> int:
    """Epoch ms of a time in UTC such as `2024-03-10 07:00`."""
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()) * 1000


def firings(spec: str, after: str, count: int) -> list[str]:
    schedule, instant, found = cron.parse(spec), at(after), []
    for _ in range(count):
        instant = schedule.next_after(instant)
        found.append(datetime.fromtimestamp(instant / 1000, UTC).strftime("%Y-%m-%d %H:%M"))
    return found


# --- in UTC -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "after", "expected"),
    [
        pytest.param("* * * * *", "2024-01-15 10:30", ["2024-01-15 10:31", "2024-01-15 10:32"], id="every-minute"),
        pytest.param(
            "*/15 * * * *",
            "2024-01-15 10:44",
            ["2024-01-15 10:45", "2024-01-15 11:00", "2024-01-15 11:15"],
            id="every-quarter",
        ),
        pytest.param(
            "5/15 * * * *",
            "2024-01-15 10:00",
            ["2024-01-15 10:05", "2024-01-15 10:20", "2024-01-15 10:35", "2024-01-15 10:50", "2024-01-15 11:05"],
            id="start-with-step-runs-to-the-end-of-the-field",
        ),
        pytest.param(
            "59/15 * * * *", "2024-01-15 10:00", ["2024-01-15 10:59", "2024-01-15 11:59"], id="step-from-the-last-value"
        ),
        pytest.param(
            "10-30/10 8 * * *",
            "2024-01-15 00:00",
            ["2024-01-15 08:10", "2024-01-15 08:20", "2024-01-15 08:30", "2024-01-16 08:10"],
            id="range-with-step",
        ),
        pytest.param("5-5 * * * *", "2024-01-15 10:00", ["2024-01-15 10:05", "2024-01-15 11:05"], id="range-of-one"),
        pytest.param(
            "*/45 * * * *",
            "2024-01-15 10:00",
            ["2024-01-15 10:45", "2024-01-15 11:00", "2024-01-15 11:45"],
            id="step-starts-anew-every-hour",
        ),
        pytest.param("*/90 * * * *", "2024-01-15 10:00", ["2024-01-15 11:00", "2024-01-15 12:00"], id="step-too-long"),
        pytest.param(
            "30,0 12,6 * * *",
            "2024-01-15 06:00",
            ["2024-01-15 06:30", "2024-01-15 12:00", "2024-01-15 12:30", "2024-01-16 06:00"],
            id="lists-in-any-order",
        ),
        pytest.param("? ? ? ? ?", "2024-01-15 10:30", ["2024-01-15 10:31"], id="question-marks"),
        pytest.param("?/20 * * * *", "2024-01-15 10:30", ["2024-01-15 10:40"], id="question-mark-with-step"),
        pytest.param("00 09 01 02 *", "2024-01-15 10:30", ["2024-02-01 09:00"], id="leading-zeros"),
        pytest.param(
            "0 12 * * 1-5",
            "2024-01-19 11:00",
            ["2024-01-19 12:00", "2024-01-22 12:00", "2024-01-23 12:00"],
            id="weekdays-skip-the-weekend",
        ),
        pytest.param("0 0 * * 0", "2024-01-15 00:00", ["2024-01-21 00:00", "2024-01-28 00:00"], id="zero-is-sunday"),
        pytest.param(
            "0 0 * jan-mar,DEC MON,fRi",
            "2024-03-28 00:00",
            ["2024-03-29 00:00", "2024-12-02 00:00", "2024-12-06 00:00"],
            id="names-in-any-case",
        ),
        pytest.param("59 23 31 12 *", "2024-12-31 23:58", ["2024-12-31 23:59", "2025-12-31 23:59"], id="end-of-year"),
        pytest.param("* * * * *", "2024-12-31 23:59", ["2025-01-01 00:00"], id="year-wraps"),
        pytest.param(
            "0 0 31 * *",
            "2024-01-31 00:00",
            ["2024-03-31 00:00", "2024-05-31 00:00", "2024-07-31 00:00", "2024-08-31 00:00"],
            id="the-31st-skips-short-months",
        ),
        pytest.param("0 0 30 * *", "2024-01-30 00:00", ["2024-03-30 00:00"], id="the-30th-skips-february"),
        pytest.param(
            "0 0 29 2 *", "2023-01-01 00:00", ["2024-02-29 00:00", "2028-02-29 00:00"], id="leap-day-every-four-years"
        ),
        pytest.param("0 0 29 2 *", "2096-03-01 00:00", ["2104-02-29 00:00"], id="no-leap-day-in-2100"),
        pytest.param("0 0 29 2 *", "1996-03-01 00:00", ["2000-02-29 00:00"], id="a-leap-day-in-2000"),
        # A stepped wildcard restricts like a list, so either day field is enough.
        pytest.param("0 0 29 2 */7", "1880-03-01 00:00", ["1881-02-06 00:00"], id="leap-day-or-a-sunday"),
        pytest.param("0 0 1 1 *", "1901-06-01 00:00", ["1902-01-01 00:00"], id="before-the-epoch"),
        pytest.param("30 6 1 7 *", "9998-12-31 00:00", ["9999-07-01 06:30"], id="far-future"),
    ],
)
def test_fires_at_the_next_matching_minute(spec: str, after: str, expected: list[str]) -> None:
    assert firings(spec, after, len(expected)) == expected


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param("0 0 13 * 5", ["2024-09-06", "2024-09-13", "2024-09-20"], id="both-restricted-either-matches"),
        pytest.param("0 0 3,4 * MON", ["2024-09-02", "2024-09-03", "2024-09-04", "2024-09-09"], id="either-of-lists"),
        pytest.param("0 0 31 2 MON", ["2025-02-03", "2025-02-10"], id="weekday-saves-a-lost-date"),
        pytest.param("0 0 * * 5", ["2024-09-06", "2024-09-13"], id="any-day-of-month"),
        pytest.param("0 0 ? * 5", ["2024-09-06", "2024-09-13"], id="question-mark-day-of-month"),
        pytest.param("0 0 13 * *", ["2024-09-13", "2024-10-13"], id="any-day-of-week"),
        pytest.param("0 0 13 * ?", ["2024-09-13", "2024-10-13"], id="question-mark-day-of-week"),
        pytest.param("0 0 */10 * 0", ["2024-09-01", "2024-09-08"], id="stepped-wildcard-restricts"),
        pytest.param("0 0 13,* * 0", ["2024-09-01", "2024-09-08"], id="wildcard-in-a-list-restricts-nothing"),
        pytest.param("0 0 13 * 0-6", ["2024-09-01", "2024-09-02"], id="all-weekdays-written-out-restrict"),
    ],
)
def test_day_of_month_and_day_of_week_combine_as_in_robfig_cron(spec: str, expected: list[str]) -> None:
    """D-012. A field with a wildcard of step 1 restricts nothing; where both fields restrict, either is enough."""
    assert firings(spec, "2024-08-31 12:00", len(expected)) == [f"{day} 00:00" for day in expected]


@pytest.mark.parametrize(
    ("instant_ms", "expected"),
    [
        pytest.param(1_705_314_600_000, 1_705_314_660_000, id="on-a-minute"),
        pytest.param(1_705_314_600_001, 1_705_314_660_000, id="just-after-a-minute"),
        pytest.param(1_705_314_659_999, 1_705_314_660_000, id="just-before-a-minute"),
        pytest.param(0, 60_000, id="epoch"),
        pytest.param(-1, 0, id="just-before-the-epoch"),
        pytest.param(-60_000, 0, id="a-minute-before-the-epoch"),
    ],
)
@pytest.mark.parametrize("prefix", ["", "CRON_TZ=Etc/UTC ", "CRON_TZ=Asia/Tokyo "])
def test_firing_is_strictly_later_and_on_a_whole_minute(prefix: str, instant_ms: int, expected: int) -> None:
    assert cron.parse(f"{prefix}* * * * *").next_after(instant_ms) == expected


@pytest.mark.parametrize("prefix", ["", "CRON_TZ=Europe/Paris ", "CRON_TZ=America/St_Johns "])
@pytest.mark.parametrize("spec", ["* * * * *", "0 0 1 1 *", "*/7 3 29 2 *"])
@pytest.mark.parametrize("instant_ms", [-(10**17), -62_135_596_800_000, 253_402_300_799_999, 10**17])
def test_instants_beyond_the_calendar_of_the_clock_have_firings_too(prefix: str, spec: str, instant_ms: int) -> None:
    firing = cron.parse(prefix + spec).next_after(instant_ms)
    assert instant_ms < firing <= instant_ms + 41 * 366 * DAY_MS
    assert firing % 60_000 == 0


# --- time zones -------------------------------------------------------------------------------


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
            "CRON_TZ=America/New_York 0 * * * *",
            "2024-11-03 04:30",
            ["2024-11-03 05:00", "2024-11-03 07:00"],
            id="hourly-skips-the-second-pass",
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
            "CRON_TZ=America/New_York */30 1 * * *",
            "2024-11-03 04:59",
            ["2024-11-03 05:00", "2024-11-03 05:30", "2024-11-03 06:00", "2024-11-03 06:30", "2024-11-04 06:00"],
            id="both-passes",
        ),
        pytest.param(
            "CRON_TZ=Europe/Berlin ? 2 27 10 ?",
            "2024-10-27 00:58",
            ["2024-10-27 00:59", "2024-10-27 01:00", "2024-10-27 01:01"],
            id="question-mark-both-passes",
        ),
        pytest.param(
            "CRON_TZ=Australia/Lord_Howe */15 1 * * *",
            "2024-04-06 14:20",
            ["2024-04-06 14:30", "2024-04-06 14:45", "2024-04-06 15:00", "2024-04-06 15:15", "2024-04-07 14:30"],
            id="half-an-hour-repeated",
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


def test_a_wildcard_that_only_ever_meets_a_skipped_hour_fires_after_the_gap() -> None:
    """D-011. The clock of this zone goes forward on 31 March of every year, the only date of the expression."""
    header = struct.pack(">4sc15x6I", b"TZif", b"2", 0, 0, 0, 0, 1, 4)
    data = struct.pack(">i2B4s", 0, 0, 0, b"XXX\0")
    zone = ZoneInfo.from_file(io.BytesIO((header + data) * 2 + b"\nXXX0YYY,J90/2,J300/3\n"))
    schedule = replace(cron.parse("* 2 31 3 *"), zone=zone)

    assert schedule.next_after(at("2024-01-01 00:00")) == at("2024-03-31 02:00")


# --- what is read, what is refused ------------------------------------------------------------


@pytest.mark.parametrize(
    ("given_text", "text", "time_zone"),
    [
        pytest.param("*/10 * * * * ", "*/10 * * * *", "UTC", id="trailing-blank"),
        pytest.param(" \t0 0 * * *\r\n", "0 0 * * *", "UTC", id="blanks-around"),
        pytest.param("0  0\t*   * *", "0  0\t*   * *", "UTC", id="blanks-within-stay"),
        pytest.param("CRON_TZ=Asia/Tokyo  0 0 * * * ", "CRON_TZ=Asia/Tokyo  0 0 * * *", "Asia/Tokyo", id="zone-stays"),
        pytest.param("TZ=Europe/Paris 0 0 * * *", "TZ=Europe/Paris 0 0 * * *", "Europe/Paris", id="short-prefix"),
        pytest.param("CRON_TZ=UTC 0 0 * * *", "CRON_TZ=UTC 0 0 * * *", "UTC", id="utc-stays"),
    ],
)
def test_text_is_kept_as_given_but_for_blanks_around_it(given_text: str, text: str, time_zone: str) -> None:
    schedule = cron.parse(given_text)
    assert (schedule.text, schedule.time_zone) == (text, time_zone)


def test_schedules_of_equal_texts_are_equal() -> None:
    assert cron.parse("0 0 * * * ") == cron.parse(" 0 0 * * *")
    assert cron.parse("0 0 * * *") != cron.parse("00 0 * * *")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        pytest.param("", "empty spec string, expected exactly 5 fields", id="empty"),
        pytest.param(" \t ", "empty spec string, expected exactly 5 fields", id="blank"),
        pytest.param("* * * *", "expected exactly 5 fields, found 4: [* * * *]", id="four-fields"),
        pytest.param("0 * * * * *", "expected exactly 5 fields, found 6: [0 * * * * *]", id="six-fields"),
        pytest.param("0 0 1 1 * * 2030", "expected exactly 5 fields, found 7: [0 0 1 1 * * 2030]", id="seven-fields"),
        pytest.param("CRON_TZ=UTC", "expected exactly 5 fields, found 0: []", id="zone-only"),
        pytest.param("0 0 * * * CRON_TZ=UTC", "expected exactly 5 fields, found 6", id="zone-at-the-end"),
        pytest.param("cron_tz=UTC 0 0 * * *", "expected exactly 5 fields, found 6", id="prefix-in-lower-case"),
        pytest.param("@hourly", "expected exactly 5 fields, and no descriptor such as '@hourly'", id="descriptor"),
        pytest.param("@every 1m", "expected exactly 5 fields, and no descriptor such as '@every 1m'", id="every"),
        pytest.param("CRON_TZ=UTC @daily", "no descriptor such as '@daily'", id="descriptor-in-a-zone"),
        pytest.param("60 * * * *", "expected 0-59 in the minute field, found '60'", id="minute-60"),
        pytest.param("* 24 * * *", "expected 0-23 in the hour field, found '24'", id="hour-24"),
        pytest.param("* * 0 * *", "expected 1-31 in the day of month field, found '0'", id="day-0"),
        pytest.param("* * 32 * *", "expected 1-31 in the day of month field, found '32'", id="day-32"),
        pytest.param("* * * 0 *", "expected 1-12 or JAN|FEB|MAR|", id="month-0"),
        pytest.param("* * * 13 *", "in the month field, found '13'", id="month-13"),
        pytest.param("* * * * 7", "expected 0-6 or SUN|MON|TUE|WED|THU|FRI|SAT in the day of week", id="weekday-7"),
        pytest.param("* * * * 1-7", "in the day of week field, found '7'", id="range-to-weekday-7"),
        pytest.param("* * * MON *", "in the month field, found 'MON'", id="weekday-as-month"),
        pytest.param("* * JAN * *", "expected 1-31 in the day of month field, found 'JAN'", id="name-as-day"),
        pytest.param("* * * * MONDAY", "in the day of week field, found 'MONDAY'", id="full-name"),
        pytest.param("30-10 * * * *", "beginning of range (30) beyond end of range (10)", id="reversed-range"),
        pytest.param("* * * * FRI-MON", "beginning of range (5) beyond end of range (1)", id="range-over-the-weekend"),
        pytest.param("*/0 * * * *", "step of range should be a positive number: found '*/0'", id="zero-step"),
        pytest.param("0-30/0 * * * *", "step of range should be a positive number", id="zero-step-of-a-range"),
        pytest.param("*/-5 * * * *", "expected *, a value or a range in the minute field", id="negative-step"),
        pytest.param("*/ * * * *", "found '*/'", id="missing-step"),
        pytest.param("*/5/5 * * * *", "found '*/5/5'", id="two-steps"),
        pytest.param("*/MON * * * *", "found '*/MON'", id="step-with-a-name"),
        pytest.param("-5 * * * *", "found '-5'", id="negative"),
        pytest.param("+5 * * * *", "found '+5'", id="plus-sign"),
        pytest.param("1.5 * * * *", "found '1.5'", id="fraction"),
        pytest.param("1-2-3 * * * *", "found '1-2-3'", id="range-of-three"),
        pytest.param("*-5 * * * *", "found '*-5'", id="range-from-a-wildcard"),
        pytest.param("** * * * *", "found '**'", id="two-wildcards"),
        pytest.param("1,,2 * * * *", "found ''", id="empty-item"),
        pytest.param(", * * * *", "found ''", id="comma-only"),
        pytest.param("* * L * *", "expected 1-31 in the day of month field, found 'L'", id="last-day"),
        pytest.param("* * 15W * *", "expected 1-31 in the day of month field, found '15W'", id="nearest-weekday"),
        pytest.param("* * * * 5L", "in the day of week field, found '5L'", id="last-friday"),
        pytest.param("* * * * 5#2", "in the day of week field, found '5#2'", id="second-friday"),
        pytest.param("H * * * *", "expected 0-59 in the minute field, found 'H'", id="hashed"),
        pytest.param("H/15 * * * *", "expected 0-59 in the minute field, found 'H'", id="hashed-with-step"),
        pytest.param("R * * * *", "expected 0-59 in the minute field, found 'R'", id="random"),
        pytest.param("0 0 31 2 *", "expected a date that exists, found day of month 31 in month 2", id="31-february"),
        pytest.param("0 0 30 2 ?", "expected a date that exists, found day of month 30 in month 2", id="30-february"),
        pytest.param("0 0 31 4,6,9,11 *", "expected a date that exists", id="31st-of-short-months"),
        pytest.param("0 0 30-31 FEB ?", "expected a date that exists", id="never-on-any-weekday"),
        pytest.param("0 0 * * \u0665", "expected printable ASCII characters only", id="arabic-digit"),
        pytest.param("0\u00a00 * * *", "expected printable ASCII characters only", id="no-break-space"),
        pytest.param("0 0 *\n* *", "expected printable ASCII characters only", id="line-break"),
        pytest.param("0 0 * * *\x00", "expected printable ASCII characters only", id="null-character"),
        pytest.param("0 0 * * \udc80", "expected printable ASCII characters only", id="lone-surrogate"),
        pytest.param("0," * 127 + "0 * * * *", "at most 256 characters, got 263", id="too-long"),
    ],
)
def test_refuses_what_the_grammar_does_not_have(text: str, reason: str) -> None:
    """D-012: exactly five fields of the robfig/cron grammar, and dates that come."""
    with pytest.raises(Malformed) as refusal:
        cron.parse(text)
    assert reason in refusal.value.reason


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("Mars/Olympus_Mons", id="unknown"),
        pytest.param("", id="empty"),
        pytest.param("Local", id="local"),
        pytest.param("localtime", id="the-machine's-own"),
        pytest.param("posixrules", id="the-machine's-rules"),
        pytest.param("right/Europe/Paris", id="with-leap-seconds"),
        pytest.param("posix/Europe/Paris", id="second-copy"),
        pytest.param("Europe", id="folder"),
        pytest.param("/etc/localtime", id="absolute"),
        pytest.param("/usr/share/zoneinfo/Europe/Paris", id="absolute-to-a-zone"),
        pytest.param("../../etc/passwd", id="parent"),
        pytest.param("Europe/../Europe/Paris", id="parent-within"),
        pytest.param("./UTC", id="dot"),
        pytest.param("Europe//Paris", id="empty-part"),
        pytest.param("Europe/Paris/", id="slash-at-the-end"),
        pytest.param("zone.tab", id="file-of-another-kind"),
        pytest.param("leapseconds", id="file-without-ending"),
        pytest.param("Europe\\Paris", id="backslash"),
        pytest.param("C:Paris", id="drive"),
        pytest.param("+01:00", id="offset"),
        pytest.param("A" * 65, id="too-long"),
        pytest.param("A/B/C/D", id="too-deep"),
    ],
)
def test_refuses_what_is_not_the_name_of_a_time_zone(name: str) -> None:
    with pytest.raises(Malformed, match=r"^provided bad location .*: expected a name of the IANA time zone database"):
        cron.parse(f"CRON_TZ={name} 0 0 * * *")


@given(st.text(max_size=300) | st.text(alphabet="0123456789*?/-,LWHR#@ TZCRON_=adefjmnrsu", max_size=60))
@example("CRON_TZ=" + "A" * 248)
@example("*/" + "9" * 246 + " * * * *")
@settings(deadline=timedelta(seconds=1))
@pytest.mark.slow
def test_any_text_is_a_schedule_or_malformed(text: str) -> None:
    try:
        firing = cron.parse(text).next_after(0)
    except Malformed:
        return
    assert firing > 0


# --- against an oracle that goes from minute to minute ----------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One field of a random expression, and the values it means."""

    text: str
    values: frozenset[int]

    @property
    def is_unrestricted(self) -> bool:
        return not {"*", "?", "*/1", "?/1"}.isdisjoint(self.text.split(","))


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    """A random expression, and a slow way to ask whether a local time matches it."""

    minute: Part
    hour: Part
    day: Part
    month: Part
    weekday: Part

    @property
    def text(self) -> str:
        return " ".join(part.text for part in (self.minute, self.hour, self.day, self.month, self.weekday))

    def matches(self, local: datetime) -> bool:
        on_day, on_weekday = local.day in self.day.values, local.isoweekday() % 7 in self.weekday.values
        either = not self.day.is_unrestricted and not self.weekday.is_unrestricted
        return (
            local.minute in self.minute.values
            and local.hour in self.hour.values
            and local.month in self.month.values
            and (on_day or on_weekday if either else on_day and on_weekday)
        )


@st.composite
def items(draw: st.DrawFn, low: int, high: int) -> Part:
    first, last = sorted((draw(st.integers(low, high)), draw(st.integers(low, high))))
    step = draw(st.integers(1, high + 2))
    choices = [
        Part(text=f"{first}", values=frozenset({first})),
        Part(text=f"{first}-{last}", values=frozenset(range(first, last + 1))),
        Part(text=f"{first}-{last}/{step}", values=frozenset(range(first, last + 1, step))),
        Part(text=f"{first}/{step}", values=frozenset(range(first, high + 1, step))),
        Part(text=f"*/{step}", values=frozenset(range(low, high + 1, step))),
        Part(text="?", values=frozenset(range(low, high + 1))),
    ]
    return draw(st.sampled_from(choices))


@st.composite
def parts(draw: st.DrawFn, low: int, high: int) -> Part:
    if draw(st.booleans()):
        return Part(text="*", values=frozenset(range(low, high + 1)))
    chosen = draw(st.lists(items(low, high), min_size=1, max_size=3))
    return Part(text=",".join(item.text for item in chosen), values=frozenset().union(*(i.values for i in chosen)))


# Some day up to the 29th, so that the date comes whatever the month.
days_of_month = parts(1, 31).filter(lambda part: min(part.values) <= 29)
specs = st.builds(
    Spec, minute=parts(0, 59), hour=parts(0, 23), day=days_of_month, month=parts(1, 12), weekday=parts(0, 6)
)


def all_firings(schedule: cron.CronSchedule, start: datetime, end: datetime) -> list[datetime]:
    """Every firing from `start` to before `end`."""
    found: list[datetime] = []
    instant_ms = int(start.timestamp()) * 1000 - 1
    while (instant_ms := schedule.next_after(instant_ms)) < int(end.timestamp()) * 1000:
        found.append(datetime.fromtimestamp(instant_ms / 1000, UTC))
    return found


@given(specs, st.datetimes(min_value=datetime(1960, 1, 1), max_value=datetime(2110, 1, 1)))
@settings(deadline=None, max_examples=60)
@pytest.mark.slow
def test_agrees_with_looking_at_every_minute(spec: Spec, moment: datetime) -> None:
    start = moment.replace(second=0, microsecond=0, tzinfo=UTC)
    minutes = [start + timedelta(minutes=passed) for passed in range(2 * 24 * 60)]
    expected = [minute for minute in minutes if spec.matches(minute)]
    assert all_firings(cron.parse(spec.text), start, start + timedelta(days=2)) == expected


@given(days_of_month, parts(1, 12), parts(0, 6), st.datetimes(datetime(2, 1, 1), datetime(9990, 1, 1)))
@settings(deadline=None, max_examples=60)
@pytest.mark.slow
def test_agrees_with_looking_at_every_day(day: Part, month: Part, weekday: Part, moment: datetime) -> None:
    midnight = Part(text="0", values=frozenset({0}))
    spec = Spec(minute=midnight, hour=midnight, day=day, month=month, weekday=weekday)
    start = moment.replace(hour=0, minute=0, second=0, microsecond=0, tzinfo=UTC)
    days = [start + timedelta(days=passed) for passed in range(800)]
    expected = [moment for moment in days if spec.matches(moment)]
    assert all_firings(cron.parse(spec.text), start, start + timedelta(days=800)) == expected


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A change of a zone's offset, and the minutes around it with what the local clock shows."""

    zone: str
    instant: str

    @property
    def start(self) -> datetime:
        return datetime.fromisoformat(self.instant).replace(tzinfo=UTC) - timedelta(hours=30)

    @property
    def end(self) -> datetime:
        return self.start + timedelta(hours=60)


CHANGES = (
    Change(zone="America/New_York", instant="2024-03-10 07:00"),
    Change(zone="America/New_York", instant="2024-11-03 06:00"),
    Change(zone="Europe/Dublin", instant="2024-10-27 01:00"),
    Change(zone="Australia/Lord_Howe", instant="2024-04-06 15:00"),
    Change(zone="Australia/Lord_Howe", instant="2024-10-05 15:30"),
    Change(zone="Asia/Beirut", instant="2024-03-30 22:00"),
    Change(zone="Africa/Cairo", instant="2014-06-26 21:00"),
    Change(zone="Pacific/Apia", instant="2011-12-30 10:00"),
    Change(zone="Pacific/Kwajalein", instant="1969-09-30 13:00"),
    Change(zone="Antarctica/Troll", instant="2024-03-31 01:00"),
)


@functools.cache
def shown_around(change: Change) -> tuple[tuple[datetime, datetime], ...]:
    """Every minute of two days before the change's window to its end, and its local time without zone."""
    zone, start = ZoneInfo(change.zone), change.start - timedelta(days=2)
    minutes = (start + timedelta(minutes=passed) for passed in range((2 * 24 + 60) * 60))
    return tuple((minute, minute.astimezone(zone).replace(tzinfo=None)) for minute in minutes)


def slow_firings(spec: Spec, change: Change) -> list[datetime]:
    found: list[datetime] = []
    highest = shown_around(change)[0][1]
    for minute, local in shown_around(change)[1:]:
        if spec.minute.text.startswith(("*", "?")):
            fires = spec.matches(local)
        else:
            # All local times that the clock passes in this minute for the first time: none, one, or a gap's.
            passed = (local - highest) // timedelta(minutes=1)
            fires = any(spec.matches(highest + timedelta(minutes=step)) for step in range(1, passed + 1))
        highest = max(highest, local)
        if fires and minute >= change.start:
            found.append(minute)
    return found


@given(specs, st.sampled_from(CHANGES))
@settings(deadline=None, max_examples=100)
@pytest.mark.slow
def test_agrees_with_watching_the_clock_through_a_change(spec: Spec, change: Change) -> None:
    """D-011."""
    schedule = cron.parse(f"CRON_TZ={change.zone} {spec.text}")
    assert all_firings(schedule, change.start, change.end) == slow_firings(spec, change)


@given(
    specs,
    st.sampled_from(["Europe/Paris", "America/Santiago", "Africa/Casablanca", "Asia/Tehran", "Australia/Lord_Howe"]),
    st.integers(at("1900-01-01 00:00"), at("2200-01-01 00:00")),
    st.integers(1, 400 * DAY_MS),
)
@settings(deadline=None, max_examples=60)
@pytest.mark.slow
def test_later_questions_never_have_earlier_answers(spec: Spec, zone: str, instant_ms: int, passed_ms: int) -> None:
    schedule = cron.parse(f"CRON_TZ={zone} {spec.text}")
    firing, later = schedule.next_after(instant_ms), schedule.next_after(instant_ms + passed_ms)
    assert instant_ms < firing <= later
    assert firing == later or firing <= instant_ms + passed_ms
    assert schedule.next_after(firing - 1) == firing
