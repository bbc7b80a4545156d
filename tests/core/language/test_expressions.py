"""The retry delay language: what it computes, what it refuses, and that nothing in it can hang."""

from __future__ import annotations

import math
from contextlib import suppress

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from emulator.core.errors import Malformed
from emulator.core.language import expressions


@pytest.mark.parametrize(
    ("text", "retried", "expected_ms"),
    [
        pytest.param("15000", 0, 15000.0, id="integer"),
        pytest.param("1.5", 0, 1.5, id="decimal"),
        pytest.param(".5", 0, 0.5, id="decimal-without-whole-part"),
        pytest.param("2.", 0, 2.0, id="decimal-without-fraction"),
        pytest.param("1e3", 0, 1000.0, id="exponent"),
        pytest.param("2.5E+2", 0, 250.0, id="exponent-with-plus"),
        pytest.param("5e-1", 0, 0.5, id="exponent-with-minus"),
        pytest.param("retried", 4, 4.0, id="variable"),
        pytest.param("7000 * retried", 3, 21000.0, id="example-7000-fourth"),
        pytest.param("pow(retried, 2) * 1000", 3, 9000.0, id="example-square"),
        pytest.param("1 + 2 * 3", 0, 7.0, id="product-before-sum"),
        pytest.param("(1 + 2) * 3", 0, 9.0, id="parentheses"),
        pytest.param("10 - 3 - 2", 0, 5.0, id="minus-from-the-left"),
        pytest.param("100 / 5 / 2", 0, 10.0, id="division-from-the-left"),
        pytest.param("-5 + 8", 0, 3.0, id="unary-minus"),
        pytest.param("+5", 0, 5.0, id="unary-plus"),
        pytest.param("3 * -2", 0, -6.0, id="times-a-negative"),
        pytest.param("\t1 +\t2 ", 0, 3.0, id="blanks-anywhere"),
        pytest.param("pow(2, 10)", 0, 1024.0, id="pow"),
        pytest.param("pow(0, 0)", 0, 1.0, id="pow-zero-zero"),
        pytest.param("exp(0)", 0, 1.0, id="exp"),
        pytest.param("sqrt(81)", 0, 9.0, id="sqrt"),
        pytest.param("abs(-4)", 0, 4.0, id="abs"),
        pytest.param("floor(2.9)", 0, 2.0, id="floor"),
        pytest.param("floor(-2.1)", 0, -3.0, id="floor-negative"),
        pytest.param("ceil(2.1)", 0, 3.0, id="ceil"),
        pytest.param("ceil(-2.9)", 0, -2.0, id="ceil-negative"),
        pytest.param("round(2.4)", 0, 2.0, id="round-down"),
        pytest.param("round(2.5)", 0, 3.0, id="round-half-up"),
        pytest.param("round(-2.5)", 0, -3.0, id="round-half-away-from-zero"),
        pytest.param("round(0.49999999999999994)", 0, 0.0, id="round-just-below-half"),
        pytest.param("min(3, retried)", 5, 3.0, id="min"),
        pytest.param("max(3, retried)", 5, 5.0, id="max"),
        pytest.param("min(60000, pow(2, retried) * 1000)", 2000, 60000.0, id="infinity-inside-min"),
    ],
)
def test_expression_has_the_value_of_its_arithmetic(text: str, retried: int, expected_ms: float) -> None:
    assert expressions.parse(text).evaluate(retried) == expected_ms


@pytest.mark.parametrize(
    ("text", "retried", "expected_ms"),
    [
        pytest.param("1000 / retried", 0, math.inf, id="positive-by-zero"),
        pytest.param("-1000 / retried", 0, -math.inf, id="negative-by-zero"),
        pytest.param("1000 / (retried * -1)", 0, -math.inf, id="positive-by-negative-zero"),
        pytest.param("exp(retried)", 1000, math.inf, id="exp-overflow"),
        pytest.param("exp(-retried)", 1000, 0.0, id="exp-underflow"),
        pytest.param("pow(9, retried)", 100_000, math.inf, id="pow-overflow"),
        pytest.param("pow(-9, retried)", 100_001, -math.inf, id="pow-overflow-negative"),
        pytest.param("pow(-9, retried)", 100_000, math.inf, id="pow-overflow-negative-even"),
        pytest.param("pow(retried, -1)", 0, math.inf, id="pow-zero-negative"),
        pytest.param("ceil(1 / retried)", 0, math.inf, id="ceil-of-infinity"),
        pytest.param("round(1 / retried)", 0, math.inf, id="round-of-infinity"),
        pytest.param("retried * 1e308", 10**400, math.inf, id="count-beyond-every-double"),
    ],
)
def test_evaluating_beyond_the_finite_gives_an_infinity(text: str, retried: int, expected_ms: float) -> None:
    assert expressions.parse(text).evaluate(retried) == expected_ms


@pytest.mark.parametrize(
    ("text", "retried"),
    [
        pytest.param("retried / retried", 0, id="zero-by-zero"),
        pytest.param("sqrt(5 - retried)", 6, id="sqrt-of-negative"),
        pytest.param("pow(5 - retried, 0.5)", 6, id="root-of-negative"),
        pytest.param("min(1, retried / retried)", 0, id="min-hands-it-on"),
        pytest.param("max(retried / retried, 1)", 0, id="max-hands-it-on"),
        pytest.param("floor(retried / retried)", 0, id="floor-hands-it-on"),
        pytest.param("(retried / retried) / (retried * 2)", 0, id="not-a-number-by-zero"),
    ],
)
def test_evaluating_the_undefined_gives_not_a_number(text: str, retried: int) -> None:
    assert math.isnan(expressions.parse(text).evaluate(retried))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        pytest.param("", "expected a number", id="empty"),
        pytest.param("1 +", "got the end", id="dangling-operator"),
        pytest.param("1 2", "expected an operator or the end at position 2, got '2'", id="two-numbers"),
        pytest.param("2retried", "expected an operator", id="no-implicit-product"),
        pytest.param("1e", "expected an operator", id="unfinished-exponent"),
        pytest.param("1.2.3", "expected an operator", id="two-points"),
        pytest.param("(1", r"expected '\)'", id="unclosed"),
        pytest.param("1)", "expected an operator or the end", id="unopened"),
        pytest.param("()", "expected a number", id="empty-parentheses"),
        pytest.param("(1, 2)", r"expected '\)'", id="comma-outside-call"),
        pytest.param("2 ** 3", "expected a number", id="no-power-operator"),
        pytest.param("9^9", r"unexpected '\^' at position 1", id="no-caret"),
        pytest.param("1\n+ 2", r"unexpected '\\n' at position 1", id="newline"),
        pytest.param("٣", "unexpected", id="digits-of-other-scripts"),
        pytest.param("count", "expected 'retried' or one of the functions pow", id="unknown-variable"),
        pytest.param("Retried", "expected 'retried'", id="names-are-case-sensitive"),
        pytest.param("pow", r"expected '\('", id="function-without-call"),
        pytest.param("retried(1)", "expected an operator", id="calling-the-variable"),
        pytest.param("pow(1)", "expected ','", id="pow-needs-two"),
        pytest.param("pow(1, 2, 3)", r"expected '\)'", id="pow-takes-two"),
        pytest.param("sqrt(1, 2)", r"expected '\)'", id="sqrt-takes-one"),
        pytest.param("sqrt()", "expected a number", id="sqrt-needs-one"),
        pytest.param("1 / 0", "division by zero in '1 / 0'", id="literal-zero"),
        pytest.param("retried / -(2 - 2)", "division by zero", id="constant-zero"),
        pytest.param("1e999", "'1e999' is not a finite number", id="number-beyond-every-double"),
        pytest.param("pow(pow(9, 9), 99999)", "is not a finite number", id="constant-infinity"),
        pytest.param("exp(1000 + retried)", "is not a finite number", id="never-finite"),
    ],
)
def test_expression_outside_the_language_is_refused(text: str, reason: str) -> None:
    with pytest.raises(Malformed, match=reason):
        expressions.parse(text)


def test_expression_that_is_finite_for_some_retry_is_accepted() -> None:
    """Infinite before the first retry only: that one falls to the default backoff (D-015)."""
    assert expressions.parse("1000 / retried").evaluate(2) == 500.0


@pytest.mark.parametrize(
    ("text", "is_accepted"),
    [
        pytest.param("(" * 50 + "1" + ")" * 50, True, id="50-parentheses"),
        pytest.param("(" * 51 + "1" + ")" * 51, False, id="51-parentheses"),
        pytest.param("abs(" * 50 + "1" + ")" * 50, True, id="50-calls"),
        pytest.param("abs(" * 51 + "1" + ")" * 51, False, id="51-calls"),
        pytest.param("+".join(["(1)"] * 250), True, id="siblings-do-not-nest"),
        pytest.param("1" + " " * 999, True, id="1000-characters"),
        pytest.param("1" + " " * 1000, False, id="1001-characters"),
        pytest.param("-" * 998 + "1", True, id="signs-do-not-nest"),
        pytest.param("1" + "+1" * 499, True, id="500-terms"),
        pytest.param("(" * 100_000, False, id="100-kB-of-parentheses"),
    ],
)
def test_length_and_nesting_are_limited(text: str, is_accepted: bool) -> None:
    if is_accepted:
        assert expressions.parse(text).evaluate(0) >= 1.0
    else:
        with pytest.raises(Malformed):
            expressions.parse(text)


def test_error_shows_no_more_than_the_start_of_a_long_expression() -> None:
    with pytest.raises(Malformed) as refusal:
        expressions.parse("retried " * 100)
    assert len(refusal.value.reason) < 200


def test_equal_texts_give_equal_expressions() -> None:
    assert expressions.parse("retried + 1") == expressions.parse("retried + 1")
    assert expressions.parse("retried + 1") != expressions.parse("1 + retried")


_FRAGMENTS = st.sampled_from(
    [
        "retried",
        "pow(",
        "exp(",
        "sqrt(",
        "round(",
        "min(",
        "(",
        ")",
        ",",
        "+",
        "-",
        "*",
        "/",
        "0",
        "9",
        "1e308",
        ".5",
        " ",
    ]
)


@given(text=st.text(max_size=20) | st.lists(_FRAGMENTS, max_size=20).map("".join), retried=st.integers())
@example(text="pow(pow(pow(9,9),pow(9,9)),-retried)", retried=-1)
@example(text="((((((((((retried", retried=0)
def test_any_text_is_an_expression_or_malformed(text: str, retried: int) -> None:
    with suppress(Malformed):
        assert isinstance(expressions.parse(text).evaluate(retried), float)


@st.composite
def _sums(draw: st.DrawFn, depth: int = 2) -> str:
    kind = draw(st.integers(0, 5)) if depth else 0
    if kind == 0:
        return draw(st.sampled_from(["retried", "0", "1", "2.5", "1e200", "700"]))
    left = draw(_sums(depth - 1))
    if kind == 1:
        return f"-({left})"
    if kind == 2:
        return f"{draw(st.sampled_from(['exp', 'sqrt', 'abs', 'floor', 'ceil', 'round']))}({left})"
    right = draw(_sums(depth - 1))
    if kind == 3:
        return f"{draw(st.sampled_from(['pow', 'min', 'max']))}({left}, {right})"
    return f"({left}) {draw(st.sampled_from('+-*/'))} ({right})"


def _parsed(text: str) -> expressions.Expression | str:
    """The expression, or the reason why there is none."""
    try:
        return expressions.parse(text)
    except Malformed as refusal:
        return refusal.reason


@pytest.mark.slow
@given(text=_sums(), retried=st.integers(-5, 10_000))
def test_well_formed_text_always_evaluates(text: str, retried: int) -> None:
    match _parsed(text):
        case str(reason):
            assert "division by zero" in reason or "not a finite number" in reason
        case expression:
            assert isinstance(expression.evaluate(retried), float)
