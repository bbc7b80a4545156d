"""Cron expressions: what they are, and which instants they name."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from emulator.core.errors import Malformed
from emulator.core.language import cron
from tests.core.language.cron.firings import DAY_MS, firings, table

# -- which cron expressions are accepted (D-012) ---------------------------------------------------


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
        pytest.param("* * * * MONDAY", "in the day of week field, found 'MONDAY'", id="full-name"),
        pytest.param("30-10 * * * *", "beginning of range (30) beyond end of range (10)", id="reversed-range"),
        pytest.param("* * * * FRI-MON", "beginning of range (5) beyond end of range (1)", id="range-over-the-weekend"),
        pytest.param("*/0 * * * *", "step of range should be a positive number: found '*/0'", id="zero-step"),
        pytest.param("*/-5 * * * *", "expected *, a value or a range in the minute field", id="negative-step"),
        pytest.param("*/ * * * *", "found '*/'", id="missing-step"),
        pytest.param("*/5/5 * * * *", "found '*/5/5'", id="two-steps"),
        pytest.param("*/MON * * * *", "found '*/MON'", id="step-with-a-name"),
        pytest.param("-5 * * * *", "found '-5'", id="negative"),
        pytest.param("1.5 * * * *", "found '1.5'", id="fraction"),
        pytest.param("*-5 * * * *", "found '*-5'", id="range-from-a-wildcard"),
        pytest.param("** * * * *", "found '**'", id="two-wildcards"),
        pytest.param("1,,2 * * * *", "found ''", id="empty-item"),
        pytest.param("* * L * *", "expected 1-31 in the day of month field, found 'L'", id="last-day"),
        pytest.param("* * 15W * *", "expected 1-31 in the day of month field, found '15W'", id="nearest-weekday"),
        pytest.param("* * * * 5#2", "in the day of week field, found '5#2'", id="second-friday"),
        pytest.param("H * * * *", "expected 0-59 in the minute field, found 'H'", id="hashed"),
        pytest.param("0 0 31 2 *", "expected a date that exists, found day of month 31 in month 2", id="31-february"),
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
        pytest.param("Europe", id="folder"),
        pytest.param("/etc/localtime", id="absolute"),
        pytest.param("../../etc/passwd", id="parent"),
        pytest.param("Europe/Paris/", id="slash-at-the-end"),
        pytest.param("zone.tab", id="file-of-another-kind"),
        pytest.param("leapseconds", id="file-without-ending"),
        pytest.param("Europe\\Paris", id="backslash"),
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


# -- which minutes the fields of a cron expression match, in UTC -----------------------------------


@table(
    """
    every-minute | * * * * * | 2024-01-15 10:30 | 01-15 10:31 10:32
    every-quarter | */15 * * * * | 2024-01-15 10:44 | 01-15 10:45 11:00 11:15
    start-with-step-runs-to-the-end-of-the-field | 5/15 * * * * | 2024-01-15 10:00 | 01-15 10:05 10:20 10:35 10:50 11:05
    step-from-the-last-value | 59/15 * * * * | 2024-01-15 10:00 | 01-15 10:59 11:59
    range-with-step | 10-30/10 8 * * * | 2024-01-15 00:00 | 01-15 08:10 08:20 08:30 01-16 08:10
    range-of-one | 5-5 * * * * | 2024-01-15 10:00 | 01-15 10:05 11:05
    step-starts-anew-every-hour | */45 * * * * | 2024-01-15 10:00 | 01-15 10:45 11:00 11:45
    step-too-long | */90 * * * * | 2024-01-15 10:00 | 01-15 11:00 12:00
    lists-in-any-order | 30,0 12,6 * * * | 2024-01-15 06:00 | 01-15 06:30 12:00 12:30 01-16 06:00
    question-marks | ? ? ? ? ? | 2024-01-15 10:30 | 01-15 10:31
    question-mark-with-step | ?/20 * * * * | 2024-01-15 10:30 | 01-15 10:40
    leading-zeros | 00 09 01 02 * | 2024-01-15 10:30 | 02-01 09:00
    weekdays-skip-the-weekend | 0 12 * * 1-5 | 2024-01-19 11:00 | 01-19 12:00 01-22 12:00 01-23 12:00
    zero-is-sunday | 0 0 * * 0 | 2024-01-15 00:00 | 01-21 00:00 01-28 00:00
    names-in-any-case | 0 0 * jan-mar,DEC MON,fRi | 2024-03-28 00:00 | 03-29 00:00 12-02 00:00 12-06 00:00
    end-of-year | 59 23 31 12 * | 2024-12-31 23:58 | 12-31 23:59 2025-12-31 23:59
    year-wraps | * * * * * | 2024-12-31 23:59 | 2025-01-01 00:00
    the-31st-skips-short-months | 0 0 31 * * | 2024-01-31 00:00 | 03-31 00:00 05-31 00:00 07-31 00:00 08-31 00:00
    the-30th-skips-february | 0 0 30 * * | 2024-01-30 00:00 | 03-30 00:00
    leap-day-every-four-years | 0 0 29 2 * | 2023-01-01 00:00 | 2024-02-29 00:00 2028-02-29 00:00
    no-leap-day-in-2100 | 0 0 29 2 * | 2096-03-01 00:00 | 2104-02-29 00:00
    a-leap-day-in-2000 | 0 0 29 2 * | 1996-03-01 00:00 | 2000-02-29 00:00
    # A stepped wildcard restricts like a list, so either day field is enough.
    leap-day-or-a-sunday | 0 0 29 2 */7 | 1880-03-01 00:00 | 1881-02-06 00:00
    before-the-epoch | 0 0 1 1 * | 1901-06-01 00:00 | 1902-01-01 00:00
    far-future | 30 6 1 7 * | 9998-12-31 00:00 | 9999-07-01 06:30
    """
)
def test_fires_at_the_next_matching_minute(spec: str, after: str, expected: list[str]) -> None:
    assert firings(spec, after, len(expected)) == expected


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param("0 0 13 * 5", ["2024-09-06", "2024-09-13", "2024-09-20"], id="both-restricted-either-matches"),
        # A Monday on any day of the month, and the third on any day of the week.
        pytest.param("0 0 */1 * MON", ["2024-09-02", "2024-09-09", "2024-09-16"], id="every-day-is-no-restriction"),
        pytest.param("0 0 3 * */1", ["2024-09-03", "2024-10-03", "2024-11-03"], id="every-weekday-is-none-either"),
        pytest.param("0 0 ?/1 * MON", ["2024-09-02", "2024-09-09", "2024-09-16"], id="nor-with-a-question-mark"),
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
