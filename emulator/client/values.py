"""Arguments of the Python API as the control API reads them: instants, durations, optional values."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias

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
