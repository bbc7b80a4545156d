"""The language of Svc-Retry-Delay: arithmetic over `retried` that gives a delay in milliseconds.

    sum     = product { ("+" | "-") product }
    product = signed { ("*" | "/") signed }
    signed  = { "+" | "-" } atom
    atom    = number | "retried" | "(" sum ")" | function "(" sum { "," sum } ")"

`parse` turns a text into a program for a small stack machine, so that evaluating takes no
recursion and a few function calls. Everything is IEEE 754 double arithmetic: what has no finite
result becomes infinite or not-a-number instead of raising, whatever the client wrote.

Source: interface document, Svc-Retry-Delay. The document names the functions and the variable;
operators, number forms and the limits below are not shown, and chosen (D-015).
"""

from __future__ import annotations

import functools
import math
import operator
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import NoReturn

from emulator.core.errors import Malformed
from emulator.core.language.text import excerpt
from emulator.core.record import Record

MAX_LENGTH = 1000
MAX_NESTING = 50

# An expression without any finite value is refused at publish; this many retries are tried to find out.
# 20 is the largest number of retries any plan allows.
PROBED_RETRIES = 20

_Step = Callable[[list[float], float], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Expression:
    """A checked retry delay expression; two of them are equal when their texts are."""

    text: str
    program: tuple[_Step, ...] = field(compare=False, repr=False)

    def evaluate(self, retried: int) -> float:
        """The delay after a failed attempt; `retried` counts the retries made before it, 0 at first.

        Units: milliseconds. The result may be negative, infinite or not a number. Raises: nothing.
        """
        try:
            variable = float(retried)
        except OverflowError:
            variable = math.inf
        return _run(self.program, variable)


def parse(text: str) -> Expression:
    """Check and compile an expression.

    Raises: Malformed, for a syntax error, a text over 1000 characters or 50 nested parentheses, a
    division by a constant zero, and an expression without a finite value for any of 0..20 retries.
    """
    if len(text) > MAX_LENGTH:
        raise Malformed(f"expected an expression of at most {MAX_LENGTH} characters, got {len(text)}")
    return _parse_cached(text)


@functools.lru_cache(maxsize=1024)
def _parse_cached(text: str) -> Expression:
    expression = Expression(text=text, program=_Parser(text).compiled())
    if not any(math.isfinite(expression.evaluate(retried)) for retried in range(PROBED_RETRIES + 1)):
        raise Malformed(f"{excerpt(text)} is not a finite number")
    return expression


# --- arithmetic that never raises -------------------------------------------------------------


def _quotient(x: float, y: float) -> float:
    if y != 0.0:
        return x / y
    if x == 0.0 or math.isnan(x):
        return math.nan
    return math.copysign(math.inf, x) * math.copysign(1.0, y)


def _power(x: float, y: float) -> float:
    try:
        return math.pow(x, y)
    except OverflowError:
        is_odd = math.fmod(y, 2.0) in (1.0, -1.0)
        return -math.inf if x < 0.0 and is_odd else math.inf
    except ValueError:
        # Either zero to a negative power, which grows without bound, or a root of a negative number.
        return math.inf if x == 0.0 else math.nan


def _exponential(x: float) -> float:
    try:
        return math.exp(x)
    except OverflowError:
        return math.inf


def _rounded(x: float) -> float:
    """Halves go away from zero, as in C and Go, and not to the even neighbour as in Python."""
    if not math.isfinite(x):
        return x
    whole = float(math.trunc(x))
    return whole + math.copysign(1.0, x) if abs(x - whole) >= 0.5 else whole


# --- the stack machine ------------------------------------------------------------------------


def _run(program: Iterable[_Step], retried: float) -> float:
    stack: list[float] = []
    for step in program:
        step(stack, retried)
    return stack[-1]


def _push_retried(stack: list[float], retried: float) -> None:
    stack.append(retried)


def _push_constant(value: float) -> _Step:
    def push(stack: list[float], retried: float) -> None:
        stack.append(value)

    return push


def _unary(function: Callable[[float], float]) -> _Step:
    def apply(stack: list[float], retried: float) -> None:
        stack[-1] = function(stack[-1])

    return apply


def _binary(function: Callable[[float, float], float]) -> _Step:
    def apply(stack: list[float], retried: float) -> None:
        right = stack.pop()
        stack[-1] = function(stack[-1], right)

    return apply


_NEGATE = _unary(operator.neg)
_OPERATORS = {
    "+": _binary(operator.add),
    "-": _binary(operator.sub),
    "*": _binary(operator.mul),
    "/": _binary(_quotient),
}
_FUNCTIONS = {
    "pow": _binary(_power),
    "exp": _unary(_exponential),
    "sqrt": _unary(lambda x: math.sqrt(x) if x >= 0.0 else math.nan),
    "abs": _unary(abs),
    "floor": _unary(lambda x: float(math.floor(x)) if math.isfinite(x) else x),
    "ceil": _unary(lambda x: float(math.ceil(x)) if math.isfinite(x) else x),
    "round": _unary(_rounded),
    "min": _binary(lambda x, y: math.nan if math.isnan(x) or math.isnan(y) else min(x, y)),
    "max": _binary(lambda x, y: math.nan if math.isnan(x) or math.isnan(y) else max(x, y)),
}
_OF_TWO_VALUES = ("pow", "min", "max")


# --- the parser -------------------------------------------------------------------------------

_TOKEN = re.compile(
    r"[ \t]*(?:(?P<number>(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)"
    r"|(?P<name>[A-Za-z_][A-Za-z_0-9]*)"
    r"|(?P<symbol>[-+*/(),])"
    r"|(?P<end>\Z))"
)


class _Token(Record):
    kind: str
    text: str
    position: int


def _tokens(text: str) -> list[_Token]:
    """The tokens of a text, the last of them of kind `end`."""
    found: list[_Token] = []
    position = 0
    while True:
        match = _TOKEN.match(text, position)
        if match is None:
            rest = text[position:].lstrip(" \t")
            raise Malformed(f"unexpected {excerpt(rest[:1])} at position {len(text) - len(rest)} in {excerpt(text)}")
        kind = match.lastgroup or "end"
        found.append(_Token(kind=kind, text=match[kind], position=match.start(kind)))
        if kind == "end":
            return found
        position = match.end()


class _Parser:
    """Recursive descent over one text; the nesting limit bounds the recursion."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = _tokens(text)
        self._next = 0
        self._nesting = 0
        self._program: list[_Step] = []

    def compiled(self) -> tuple[_Step, ...]:
        """The program of the whole text."""
        self._sum()
        if self._peek().kind != "end":
            self._refuse("an operator or the end")
        return tuple(self._program)

    def _peek(self) -> _Token:
        return self._tokens[self._next]

    def _take_any(self, symbols: str) -> str:
        """The next token if it is one of these symbols, else the empty string."""
        token = self._peek()
        if token.kind != "symbol" or token.text not in symbols:
            return ""
        self._next += 1
        return token.text

    def _expect(self, symbol: str) -> None:
        if not self._take_any(symbol):
            self._refuse(f"'{symbol}'")

    def _refuse(self, expected: str) -> NoReturn:
        token = self._peek()
        got = "the end" if token.kind == "end" else excerpt(token.text)
        raise Malformed(f"expected {expected} at position {token.position}, got {got} in {excerpt(self._text)}")

    def _sum(self) -> None:
        self._product()
        while symbol := self._take_any("+-"):
            self._product()
            self._program.append(_OPERATORS[symbol])

    def _product(self) -> None:
        self._signed()
        while symbol := self._take_any("*/"):
            start = len(self._program)
            self._signed()
            divisor = self._program[start:]
            if symbol == "/" and _push_retried not in divisor and _run(divisor, 0.0) == 0.0:
                raise Malformed(f"division by zero in {excerpt(self._text)}")
            self._program.append(_OPERATORS[symbol])

    def _signed(self) -> None:
        is_negative = False
        while sign := self._take_any("+-"):
            is_negative ^= sign == "-"
        self._atom()
        if is_negative:
            self._program.append(_NEGATE)

    def _atom(self) -> None:
        token = self._peek()
        if token.kind == "number":
            self._next += 1
            value = float(token.text)
            if not math.isfinite(value):
                raise Malformed(f"{excerpt(token.text)} is not a finite number")
            self._program.append(_push_constant(value))
        elif token.kind == "name":
            self._name(token.text)
        elif self._take_any("("):
            self._nested(1)
        else:
            self._refuse("a number, 'retried', a function or '('")

    def _name(self, name: str) -> None:
        if name == "retried":
            self._next += 1
            self._program.append(_push_retried)
            return
        if name not in _FUNCTIONS:
            self._refuse(f"'retried' or one of the functions {', '.join(_FUNCTIONS)}")
        self._next += 1
        self._expect("(")
        self._nested(2 if name in _OF_TWO_VALUES else 1)
        self._program.append(_FUNCTIONS[name])

    def _nested(self, count: int) -> None:
        """So many comma-separated sums and the closing parenthesis; the opening one is already taken."""
        self._nesting += 1
        if self._nesting > MAX_NESTING:
            raise Malformed(f"expected at most {MAX_NESTING} nested parentheses in {excerpt(self._text)}")
        self._sum()
        for _ in range(count - 1):
            self._expect(",")
            self._sum()
        self._expect(")")
        self._nesting -= 1
