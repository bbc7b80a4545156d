"""Which of the known names is meant by one that is not known."""

from __future__ import annotations

import re
from collections.abc import Iterable

_NEAR = 0.6
_BETWEEN_WORDS = re.compile(r"[-_/]")


def near(name: str, known: Iterable[str], most: int = 1) -> list[str]:
    """The known names that are spelt like a name, the nearest first, in any case of their letters.

    The words that two names begin with say nothing: `Svc-Foo` is not like `Svc-Method`.
    """
    import difflib  # Only here: there is a misspelt name only now and then, and every start imports this.

    words = _BETWEEN_WORDS.split(name.lower())
    found: list[tuple[float, str]] = []
    for each in known:
        own, other = _without_shared_words(words, _BETWEEN_WORDS.split(each.lower()))
        likeness = difflib.SequenceMatcher(None, own, other).ratio()
        if likeness >= _NEAR:
            found.append((likeness, each))
    found.sort(key=lambda entry: -entry[0])
    return [each for _, each in found[:most]]


def is_alike(name: str, known: Iterable[str], likeness: float) -> bool:
    """Whether a name is spelt like one of the known, all of it counted: 1.0 is the same name."""
    import difflib  # As above.

    return bool(difflib.get_close_matches(name, known, 1, likeness))


def _without_shared_words(one: list[str], other: list[str]) -> tuple[str, str]:
    """What is left of two names without the words that both begin with; a last word stays."""
    shared = 0
    while shared < min(len(one), len(other)) - 1 and one[shared] == other[shared]:
        shared += 1
    return "-".join(one[shared:]), "-".join(other[shared:])
