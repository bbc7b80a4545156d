"""Instants as text, both ways."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.core.errors import Malformed
from emulator.wire.instants import iso, read_clock_instant_ms, read_instant_ms

FIRST_MS = -62_135_596_800_000
LAST_MS = 253_402_300_799_999


@pytest.mark.parametrize(
    ("value", "expected_ms"),
    [
        pytest.param(0, 0, id="zero"),
        pytest.param(1_767_225_600_000, 1_767_225_600_000, id="milliseconds"),
        pytest.param(-1, -1, id="before-the-epoch"),
        pytest.param("2026-01-01T00:00:00Z", 1_767_225_600_000, id="utc"),
        pytest.param("2026-01-01T00:00:00.000Z", 1_767_225_600_000, id="as-answered"),
        pytest.param("2026-01-01T00:00:00", 1_767_225_600_000, id="naive-is-utc"),
        pytest.param("2026-01-01", 1_767_225_600_000, id="date-alone"),
        pytest.param("2026-01-01 00:00", 1_767_225_600_000, id="blank-and-no-seconds"),
        pytest.param("2026-01-01t00:00:00z", 1_767_225_600_000, id="lower-case"),
        pytest.param("2026-01-01T02:00:00+02:00", 1_767_225_600_000, id="east"),
        pytest.param("2025-12-31T18:30:00-0530", 1_767_225_600_000, id="west-without-colon"),
        pytest.param("2026-01-01T01:00:00+01", 1_767_225_600_000, id="hours-only"),
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
        pytest.param("now", id="word"),
        pytest.param("1767225600000", id="digits"),
        pytest.param("20260101T000000Z", id="basic-form"),
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


@pytest.mark.slow
@given(st.text() | st.from_regex(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.,]{0,12}[Z+-]?[0-9:]{0,5}") | st.integers())
def test_instant_is_read_or_malformed(value: str | int) -> None:
    with suppress(Malformed):
        assert FIRST_MS <= read_instant_ms(value) <= LAST_MS


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


@pytest.mark.parametrize("instant_ms", [FIRST_MS - 1, LAST_MS + 1])
def test_iso_knows_the_years_1_to_9999(instant_ms: int) -> None:
    with pytest.raises(ValueError, match="years 1 to 9999"):
        iso(instant_ms)


@pytest.mark.parametrize(
    ("value", "expected_ms"), [("1970-01-01T00:00:00.001Z", 1), (253_402_300_799_999, 253_402_300_799_999)]
)
def test_a_clock_instant_is_read_as_text_and_as_a_number(value: str | int, expected_ms: int) -> None:
    assert read_clock_instant_ms(value) == expected_ms


@pytest.mark.parametrize("value", ["1970-01-01T00:00:00Z", "1969-12-31", 0, 253_402_300_800_000])
def test_an_instant_that_no_clock_shows_is_refused(value: str | int) -> None:
    with pytest.raises(Malformed):
        read_clock_instant_ms(value)
