"""Tables of mistakes as text: an expression, and the exception that it raises with the beginning of its text."""

from __future__ import annotations

import re

import pytest


def mistakes(text: str, *kinds: type[Exception]) -> pytest.MarkDecorator:
    """Parameters `call`, `kind`, `text` of a test, of rows `EXPRESSION -> KIND: TEXT`; an indented line continues one.

    The expression is compiled, for `eval` with the names that the test gives. `kinds` are exceptions beside the
    built-in ones.
    """
    all_kinds: tuple[type[Exception], ...] = (TypeError, ValueError, *kinds)
    known = {kind.__name__: kind for kind in all_kinds}
    rows = []
    for row in re.split(r"\n(?=\S)", text.strip("\n")):
        expression, said = re.split(r"\s+-> ", " ".join(map(str.strip, row.split("\n"))), maxsplit=1)
        kind, _, start = said.partition(": ")
        call = compile(expression, "<mistake>", "eval")
        rows.append(pytest.param(call, known[kind], start, id=expression))
    return pytest.mark.parametrize(("call", "kind", "text"), rows)
