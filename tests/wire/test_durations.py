"""Durations in headers, in flow control periods, in our control API, and as people read them (D-088)."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.core.errors import Malformed
from emulator.wire import durations


@pytest.mark.parametrize(
    ("text", "expected_ms"),
    [
        pytest.param("0s", 0, id="zero"),
        pytest.param("10s", 10_000, id="seconds"),
        pytest.param("5m", 300_000, id="minutes"),
        pytest.param("2h", 7_200_000, id="hours"),
        pytest.param("10d", 864_000_000, id="days"),
        pytest.param("1d10h30m", 124_200_000, id="combined"),
        pytest.param("1d1h1m1s", 90_061_000, id="all-units"),
        pytest.param("30m1d", 88_200_000, id="any-order"),
        pytest.param("90m", 5_400_000, id="beyond-the-next-unit"),
        pytest.param(" \t5s\n", 5_000, id="blanks-around"),
        pytest.param("007s", 7_000, id="leading-zeros"),
        pytest.param("9007199254740s", 9_007_199_254_740_000, id="largest-whole-seconds"),
    ],
)
def test_duration_is_the_sum_of_its_terms(text: str, expected_ms: int) -> None:
    assert durations.parse_duration_ms(text) == expected_ms


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="empty"),
        pytest.param("  ", id="blank"),
        pytest.param("10", id="no-unit"),
        pytest.param("1d10", id="last-unit-missing"),
        pytest.param("s", id="no-number"),
        pytest.param("5x", id="unknown-unit"),
        pytest.param("5w", id="weeks"),
        pytest.param("5ms", id="milliseconds"),
        pytest.param("5S", id="upper-case"),
        pytest.param("-5s", id="negative"),
        pytest.param("+5s", id="plus-sign"),
        pytest.param("1.5s", id="decimal"),
        pytest.param("1e3s", id="exponent"),
        pytest.param("1d 10h", id="blank-inside"),
        pytest.param("1 d", id="blank-before-unit"),
        pytest.param("1h2h", id="repeated-unit"),
        pytest.param("1h5m2h", id="repeated-unit-apart"),
        pytest.param("٣s", id="digits-of-other-scripts"),
        pytest.param("5²s", id="superscript"),
        pytest.param("1000000000000000s", id="16-digits"),
        pytest.param("0000000000000001s", id="16-digits-of-a-small-number"),
        pytest.param("999999999999999s", id="15-digits-beyond-exact-integers"),
        pytest.param("9007199254741s", id="just-beyond-exact-integers"),
        pytest.param("9" * 100_000 + "s", id="100-kB"),
    ],
)
def test_anything_else_is_no_duration(text: str) -> None:
    with pytest.raises(Malformed):
        durations.parse_duration_ms(text)


@pytest.mark.parametrize(
    ("text", "expected_ms"),
    [
        pytest.param("30", 30_000, id="bare-seconds"),
        pytest.param("0", 0, id="zero"),
        pytest.param(" 007 ", 7_000, id="leading-zeros"),
        pytest.param("1d1h30m", 91_800_000, id="days"),
        pytest.param("999999999999", 999_999_999_999_000, id="most-digits"),
    ],
)
def test_a_bare_number_is_seconds(text: str, expected_ms: int) -> None:
    """D-088."""
    assert durations.parse_seconds_or_duration_ms(text) == expected_ms


@pytest.mark.parametrize("text", ["", "-1", "1.5", "٣", "²", "1000000000000", "9" * 5000, "1d10", "5x"])
def test_anything_else_is_neither_seconds_nor_a_duration(text: str) -> None:
    with pytest.raises(Malformed):
        durations.parse_seconds_or_duration_ms(text)


def test_refused_duration_says_what_was_expected_and_shows_what_was_got() -> None:
    with pytest.raises(Malformed) as refusal:
        durations.parse_duration_ms("5x")
    assert (
        refusal.value.reason
        == "expected a duration such as 10s or 1d10h30m, each of the units s, m, h, d at most once, got '5x'"
    )


def test_refused_duration_shows_at_most_40_characters() -> None:
    with pytest.raises(Malformed) as refusal:
        durations.parse_duration_ms("x" * 100)
    assert refusal.value.reason.endswith("got '" + "x" * 40 + "'...")


@pytest.mark.parametrize(
    ("text", "expected_s"),
    [
        pytest.param("1", 1, id="shortest"),
        pytest.param("60", 60, id="bare-number"),
        pytest.param("604800", 604_800, id="longest"),
        pytest.param(" 5 ", 5, id="blanks-around"),
        pytest.param("1s", 1, id="seconds"),
        pytest.param("1m", 60, id="minutes"),
        pytest.param("1h30m3s", 5_403, id="combined"),
        pytest.param("1d", 86_400, id="days"),
        pytest.param("7d", 604_800, id="a-week"),
    ],
)
def test_period_is_seconds_or_a_duration(text: str, expected_s: int) -> None:
    assert durations.parse_period_s(text) == expected_s


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="empty"),
        pytest.param("0", id="zero"),
        pytest.param("0s", id="zero-seconds"),
        pytest.param("-1", id="negative"),
        pytest.param("1.5", id="decimal"),
        pytest.param("604801", id="a-second-over-a-week"),
        pytest.param("7d1s", id="a-second-over-a-week-as-duration"),
        pytest.param("8d", id="8-days"),
        pytest.param("500ms", id="milliseconds"),
        pytest.param("٣", id="digits-of-other-scripts"),
        pytest.param("²", id="superscript"),
        pytest.param("9" * 5000, id="5000-digits"),
        pytest.param("hour", id="word"),
    ],
)
def test_period_outside_a_second_to_a_week_is_malformed(text: str) -> None:
    with pytest.raises(Malformed):
        durations.parse_period_s(text)


@pytest.mark.parametrize(
    ("value", "expected_ms"),
    [
        pytest.param(0, 0, id="zero"),
        pytest.param(1500, 1_500, id="number-is-milliseconds"),
        pytest.param(9_007_199_254_740_991, 9_007_199_254_740_991, id="largest"),
        pytest.param("250ms", 250, id="milliseconds"),
        pytest.param("1m", 60_000, id="minutes"),
        pytest.param("10m5ms", 600_005, id="minutes-and-milliseconds"),
        pytest.param("1d2h3m4s5ms", 93_784_005, id="all-units"),
    ],
)
def test_control_duration_is_milliseconds_or_text(value: str | int, expected_ms: int) -> None:
    assert durations.parse_control_duration_ms(value) == expected_ms


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(-1, id="negative"),
        pytest.param(9_007_199_254_740_992, id="beyond-exact-integers"),
        pytest.param(10**5000, id="more-digits-than-python-prints"),
        pytest.param(True, id="json-true"),
        pytest.param(False, id="json-false"),
        pytest.param("1500", id="text-without-unit"),
        pytest.param("1.5s", id="decimal"),
        pytest.param("", id="empty"),
        pytest.param("-1s", id="negative-text"),
        pytest.param("5ms5ms", id="repeated-unit"),
    ],
)
def test_anything_else_is_no_control_duration(value: str | int) -> None:
    with pytest.raises(Malformed):
        durations.parse_control_duration_ms(value)


@pytest.mark.parametrize(
    ("ms", "expected"),
    [
        pytest.param(0, "0s", id="zero"),
        pytest.param(1, "1ms", id="a-millisecond"),
        pytest.param(250, "250ms", id="below-a-second"),
        pytest.param(1_000, "1s", id="a-second"),
        pytest.param(1_500, "1.5s", id="one-decimal"),
        pytest.param(1_001, "1.001s", id="three-decimals"),
        pytest.param(10_000, "10s", id="round-seconds-keep-their-zero"),
        pytest.param(60_000, "1m", id="a-minute"),
        pytest.param(60_250, "1m0.25s", id="minute-and-fraction"),
        pytest.param(148_000, "2m28s", id="minutes-and-seconds"),
        pytest.param(3_600_000, "1h", id="an-hour"),
        pytest.param(3_601_000, "1h1s", id="empty-units-are-left-out"),
        pytest.param(86_400_000, "1d", id="a-day"),
        pytest.param(95_400_000, "1d2h30m", id="days-hours-minutes"),
        pytest.param(864_000_000, "10d", id="ten-days"),
        pytest.param(-1_500, "-1.5s", id="negative"),
    ],
)
def test_duration_is_formatted_for_people(ms: int, expected: str) -> None:
    assert durations.format_duration(ms) == expected


@given(seconds=st.integers(0, 10**9))
def test_formatted_whole_seconds_read_back(seconds: int) -> None:
    assert durations.parse_duration_ms(durations.format_duration(seconds * 1000)) == seconds * 1000


_FRAGMENTS = st.sampled_from(["0", "1", "25", "999999999", "ms", "s", "m", "h", "d", "w", " ", ".", "-"])
_DURATION_LIKE = st.text(max_size=20) | st.lists(_FRAGMENTS, max_size=8).map("".join)


@given(text=_DURATION_LIKE)
def test_any_text_is_a_duration_or_malformed(text: str) -> None:
    for parse in (durations.parse_duration_ms, durations.parse_seconds_or_duration_ms):
        with suppress(Malformed):
            assert 0 <= parse(text) <= 9_007_199_254_740_991


@given(text=_DURATION_LIKE)
def test_any_text_is_a_period_or_malformed(text: str) -> None:
    with suppress(Malformed):
        assert 1 <= durations.parse_period_s(text) <= 604_800


@given(value=_DURATION_LIKE | st.integers())
def test_any_value_is_a_control_duration_or_malformed(value: str | int) -> None:
    with suppress(Malformed):
        assert 0 <= durations.parse_control_duration_ms(value) <= 9_007_199_254_740_991
