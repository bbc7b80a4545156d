"""Instants and rates in the control API's answers."""

from __future__ import annotations

from emulator.wire.instants import iso
from emulator.wire.json_fields import Json


def instant_fields(name: str, instant_ms: int | None) -> dict[str, Json]:
    """An instant twice: as ISO 8601 under its name, and in milliseconds with `_ms`; null without one."""
    return {name: None if instant_ms is None else iso(instant_ms), f"{name}_ms": instant_ms}


def rate_view(rate: float) -> int | float:
    """A clock's rate; a whole one is an integer."""
    return int(rate) if rate.is_integer() else rate
