"""Answers of the control API, read by their milliseconds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from emulator.wire.times import iso


def without_twins(shown: Mapping[str, Any]) -> dict[str, Any]:
    """An answer without the texts of its instants, each of which is that of the milliseconds beside it."""
    twins = {name: f"{name}_ms" for name in shown if f"{name}_ms" in shown}
    for name, source in twins.items():
        assert shown[name] == (None if shown[source] is None else iso(shown[source])), name
    return {name: value for name, value in shown.items() if name not in twins}
