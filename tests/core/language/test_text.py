"""Texts and calendars."""

from __future__ import annotations

import calendar as standard
from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.core.language.calendar import is_rate, is_weekend, month_of, weekday
from emulator.core.language.text import by_canonical_name, canonical_name, excerpt, near, value_of, without

# -- header names, quoted texts and names spelt alike ----------------------------------------------


# -- header names -------------------------------------------------------------------------------

HEADERS = (("x-tag", "a"), ("Content-TYPE", "text/plain"), ("X-TAG", "b"))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        pytest.param("content-type", "Content-Type", id="lower"),
        pytest.param("CONTENT-TYPE", "Content-Type", id="upper"),
        pytest.param("x-amz-meta-ID", "X-Amz-Meta-Id", id="every-part"),
        pytest.param("etag", "Etag", id="one-part"),
        pytest.param("x--y", "X--Y", id="empty-part"),
        pytest.param("x_a", "X_a", id="underscore-parts-nothing"),
        pytest.param("not a token", "not a token", id="no-token-stays"),
        pytest.param("", "", id="empty"),
    ],
)
def test_canonical_names(name: str, expected: str) -> None:
    """Decision D-040."""
    assert canonical_name(name) == expected


def test_values_of_one_name_stand_together_in_order() -> None:
    assert by_canonical_name(HEADERS) == {"X-Tag": ["a", "b"], "Content-Type": ["text/plain"]}


def test_a_value_is_found_whatever_the_case() -> None:
    assert value_of(HEADERS, "X-Tag") == "a"
    assert value_of(HEADERS, "content-type") == "text/plain"
    assert value_of(HEADERS, "accept") is None


def test_headers_are_left_out_by_lower_case_name() -> None:
    assert without(HEADERS, frozenset(("x-tag",))) == (("Content-TYPE", "text/plain"),)


# -- excerpts -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("", "''", id="empty"),
        pytest.param("5x", "'5x'", id="short"),
        pytest.param("x" * 40, "'" + "x" * 40 + "'", id="40-characters"),
        pytest.param("x" * 41, "'" + "x" * 40 + "'...", id="41-characters"),
        pytest.param("a\r\n\x1b", "'a\\r\\n\\x1b'", id="control-characters"),
    ],
)
def test_text_is_quoted_and_shortened(text: str, expected: str) -> None:
    assert excerpt(text) == expected


# -- spelling -----------------------------------------------------------------------------------

KNOWN = (
    "Svc-Method",
    "Svc-Retries",
    "Svc-Retry-Delay",
    "Svc-Callback",
    "Svc-Callback-Method",
    "Svc-Failure-Callback",
)


@pytest.mark.parametrize(
    ("name", "known", "meant"),
    [
        pytest.param("Svc-Retires", KNOWN, ["Svc-Retries"], id="letters swapped"),
        pytest.param("svc_retries", KNOWN, ["Svc-Retries"], id="another separator and case"),
        pytest.param("Svc-Foo", KNOWN, [], id="only the prefix alike"),
        pytest.param("Upstash-Foo", ("Upstash-Method",), [], id="only a long prefix alike"),
        pytest.param("max_foo", ("max_retries", "max_queues"), [], id="only a first word alike"),
        pytest.param("max_retires", ("max_retries", "max_queues"), ["max_retries"], id="underscores"),
        pytest.param("/v2/event", ("/v2/events", "/v2/logs"), ["/v2/events"], id="a path"),
        pytest.param("/v2/nothing", ("/v2/queues", "/v2/topics"), [], id="no path"),
        pytest.param("Svc-Callback", ("Svc-Callback-Method",), ["Svc-Callback-Method"], id="a word more"),
        pytest.param("cuont", ("count", "cursor"), ["count"], id="one word"),
        pytest.param("json", ("body", "body_json"), ["body_json"], id="the end of a name"),
        pytest.param("", KNOWN, [], id="nothing"),
        pytest.param("a", (), [], id="nothing known"),
    ],
)
def test_only_what_is_near_is_meant(name: str, known: tuple[str, ...], meant: list[str]) -> None:
    assert near(name, known) == meant


def test_the_nearest_come_first() -> None:
    known = ("max_rates", "max_retries", "max_tries")
    assert near("max_retrie", known, most=2) == ["max_retries", "max_tries"]
    assert near("max_retrie", known) == ["max_retries"]


# -- rates of the virtual clock --------------------------------------------------------------------


def test_a_clock_stands_still_or_goes_at_a_millionth_up_to_a_million() -> None:
    rates = (0, 1e-6, 1, 1e6)
    assert [is_rate(rate) for rate in rates] == [True] * 4
    assert [is_rate(rate) for rate in (9e-7, 1_000_001, -1, float("nan"), float("inf"))] == [False] * 5


# -- days, months and weekdays against the standard library, and beyond the years it knows ---------


UNIX_EPOCH = date(1970, 1, 1).toordinal()


@given(st.dates())
def test_every_date_of_the_calendar(expected: date) -> None:
    day, month = expected.toordinal() - UNIX_EPOCH, month_of(expected.toordinal() - UNIX_EPOCH)
    assert (month.number, month.first_day) == (expected.month, day - expected.day + 1)
    assert month.length == standard.monthrange(expected.year, expected.month)[1]
    assert day in month.days
    assert weekday(day) == expected.weekday()
    assert is_weekend(day) == (expected.weekday() >= 5)


@pytest.mark.parametrize(
    ("day", "expected"),
    [
        pytest.param(0, (1, 0, 31), id="the-first"),
        pytest.param(11_016, (2, 10_988, 29), id="a-leap-day-of-a-century"),
        pytest.param(-719_163, (12, -719_193, 31), id="before-the-year-1"),
        pytest.param(2_932_897, (1, 2_932_897, 31), id="after-the-year-9999"),
    ],
)
def test_days_that_are_easily_wrong(day: int, expected: tuple[int, int, int]) -> None:
    month = month_of(day)
    assert (month.number, month.first_day, month.length) == expected
