"""Which minutes the fields of a cron expression match, in UTC."""

from __future__ import annotations

import pytest

from emulator.core.language import cron
from tests.core.language.cron.firings import DAY_MS, firings


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
