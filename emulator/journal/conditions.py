"""Conditions of statements, and pages of what they find.

Filters become `?` parameters of fixed conditions; no text of a user's ever enters a statement.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from emulator.core.errors import InvalidInput
from emulator.queries.history import Page

T = TypeVar("T")

# One of a row's labels, which are a JSON list, is among those given.
LABELS = "EXISTS (SELECT 1 FROM json_each({table}.labels) WHERE value IN (SELECT value FROM json_each(?)))"


@dataclass(slots=True)
class Conditions:
    """Conditions that hold together, and their parameters in order."""

    texts: list[str] = field(default_factory=list)
    parameters: list[object] = field(default_factory=list)

    def add(self, text: str, *parameters: object) -> None:
        self.texts.append(text)
        self.parameters += parameters

    def among(self, column: str, values: Sequence[object]) -> None:
        """The column has one of the values; no values, no condition."""
        if values:
            # One parameter, however many values: SQLite limits the number of parameters.
            self.add(f"{column} IN (SELECT value FROM json_each(?))", json.dumps(list(values)))

    def continue_after(self, column: str, cursor: str | None, *, latest_first: bool) -> None:
        """Continue after the last entry of the page before; the first part of a cursor is for people.

        Raises InvalidInput for a cursor that is none of ours.
        """
        if cursor is None:
            return
        at, _, seq = cursor.partition("-")
        if not (at.isascii() and at.isdigit() and seq.isascii() and seq.isdigit() and len(seq) < 19):
            raise InvalidInput("cursor", f"expected the cursor of an earlier answer, got {cursor[:40]!r}")
        self.add(f"{column} < ?" if latest_first else f"{column} > ?", int(seq))

    @property
    def text(self) -> str:
        return " AND ".join(self.texts) or "TRUE"


def page_of(found: Sequence[T], count: int, cursor_of: Callable[[T], str]) -> Page[T]:
    """The first `count` of what was found, which is one more if there is a further page."""
    has_more = len(found) > count
    items = tuple(found[:count])
    return Page(items=items, cursor=cursor_of(items[-1]) if has_more and items else None)
