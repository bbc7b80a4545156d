"""Header names the way the service writes them in JSON."""

from __future__ import annotations

from functools import lru_cache

from emulator.core.model.names import Headers

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
