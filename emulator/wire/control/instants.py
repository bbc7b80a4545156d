"""Instants and rates in the control API's answers."""

from __future__ import annotations

from msgspec.structs import asdict

from emulator.core.record import Record
from emulator.wire.instants import iso
from emulator.wire.json_fields import Json


def instant_fields(name: str, instant_ms: int | None) -> dict[str, Json]:
    """An instant twice: as ISO 8601 under its name, and in milliseconds with `_ms`; null without one."""
    return {name: None if instant_ms is None else iso(instant_ms), f"{name}_ms": instant_ms}


def fields_of(record: Record, *instants: str) -> dict[str, Json]:
    """The fields of a record by their names, each of the `instants` (which end in `_ms`) with its ISO 8601 twin."""
    view: dict[str, Json] = {}
    for name, value in asdict(record).items():
        view |= instant_fields(name.removesuffix("_ms"), value) if name in instants else {name: value}
    return view


def rate_view(rate: float) -> int | float:
    """A clock's rate; a whole one is an integer."""
    return int(rate) if rate.is_integer() else rate
