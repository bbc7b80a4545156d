"""A program: the emulator without what counts for metrics, which a server always does."""

from __future__ import annotations

import runpy
import sys
from types import ModuleType


class _NoCounts:
    """In the place of what counts."""

    def observe(self, *what: object) -> None: ...

    def count_request(self, *what: object) -> None: ...

    def count_spans(self, *what: object) -> None: ...


def main() -> None:
    """Run the command that the arguments say."""
    counts = ModuleType("emulator.telemetry.counts")
    counts.Counts = _NoCounts  # type: ignore[attr-defined]  # the name that the server imports
    sys.modules[counts.__name__] = counts
    runpy.run_module("emulator", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
