"""Durations, instants, and the questions when something happens."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.core.errors import Malformed
from emulator.core.language import cron
from emulator.core.language.calendar import LATEST_MS, MINUTE_MS
from emulator.wire import times
from emulator.wire.times import iso, local_iso, read_clock_instant_ms, read_instant_ms
from emulator.wire.when import Effect, firings, ladder

# -- durations in headers, in flow control periods, in our control API, and as people read them (D-088) ---


@pytest.mark.parametrize(
    ("text", "expected_ms"),
    [
        pytest.param("0s", 0, id="zero"),
        pytest.param("10s", 10_000, id="seconds"),
        pytest.param("5m", 300_000, id="minutes"),
        pytest.param("2h", 7_200_000, id="hours"),
        pytest.param("10d", 864_000_000, id="days"),
        pytest.param("1d1h1m1s", 90_061_000, id="all-units"),
        pytest.param("30m1d", 88_200_000, id="any-order"),
        pytest.param(" \t5s\n", 5_000, id="blanks-around"),
        pytest.param("1.5s", 1_500, id="decimals"),
        pytest.param("3.3333333333333335s", 3_334, id="rounded-up-to-milliseconds"),
        pytest.param("0.00001s", 1, id="more-than-nothing"),
        pytest.param("0.000s", 0, id="nothing-with-decimals"),
        pytest.param("9007199254740s", 9_007_199_254_740_000, id="largest-whole-seconds"),
    ],
)
def test_duration_is_the_sum_of_its_terms(text: str, expected_ms: int) -> None:
    assert times.parse_duration_ms(text) == expected_ms


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="empty"),
        pytest.param("10", id="no-unit"),
        pytest.param("5x", id="unknown-unit"),
        pytest.param("5w", id="weeks"),
        pytest.param("5ms", id="milliseconds"),
        pytest.param("5S", id="upper-case"),
        pytest.param("-5s", id="negative"),
        pytest.param("1.s", id="no-decimals-behind-the-point"),
        pytest.param(".5s", id="no-digits-before-the-point"),
        pytest.param("1.000000000000000000000s", id="21-decimals"),
        pytest.param("1d 10h", id="blank-inside"),
        pytest.param("1h2h", id="repeated-unit"),
        pytest.param("٣s", id="digits-of-other-scripts"),
        pytest.param("0000000000000001s", id="16-digits-of-a-small-number"),
        pytest.param("9007199254741s", id="just-beyond-exact-integers"),
        pytest.param("9" * 100_000 + "s", id="100-kB"),
    ],
)
def test_anything_else_is_no_duration(text: str) -> None:
    with pytest.raises(Malformed):
        times.parse_duration_ms(text)


@pytest.mark.parametrize(
    ("text", "expected_ms"),
    [
        pytest.param("30", 30_000, id="bare-seconds"),
        pytest.param(" 007 ", 7_000, id="leading-zeros"),
        pytest.param("1d1h30m", 91_800_000, id="days"),
        pytest.param("999999999999", 999_999_999_999_000, id="most-digits"),
    ],
)
def test_a_bare_number_is_seconds(text: str, expected_ms: int) -> None:
    """D-088."""
    assert times.parse_seconds_or_duration_ms(text) == expected_ms


@pytest.mark.parametrize("text", ["", "-1", "1.5", "٣", "²", "1000000000000", "9" * 5000, "1d10", "5x"])
def test_anything_else_is_neither_seconds_nor_a_duration(text: str) -> None:
    with pytest.raises(Malformed):
        times.parse_seconds_or_duration_ms(text)


def test_refused_duration_says_what_was_expected_and_shows_what_was_got() -> None:
    with pytest.raises(Malformed) as refusal:
        times.parse_duration_ms("5x")
    assert (
        refusal.value.reason
        == "expected a duration such as 10s or 1d10h30m, each of the units s, m, h, d at most once, got '5x'"
    )


@pytest.mark.parametrize(
    ("text", "expected_s"),
    [
        pytest.param("1", 1, id="shortest"),
        pytest.param("604800", 604_800, id="longest"),
        pytest.param(" 5 ", 5, id="blanks-around"),
        pytest.param("1h30m3s", 5_403, id="combined"),
    ],
)
def test_period_is_seconds_or_a_duration(text: str, expected_s: int) -> None:
    assert times.parse_period_s(text) == expected_s


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="empty"),
        pytest.param("0", id="zero"),
        pytest.param("1.5s", id="a-part-of-a-second"),
        pytest.param("604801", id="a-second-over-a-week"),
        pytest.param("500ms", id="milliseconds"),
    ],
)
def test_period_outside_a_second_to_a_week_is_malformed(text: str) -> None:
    with pytest.raises(Malformed):
        times.parse_period_s(text)


@pytest.mark.parametrize(
    ("value", "expected_ms"),
    [
        pytest.param(0, 0, id="zero"),
        pytest.param(1500, 1_500, id="number-is-milliseconds"),
        pytest.param(9_007_199_254_740_991, 9_007_199_254_740_991, id="largest"),
        pytest.param("250ms", 250, id="milliseconds"),
        pytest.param("1w", 604_800_000, id="weeks"),
        pytest.param("1w1d2h3m4s5ms", 698_584_005, id="all-units"),
    ],
)
def test_control_duration_is_milliseconds_or_text(value: str | int, expected_ms: int) -> None:
    assert times.parse_control_duration_ms(value) == expected_ms


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(-1, id="negative"),
        pytest.param(9_007_199_254_740_992, id="beyond-exact-integers"),
        pytest.param(10**5000, id="more-digits-than-python-prints"),
        pytest.param(True, id="json-true"),
        pytest.param(False, id="json-false"),
        pytest.param("1500", id="text-without-unit"),
        pytest.param("", id="empty"),
        pytest.param("5ms5ms", id="repeated-unit"),
    ],
)
def test_anything_else_is_no_control_duration(value: str | int) -> None:
    with pytest.raises(Malformed):
        times.parse_control_duration_ms(value)


@pytest.mark.parametrize(
    ("ms", "expected"),
    [
        pytest.param(0, "0s", id="zero"),
        pytest.param(1, "1ms", id="a-millisecond"),
        pytest.param(250, "250ms", id="below-a-second"),
        pytest.param(1_000, "1s", id="a-second"),
        pytest.param(1_500, "1.5s", id="one-decimal"),
        pytest.param(1_001, "1.001s", id="three-decimals"),
        pytest.param(60_000, "1m", id="a-minute"),
        pytest.param(3_600_000, "1h", id="an-hour"),
        pytest.param(3_601_000, "1h1s", id="empty-units-are-left-out"),
        pytest.param(95_400_000, "1d2h30m", id="days-hours-minutes"),
        pytest.param(-1_500, "-1.5s", id="negative"),
    ],
)
def test_duration_is_formatted_for_people(ms: int, expected: str) -> None:
    assert times.format_duration(ms) == expected


@given(seconds=st.integers(0, 10**9))
def test_formatted_whole_seconds_read_back(seconds: int) -> None:
    assert times.parse_duration_ms(times.format_duration(seconds * 1000)) == seconds * 1000


# -- instants as text, both ways -------------------------------------------------------------------


FIRST_MS = -62_135_596_800_000
LAST_MS = 253_402_300_799_999


@pytest.mark.parametrize(
    ("value", "expected_ms"),
    [
        pytest.param(0, 0, id="zero"),
        pytest.param(1_767_225_600_000, 1_767_225_600_000, id="milliseconds"),
        pytest.param(-1, -1, id="before-the-epoch"),
        pytest.param("2026-01-01T00:00:00Z", 1_767_225_600_000, id="utc"),
        pytest.param("2026-01-01T00:00:00", 1_767_225_600_000, id="naive-is-utc"),
        pytest.param("2026-01-01", 1_767_225_600_000, id="date-alone"),
        pytest.param("2026-01-01 00:00", 1_767_225_600_000, id="blank-and-no-seconds"),
        pytest.param("2026-01-01t00:00:00z", 1_767_225_600_000, id="lower-case"),
        pytest.param("2026-01-01T02:00:00+02:00", 1_767_225_600_000, id="east"),
        pytest.param("2025-12-31T18:30:00-0530", 1_767_225_600_000, id="west-without-colon"),
        pytest.param("2026-01-01T00:00:00.1234567Z", 1_767_225_600_123, id="fraction-is-cut"),
        pytest.param("2026-01-01T00:00:00,5Z", 1_767_225_600_500, id="comma"),
        pytest.param(" 2026-01-01T00:00:00Z\n", 1_767_225_600_000, id="blanks-around"),
        pytest.param("2024-02-29T00:00:00Z", 1_709_164_800_000, id="leap-day"),
        pytest.param("1969-12-31T23:59:59.999Z", -1, id="just-before-the-epoch"),
        pytest.param("0001-01-01T00:00:00Z", FIRST_MS, id="first"),
        pytest.param("9999-12-31T23:59:59.999Z", LAST_MS, id="last"),
    ],
)
def test_instant_is_iso_8601_or_milliseconds(value: str | int, expected_ms: int) -> None:
    assert read_instant_ms(value) == expected_ms


@pytest.mark.parametrize(
    "value",
    [
        pytest.param("", id="empty"),
        pytest.param("1767225600000", id="digits"),
        pytest.param("2026-W01-1", id="week"),
        pytest.param("2026-02-29", id="no-leap-year"),
        pytest.param("2026-13-01", id="month"),
        pytest.param("2026-01-01T24:00:00Z", id="hour-24"),
        pytest.param("2026-01-01T00:00:60Z", id="leap-second"),
        pytest.param("2026-01-01T00:00:00+24:00", id="offset-too-far"),
        pytest.param("2026-01-01T00:00:00+01:60", id="offset-minutes"),
        pytest.param("2026-01-01Z", id="date-with-zone"),
        pytest.param("0000-01-01", id="year-0"),
        pytest.param("0001-01-01T00:00:00+01:00", id="before-year-1"),
        pytest.param("9999-12-31T23:59:59-01:00", id="after-year-9999"),
        pytest.param("٢٠٢٦-01-01", id="digits-of-other-scripts"),
        pytest.param(LAST_MS + 1, id="too-late"),
        pytest.param(FIRST_MS - 1, id="too-early"),
        pytest.param(True, id="boolean"),
    ],
)
def test_instant_that_is_none_is_malformed(value: str | int) -> None:
    with pytest.raises(Malformed, match="expected"):
        read_instant_ms(value)


@given(st.integers(FIRST_MS, LAST_MS))
def test_instant_survives_the_journey_through_iso(instant_ms: int) -> None:
    assert read_instant_ms(iso(instant_ms)) == instant_ms


@pytest.mark.parametrize(
    ("instant_ms", "expected"),
    [
        pytest.param(1_767_225_600_000, "2026-01-01T00:00:00.000Z", id="whole"),
        pytest.param(-1, "1969-12-31T23:59:59.999Z", id="negative"),
        pytest.param(FIRST_MS, "0001-01-01T00:00:00.000Z", id="first"),
        pytest.param(LAST_MS, "9999-12-31T23:59:59.999Z", id="last"),
    ],
)
def test_iso_has_milliseconds_and_z(instant_ms: int, expected: str) -> None:
    assert iso(instant_ms) == expected


def test_a_clock_shows_instants_after_the_epoch_and_text_the_years_1_to_9999() -> None:
    assert read_clock_instant_ms("1970-01-01T00:00:00.001Z") == 1
    assert read_clock_instant_ms(LAST_MS) == LAST_MS
    for value in ("1970-01-01T00:00:00Z", "1969-12-31", 0, LAST_MS + 1):
        with pytest.raises(Malformed):
            read_clock_instant_ms(value)
    for instant_ms in (FIRST_MS - 1, LAST_MS + 1):
        with pytest.raises(ValueError, match="years 1 to 9999"):
            iso(instant_ms)


# -- firings around changes of the clock (D-430), attempts (D-431); both as JSON and in sentences ---


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
            "the clock goes back from 03:00 to 02:00, and 02:00 comes twice on 2026-10-25: only the first fires",
        ),
        (
            "30 * * * *",
            "2026-10-25T00:00:00Z",
            "the clock goes back from 03:00 to 02:00, and 02:30 comes twice on 2026-10-25: both fire",
        ),
        ("30 4 * * *", "2026-03-28T12:00:00Z", None),
    ],
)
def test_a_change_of_the_clock_is_one_sentence(expression: str, after: str, expected: str | None) -> None:
    [firing] = firings(cron.parse(f"CRON_TZ=Europe/Berlin {expression}"), read_instant_ms(after), 1)
    assert firing.explanation == expected


# -- firings and attempts ---------------------------------------------------------------------


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


def test_a_wildcard_of_minutes_loses_the_gap_and_one_of_hours_fires_in_both_passes() -> None:
    assert found("CRON_TZ=Europe/Berlin */30 2 * * *", "2026-03-28T12:00:00Z", 2) == [
        ("2026-03-30T02:00:00+02:00", [Effect.SKIPPED]),
        ("2026-03-30T02:30:00+02:00", []),
    ]
    once = found("CRON_TZ=Europe/Berlin */30 2 * * *", "2026-10-24T12:00:00Z", 3)
    assert [effects for _, effects in once] == [[Effect.FIRST_PASS]] * 2 + [[]]
    both = found("CRON_TZ=Europe/Berlin 30 * * * *", "2026-10-25T00:00:00Z", 3)
    assert [effects for _, effects in both] == [[Effect.BOTH_PASSES]] * 2 + [[]]


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
    steps = list(ladder("pow(2, retried) * 1000", 3))
    assert [(each.attempt, each.after_ms) for each in steps] == [(1, 0), (2, 1_000), (3, 3_000), (4, 7_000)]
    assert [each.after_ms for each in ladder(None, 2)] == [0, 12_000, 160_000]
    assert len(list(ladder(None, 0))) == 1


@pytest.mark.parametrize("expression", ["30 2 * * *", "*/20 1-3 * * *", "0 0 * * 0"])
def test_firings_are_those_of_a_schedule(expression: str) -> None:
    schedule = cron.parse(f"CRON_TZ=America/New_York {expression}")
    at_ms = start_ms = read_instant_ms("2026-02-20")
    for firing in firings(schedule, start_ms, 60):
        at_ms = schedule.next_after(at_ms)
        assert firing.at_ms == at_ms
