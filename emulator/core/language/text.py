"""Texts: header names as the service writes them, a client's text inside an error sentence, names spelt alike."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from emulator.core.record import Headers

_TOKEN = frozenset("!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")


@lru_cache(maxsize=4096)
def canonical_name(name: str) -> str:
    """`content-TYPE` -> `Content-Type`. A name that is not a header token comes back unchanged (D-040)."""
    if not name or not _TOKEN.issuperset(name):
        return name
    return "-".join(part[:1].upper() + part[1:].lower() for part in name.split("-"))


def by_canonical_name(headers: Headers) -> dict[str, list[str]]:
    """All values of each name, in order, under its canonical spelling."""
    grouped: dict[str, list[str]] = {}
    for name, value in headers:
        grouped.setdefault(canonical_name(name), []).append(value)
    return grouped


def value_of(headers: Headers, name: str) -> str | None:
    """The first value of a header, its name compared without regard to case."""
    wanted = name.lower()
    for candidate, value in headers:
        if candidate.lower() == wanted:
            return value
    return None


def without(headers: Headers, names: frozenset[str]) -> Headers:
    """The headers whose lower-case name is not among `names`."""
    return tuple(pair for pair in headers if pair[0].lower() not in names)


# A character in UTF-8 has at most so many bytes behind its first.
_MORE_BYTES = 3


def beginning(body: bytes, most_bytes: int) -> bytes:
    """At most so many of the first bytes of a body, without a part of a character at their end."""
    if len(body) <= most_bytes:
        return body
    end = most_bytes
    while end and most_bytes - end < _MORE_BYTES and body[end] & 0b1100_0000 == 0b1000_0000:
        end -= 1
    # What is no text is cut anywhere.
    return body[: most_bytes if body[end] & 0b1100_0000 == 0b1000_0000 else end]


# -- excerpts -----------------------------------------------------------------------------------
# Showing a client's own text back to it inside an error sentence.

MAX_SHOWN = 40


def excerpt(text: str) -> str:
    """The text as an error sentence quotes it: at most 40 characters of it, control characters escaped."""
    if len(text) <= MAX_SHOWN:
        return repr(text)
    return repr(text[:MAX_SHOWN]) + "..."


# -- spelling -----------------------------------------------------------------------------------
# Which of the known names is meant by one that is not known.

_NEAR = 0.6
_BETWEEN_WORDS = re.compile(r"[-_/]")


def near(name: str, known: Iterable[str], most: int = 1) -> list[str]:
    """The known names that are spelt like a name, the nearest first, in any case of their letters.

    The words that two names begin with say nothing: `Svc-Foo` is not like `Svc-Method`.
    """
    words = _BETWEEN_WORDS.split(name.lower())
    found: list[tuple[float, str]] = []
    for each in known:
        own, other = _without_shared_words(words, _BETWEEN_WORDS.split(each.lower()))
        likeness = _likeness(own, other)
        if likeness >= _NEAR:
            found.append((likeness, each))
    found.sort(key=lambda entry: -entry[0])
    return [each for _, each in found[:most]]


def is_alike(name: str, known: Iterable[str], likeness: float) -> bool:
    """Whether a name is spelt like one of the known, all of it counted: 1.0 is the same name."""
    return any(_likeness(each, name) >= likeness for each in known)


def _likeness(one: str, other: str) -> float:
    """From 0.0 to 1.0."""
    try:
        # Only here: there is a misspelt name only now and then, and every start imports this.
        from difflib import SequenceMatcher
    except OSError:
        return 0.0  # Without a file descriptor nothing can be imported, and nothing is guessed (D-565).
    return SequenceMatcher(None, one, other).ratio()


def _without_shared_words(one: list[str], other: list[str]) -> tuple[str, str]:
    """What is left of two names without the words that both begin with; a last word stays."""
    shared = 0
    while shared < min(len(one), len(other)) - 1 and one[shared] == other[shared]:
        shared += 1
    return "-".join(one[shared:]), "-".join(other[shared:])
