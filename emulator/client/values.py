"""Arguments of the Python API as the control API reads them: instants, durations, optional values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias
from urllib.parse import quote

from emulator.client.errors import is_argument_error
from emulator.core.language.spelling import near

__tracebackhide__ = is_argument_error

# A duration: `1d2h30m`, integer milliseconds, or a timedelta.
Duration: TypeAlias = str | int | timedelta
# An instant: ISO 8601, integer milliseconds since the Unix epoch, or a datetime (UTC if it is naive).
Instant: TypeAlias = str | int | datetime

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MS = timedelta(milliseconds=1)


def duration(value: Duration) -> str | int:
    """A duration for the control API, which checks it."""
    return value // _MS if isinstance(value, timedelta) else value


def instant(value: Instant) -> str | int:
    """An instant for the control API, which checks it."""
    if not isinstance(value, datetime):
        return value
    return ((value if value.tzinfo else value.replace(tzinfo=UTC)) - _EPOCH) // _MS


def given(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values that are not None; the server chooses the others."""
    return {name: value for name, value in values.items() if value is not None}


def check_names(names: Iterable[str], known: Mapping[str, Any], place: str = "") -> None:
    """Raises TypeError for a keyword that does not exist, with the one that was probably meant."""
    for name in sorted(set(names) - known.keys()):
        close = near(name, known)
        hint = f", did you mean {close[0]}?" if close else f"; there are {', '.join(known)}"
        raise TypeError(f"{place}no option is named {name}{hint}")


def path_of(collection: str, name: str, *rest: str) -> str:
    """The path of one thing of a collection. Raises ValueError for an empty name, which would mean all of them."""
    if not name:
        raise ValueError(f"expected the id or the name of one thing in {collection}, got an empty text")
    return "/".join((collection, quote(name, safe=""), *rest))
