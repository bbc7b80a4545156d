"""The reader of queries: the parameters of a request, each by its name.

An empty parameter counts as absent, as everywhere (D-072). A refusal names the parameter at fault.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TypeVar

from emulator.core.errors import InvalidInput, Malformed
from emulator.core.language.text import excerpt
from emulator.wire.json_reader import read_choice, read_clock_instant
from emulator.wire.names import parse_name, parse_number, read_field
from emulator.wire.times import number_or_text
from emulator.wire.urls import MAX_URL_LENGTH

T = TypeVar("T")
Pairs = Iterable[tuple[str, str]]

MAX_INSTANT_MS = 2**53 - 1

# A comma may be part of a URL; it separates only where another one begins.
_BEFORE_URL = re.compile(r",(?=https?://)", re.IGNORECASE)
_SEPARATORS = {"url": _BEFORE_URL, "workflowUrl": _BEFORE_URL, "path": re.compile(r",(?=/)")}
_COMMA = re.compile(",")
# What these name follows a grammar, and what breaks it names nothing (D-310).
_NAMES = frozenset(("scheduleId", "queueName", "topicName"))


class Query:
    """The values of a request's parameters, repeated or separated by commas.

    With `known`, any other name is refused: a misspelt filter must not choose everything. `is_other` tells
    parameters that are not of the operation, as the token; they are left out.
    """

    def __init__(
        self,
        pairs: Pairs,
        *,
        is_other: Callable[[str], bool] = lambda name: False,
        known: Collection[str] | None = None,
        unknown: str | None = None,
    ) -> None:
        self._values: dict[str, list[str]] = {}
        for name, value in pairs:
            if is_other(name):
                continue
            if known is not None and name not in known:
                raise InvalidInput(name, unknown or f"unknown filter, expected {', '.join(sorted(known))}")
            self._values.setdefault(name, []).append(value)

    def add(self, values: Iterable[tuple[str, tuple[str, ...]]]) -> None:
        """Take in values that did not stand in the query, but in a body under the same names."""
        for name, more in values:
            if more:
                self._values.setdefault(name, []).extend(more)

    def all(self, *spellings: str) -> tuple[str, ...]:
        """All values of a parameter, each once. Raises: InvalidInput for one without a value (D-078)."""
        found: dict[str, None] = {}
        for name in spellings:
            for text in self._values.get(name, ()):
                items = [item.strip() for item in _SEPARATORS.get(name, _COMMA).split(text)]
                if not any(items):
                    raise InvalidInput(name, "expected a value")
                if name in _NAMES:
                    items = [read_field(name, item, parse_name) for item in items if item]
                found.update(dict.fromkeys(item for item in items if item))
        return tuple(found)

    def lists(self, fields: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
        """The values of several fields, each under all spellings of its parameter."""
        return {field: self.all(*spellings) for field, spellings in fields.items()}

    def each(self, name: str, parse: Callable[[str], T]) -> tuple[T, ...]:
        """All values of a parameter, parsed."""
        return tuple(read_field(name, value, parse) for value in self.all(name))

    def one(self, name: str, parse: Callable[[str], T], *, strip: bool = True) -> T | None:
        """The value of a parameter that has only one, None without one. Raises: InvalidInput."""
        given = self._values.get(name, ())
        values = [each for each in (value.strip() if strip else value for value in given) if each]
        if not values:
            return None
        if len(values) > 1:
            raise InvalidInput(name, "expected this parameter only once")
        return read_field(name, values[0], parse)

    def text(self, name: str) -> str | None:
        """The value of a parameter as it was given, None without one. Raises: InvalidInput."""
        return self.one(name, str, strip=False)

    def url(self, name: str) -> str | None:
        """A URL, or a glob of URLs, as it was given; no URL of a message is longer (D-813). Raises: InvalidInput."""
        return self.one(name, _parse_url_filter, strip=False)

    def integer(self, name: str, least: int, most: int, default: int) -> int:
        """The number that a parameter gives, `default` without it. Raises: InvalidInput."""
        digits = max(6, len(str(most)))
        given = self.one(name, lambda text: parse_number(text, "an integer", least, most, digits=digits), strip=False)
        return default if given is None else given

    def limit(self, most: int, default: int) -> int:
        """How many entries a list may have. Raises: InvalidInput."""
        given = self.text("limit")
        if given is not None and not (re.fullmatch(r"[0-9]{1,6}", given) and 1 <= int(given) <= most):
            raise InvalidInput("limit", f"expected an integer from 1 to {most}")
        return default if given is None else int(given)

    def flag(self, name: str, *, default: bool = False) -> bool:
        """`true` or `false`, in any case. Raises: InvalidInput."""
        given = self.text(name)
        return default if given is None else read_choice(given.lower(), name, ("true", "false")) == "true"

    def instant_ms(self, name: str) -> int | None:
        """An instant that a virtual clock can show, as ISO 8601 or in milliseconds. Raises: InvalidInput."""
        given = self.text(name)
        return None if given is None else read_clock_instant(number_or_text(given), name)

    def one_of(self, name: str, words: Sequence[str]) -> str | None:
        """One of a few words as they are written, None without one. Raises: InvalidInput."""
        given = self.text(name)
        return None if given is None else read_choice(given, name, words)

    def dates(self) -> dict[str, int | None]:
        """From when to when: `fromDate` and `toDate`, both included."""
        return {"from_ms": self.one("fromDate", parse_instant_ms), "to_ms": self.one("toDate", parse_instant_ms)}

    def count(self, *, maximum: int) -> int | None:
        """How many at most, None if that was not said."""
        return self.one("count", lambda text: parse_number(text, "a number", 1, maximum, digits=16))

    def is_latest_first(self, *, default: bool) -> bool:
        """Whether the latest come first, by `order`."""
        order = self.one("order", _parse_order)
        return default if order is None else order


# An instant and a number, as in 1686652644442-12.
_CURSOR = re.compile(r"[0-9]{1,16}-[0-9]{1,16}")
_BULK_CURSOR = re.compile(r"[0-9]{1,16}(-[0-9]{1,16}){3}")
_ORDERS = {"latestfirst": True, "earliestfirst": False}


def _parse_order(text: str) -> bool:
    latest_first = _ORDERS.get(text.lower())
    if latest_first is None:
        raise Malformed(f"expected earliestFirst or latestFirst, got {excerpt(text)}")
    return latest_first


def _parse_url_filter(text: str) -> str:
    # Of a pattern that is much longer, SQLite says that it is too complex.
    if len(text) > MAX_URL_LENGTH:
        raise Malformed(f"expected at most {MAX_URL_LENGTH} characters, got {len(text)}")
    return text


def parse_instant_ms(text: str) -> int:
    """Milliseconds since the Unix epoch. Raises: Malformed."""
    return parse_number(text, "Unix milliseconds", 0, MAX_INSTANT_MS, digits=16)


def parse_cursor(text: str) -> str:
    """The cursor of an earlier answer. Raises: Malformed."""
    if not _CURSOR.fullmatch(text):
        raise Malformed(f"expected the cursor of an earlier answer, got {excerpt(text)}")
    return text


def parse_bulk_cursor(text: str) -> str:
    """The cursor of a bulk operation, whose parts history knows (D-781). Raises: Malformed."""
    if not _BULK_CURSOR.fullmatch(text):
        raise Malformed(f"expected the cursor of the page before, got {excerpt(text)}")
    return text


def parse_log_cursor(text: str) -> str:
    """The cursor of a log: that of an earlier answer, or a number of milliseconds (D-526). Raises: Malformed."""
    return text if text.isascii() and text.isdigit() and len(text) <= 16 else parse_cursor(text)


def choice(table: Mapping[str, T]) -> Callable[[str], T]:
    """What parses one of a few words, written in any case; the table has them in capitals."""

    def parse(text: str) -> T:
        word = text.upper()
        if word not in table:
            raise Malformed(f"expected one of {', '.join(table)}, got {excerpt(text)}")
        return table[word]

    return parse


def word(expected: str) -> Callable[[str], str]:
    """What parses a parameter that can have one value only."""

    def parse(text: str) -> str:
        if text != expected:
            raise Malformed(f"expected {expected}, got {excerpt(text)}")
        return text

    return parse


def control_query(pairs: Pairs, *known: str) -> Query:
    """The parameters of an operation of the control API, but for `world`, which all have. Raises: InvalidInput."""
    unknown = f"unknown, expected one of {', '.join(known)}"
    return Query(pairs, is_other=lambda name: name == "world", known=known, unknown=unknown)
