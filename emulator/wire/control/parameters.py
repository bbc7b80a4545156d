"""The query parameters of control calls. An empty parameter counts as absent."""

from __future__ import annotations

import re
from collections.abc import Iterable

from emulator.core.errors import InvalidInput
from emulator.wire.json_fields import read_choice

Pairs = Iterable[tuple[str, str]]


def read_parameters(pairs: Pairs, known: tuple[str, ...]) -> dict[str, str]:
    """The parameters of an operation, without `world`, which belongs to all of them. Raises: InvalidInput."""
    given: dict[str, str] = {}
    for name, text in pairs:
        if name == "world":
            continue
        if name not in known:
            raise InvalidInput(name, f"unknown, expected one of {', '.join(known)}")
        if name in given:
            raise InvalidInput(name, "expected only once")
        if text:
            given[name] = text
    return given


def read_limit(text: str, maximum: int) -> int:
    """How many entries a listing may have. Raises: InvalidInput."""
    if not re.fullmatch(r"[0-9]{1,6}", text) or not 1 <= int(text) <= maximum:
        raise InvalidInput("limit", f"expected an integer from 1 to {maximum}")
    return int(text)


def read_flag(text: str, name: str) -> bool:
    """`true` or `false`, in any case. Raises: InvalidInput."""
    return read_choice(text.lower(), name, ("true", "false")) == "true"


def read_redact(pairs: Pairs) -> bool:
    """Whether the answer is to hide what its messages redact: `redact=true`. Raises: InvalidInput."""
    given = [text for name, text in pairs if name == "redact"]
    return bool(given) and read_flag(given[-1], "redact")
