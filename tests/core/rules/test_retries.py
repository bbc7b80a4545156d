"""The wait before a retry: which source decides, and how long it is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.core.errors import Malformed
from emulator.core.rules import retries
from emulator.core.rules.retries import Hint, RetryDelay, RetryReason

# Thu, 01 Jan 2026 00:00:00 GMT
NOW_MS = 1_767_225_600_000


Decided = tuple[int, RetryReason]


def decided(delay: Hint | RetryDelay) -> Decided:
    """How long and why, without what it was read or computed from."""
    return delay.delay_ms, delay.reason


@pytest.mark.parametrize(
    ("retried", "expected_ms"),
    [
        pytest.param(0, 12_000, id="first-12s"),
        pytest.param(1, 148_000, id="second-2m28s"),
        pytest.param(2, 1_808_000, id="third-30m8s"),
        pytest.param(3, 22_026_000, id="fourth-6h7m6s"),
        pytest.param(4, 86_400_000, id="fifth-a-day"),
        pytest.param(5, 86_400_000, id="sixth-a-day"),
        pytest.param(20, 86_400_000, id="last-of-the-largest-plan"),
        pytest.param(1_000_000, 86_400_000, id="far-beyond"),
    ],
)
def test_default_backoff_grows_exponentially_to_a_day(retried: int, expected_ms: int) -> None:
    """Decision D-016."""
    assert retries.default_backoff_ms(retried) == expected_ms


@pytest.mark.parametrize(
    ("value", "expected_ms"),
    [
        pytest.param("0", 0, id="zero-is-at-once"),
        pytest.param("120", 120_000, id="seconds"),
        pytest.param("1.5", 1_500, id="decimal-seconds"),
        pytest.param(".25", 250, id="decimal-without-whole-part"),
        pytest.param("0.0019", 1, id="fraction-of-a-millisecond-is-cut-off"),
        pytest.param(" 7 ", 7_000, id="blanks-around"),
        pytest.param("000000000000000000000000000005", 5_000, id="leading-zeros"),
        pytest.param("86400", 86_400_000, id="exactly-a-day"),
        pytest.param("1767225600", 1_767_225_600_000, id="unix-timestamp-counts-from-now"),
        pytest.param("6m5s", 365_000, id="go-minutes-and-seconds"),
        pytest.param("1h2m3.5s", 3_723_500, id="go-with-fraction"),
        pytest.param("500ms", 500, id="go-milliseconds"),
        pytest.param("2500us", 2, id="go-microseconds"),
        pytest.param("20us", 0, id="go-below-a-millisecond"),
        pytest.param("3000µs", 3, id="go-micro-sign"),
        pytest.param("3000μs", 3, id="go-greek-letter"),
        pytest.param("3000µs".encode().decode("latin-1"), 3, id="go-micro-sign-as-latin-1"),
        pytest.param("3000μs".encode().decode("latin-1"), 3, id="go-greek-letter-as-latin-1"),
        pytest.param("10ns", 0, id="go-nanoseconds"),
        pytest.param("900000ns200us", 1, id="go-terms-add-up-before-cutting-off"),
        pytest.param("1m1m", 120_000, id="go-repeated-unit"),
        pytest.param("1.5h", 5_400_000, id="go-decimal-hours"),
        pytest.param("0s", 0, id="go-zero"),
        pytest.param("Thu, 01 Jan 2026 00:00:30 GMT", 30_000, id="date"),
        pytest.param("Thu, 01 Jan 2026 00:01:00 UTC", 60_000, id="date-utc"),
        pytest.param("Thu, 01 Jan 2026 00:00:00 GMT", 0, id="date-now"),
        pytest.param("Sun, 06 Nov 1994 08:49:37 GMT", 0, id="date-past-is-at-once"),
        pytest.param("Fri, 02 Jan 2026 00:00:00 GMT", 86_400_000, id="date-a-day-ahead"),
        pytest.param("Wed, 31 Dec 2025 23:59:60 GMT", 0, id="date-leap-second"),
    ],
)
def test_hint_value_is_seconds_or_date_or_go_duration(value: str, expected_ms: int) -> None:
    """Decision D-014."""
    hint = retries.response_hint([("Retry-After", value)], NOW_MS)
    assert hint is not None
    assert decided(hint) == (expected_ms, RetryReason.RETRY_AFTER)


@pytest.mark.parametrize(
    "value",
    [
        pytest.param("", id="empty"),
        pytest.param("soon", id="word"),
        pytest.param("-5", id="negative"),
        pytest.param("+5", id="plus-sign"),
        pytest.param("1e3", id="exponent"),
        pytest.param("1,5", id="decimal-comma"),
        pytest.param(".", id="point-only"),
        pytest.param("٣", id="digits-of-other-scripts"),
        pytest.param("5d", id="go-has-no-days"),
        pytest.param("5 s", id="blank-inside"),
        pytest.param("6m5", id="go-unit-missing"),
        pytest.param("ms", id="go-number-missing"),
        pytest.param("6M", id="go-unit-in-upper-case"),
        pytest.param("2026-01-01T00:00:30Z", id="iso-date"),
        pytest.param("Thursday, 01-Jan-26 00:00:30 GMT", id="obsolete-date"),
        pytest.param("Thu, 1 Jan 2026 00:00:30 GMT", id="one-digit-day"),
        pytest.param("Thu, 01 Jan 2026 00:00:30 CET", id="other-zone"),
        pytest.param("Thu, 01 Jan 2026 00:00:30", id="no-zone"),
        pytest.param("Thu, 01 Foo 2026 00:00:30 GMT", id="no-such-month"),
        pytest.param("Thu, 29 Feb 2026 00:00:30 GMT", id="no-such-day"),
        pytest.param("Thu, 00 Jan 2026 00:00:30 GMT", id="day-zero"),
        pytest.param("Thu, 01 Jan 2026 24:00:00 GMT", id="no-such-hour"),
        pytest.param("Thu, 01 Jan 2026 00:60:00 GMT", id="no-such-minute"),
        pytest.param("Thu, 01 Jan 2026 00:00:61 GMT", id="no-such-second"),
        pytest.param("Thu, 01 Jan 0000 00:00:30 GMT", id="year-zero"),
    ],
)
def test_unreadable_hint_counts_as_absent(value: str) -> None:
    assert retries.response_hint([("Retry-After", value)], NOW_MS) is None


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        pytest.param([], None, id="none"),
        pytest.param([("Content-Type", "5"), ("X-Retry-After", "5")], None, id="other-headers"),
        pytest.param([("X-RateLimit-Reset", "3")], (3_000, RetryReason.RATE_LIMIT_RESET), id="reset"),
        pytest.param(
            [("X-RateLimit-Reset-Requests", "4s")], (4_000, RetryReason.RATE_LIMIT_RESET_REQUESTS), id="reset-requests"
        ),
        pytest.param(
            [("X-RateLimit-Reset-Tokens", "6m0s")], (360_000, RetryReason.RATE_LIMIT_RESET_TOKENS), id="reset-tokens"
        ),
        pytest.param([("rEtRy-aFtEr", "2")], (2_000, RetryReason.RETRY_AFTER), id="any-case"),
        pytest.param(
            [
                ("X-RateLimit-Reset-Tokens", "1"),
                ("X-RateLimit-Reset-Requests", "2"),
                ("X-RateLimit-Reset", "3"),
                ("Retry-After", "4"),
            ],
            (4_000, RetryReason.RETRY_AFTER),
            id="order-of-names-not-of-lines",
        ),
        pytest.param(
            [("X-RateLimit-Reset-Tokens", "1"), ("X-RateLimit-Reset-Requests", "2")],
            (2_000, RetryReason.RATE_LIMIT_RESET_REQUESTS),
            id="requests-before-tokens",
        ),
        pytest.param(
            [("Retry-After", "soon"), ("X-RateLimit-Reset", "3")],
            (3_000, RetryReason.RATE_LIMIT_RESET),
            id="next-name-after-unreadable",
        ),
        pytest.param(
            [("Retry-After", "8"), ("Retry-After", "9")], (8_000, RetryReason.RETRY_AFTER), id="first-of-repeated"
        ),
        pytest.param(
            [("Retry-After", "soon"), ("Retry-After", "9")],
            (9_000, RetryReason.RETRY_AFTER),
            id="first-readable-of-repeated",
        ),
    ],
)
def test_first_readable_hint_in_the_documented_order_counts(
    headers: list[tuple[str, str]], expected: Decided | None
) -> None:
    """Decision D-014."""
    hint = retries.response_hint(headers, NOW_MS)
    assert (None if hint is None else decided(hint)) == expected


@pytest.mark.parametrize(
    "value",
    [
        pytest.param("86400.001", id="seconds"),
        pytest.param("1767225600", id="unix-timestamp"),
        pytest.param("9" * 5000, id="seconds-with-5000-digits"),
        pytest.param("24h1ms", id="go-duration"),
        pytest.param("9" * 5000 + "ns", id="go-duration-with-5000-digits"),
        pytest.param("Fri, 02 Jan 2026 00:00:01 GMT", id="date"),
    ],
)
def test_hint_beyond_a_day_falls_to_the_default_backoff_past_the_expression(value: str) -> None:
    """Decision D-014."""
    delay = retries.delay_before_retry(
        expression="7000",
        retried=1,
        response_headers=[("Retry-After", value), ("X-RateLimit-Reset", "5")],
        now_ms=NOW_MS,
    )
    assert decided(delay) == (148_000, RetryReason.DEFAULT)


@pytest.mark.parametrize(
    ("expression", "headers", "expected"),
    [
        pytest.param(None, [], (12_000, RetryReason.DEFAULT), id="nothing-given"),
        pytest.param("7000", [], (7_000, RetryReason.EXPRESSION), id="expression"),
        pytest.param(None, [("Retry-After", "3")], (3_000, RetryReason.RETRY_AFTER), id="hint"),
        pytest.param("7000", [("Retry-After", "3")], (3_000, RetryReason.RETRY_AFTER), id="hint-and-expression"),
        pytest.param("7000", [("Retry-After", "0")], (0, RetryReason.RETRY_AFTER), id="zero-hint-and-expression"),
        pytest.param("7000", [("Retry-After", "86400")], (86_400_000, RetryReason.RETRY_AFTER), id="hint-of-a-day"),
        pytest.param(
            "7000", [("Retry-After", "soon")], (7_000, RetryReason.EXPRESSION), id="unreadable-hint-and-expression"
        ),
        pytest.param(None, [("Retry-After", "soon")], (12_000, RetryReason.DEFAULT), id="unreadable-hint-alone"),
    ],
)
def test_hint_wins_over_expression_and_expression_over_default(
    expression: str | None, headers: list[tuple[str, str]], expected: Decided
) -> None:
    """Decision D-014."""
    delay = retries.delay_before_retry(expression=expression, retried=0, response_headers=headers, now_ms=NOW_MS)
    assert decided(delay) == expected


@pytest.mark.parametrize(
    ("expression", "retried", "expected"),
    [
        pytest.param("7000 * retried", 0, (0, RetryReason.EXPRESSION), id="zero-is-at-once"),
        pytest.param("7000 * retried", 2, (14_000, RetryReason.EXPRESSION), id="grows"),
        pytest.param("1999.99", 0, (1_999, RetryReason.EXPRESSION), id="fraction-is-cut-off"),
        pytest.param("86400001", 0, (86_400_000, RetryReason.EXPRESSION), id="capped-at-a-day"),
        pytest.param("1e300", 0, (86_400_000, RetryReason.EXPRESSION), id="huge-is-capped"),
        pytest.param("0 - 1", 1, (148_000, RetryReason.DEFAULT), id="negative"),
        pytest.param("-0.5", 1, (148_000, RetryReason.DEFAULT), id="slightly-negative"),
        pytest.param("1000 / retried", 0, (12_000, RetryReason.DEFAULT), id="infinite"),
        pytest.param("retried / retried", 0, (12_000, RetryReason.DEFAULT), id="undefined"),
        pytest.param("1000 / retried", 2, (500, RetryReason.EXPRESSION), id="finite-again"),
    ],
)
def test_expression_is_capped_at_a_day_and_useless_values_fall_to_the_default(
    expression: str, retried: int, expected: Decided
) -> None:
    """Decision D-015."""
    delay = retries.delay_before_retry(expression=expression, retried=retried, response_headers=[], now_ms=NOW_MS)
    assert decided(delay) == expected


def test_expression_that_publish_would_refuse_is_malformed_here_too() -> None:
    with pytest.raises(Malformed):
        retries.delay_before_retry(expression="retried +", retried=0, response_headers=[], now_ms=NOW_MS)


_HINT_NAMES = st.sampled_from(
    ["Retry-After", "X-RateLimit-Reset", "x-ratelimit-reset-requests", "X-RATELIMIT-RESET-TOKENS", "Date"]
)
_TERMS = st.sampled_from(["0", "5", "99999999", ".", ".5", "ns", "us", "ms", "s", "m", "h", "-", " "])
_DATES = st.tuples(st.integers(0, 33), st.integers(0, 2100), st.integers(0, 25), st.integers(0, 61)).map(
    lambda numbers: "Thu, {0:02} Feb {1:04} {2:02}:{3:02}:{3:02} GMT".format(*numbers)
)
_HINT_VALUES = st.text(max_size=20) | st.lists(_TERMS, max_size=6).map("".join) | _DATES


@pytest.mark.slow
@given(
    headers=st.lists(st.tuples(_HINT_NAMES, _HINT_VALUES), max_size=4),
    expression=st.sampled_from([None, "7000 * retried", "1 / retried", "-1"]),
    retried=st.integers(0, 100),
)
def test_any_response_gives_a_wait_of_at_most_a_day(
    headers: list[tuple[str, str]], expression: str | None, retried: int
) -> None:
    delay = retries.delay_before_retry(expression=expression, retried=retried, response_headers=headers, now_ms=NOW_MS)
    assert 0 <= delay.delay_ms <= 86_400_000
