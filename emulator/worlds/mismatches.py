"""What clients sent to a world that the contract does not know, as strict mode found it (D-337)."""

from __future__ import annotations

from emulator.core.record import Record

# As many different ones are kept.
_MOST = 1_000


class Mismatch(Record):
    """What is wrong with a request, by the operation it is for, and in how many calls it was found."""

    operation: str
    mismatch: str
    count: int


class Mismatches:
    """The different mismatches of one world, in the order in which they were first found."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, str], int] = {}

    def add(self, operation: str, mismatch: str) -> None:
        key = (operation, mismatch)
        if key in self._counts or len(self._counts) < _MOST:
            self._counts[key] = self._counts.get(key, 0) + 1

    def all(self) -> list[Mismatch]:
        return [
            Mismatch(operation=operation, mismatch=mismatch, count=count)
            for (operation, mismatch), count in self._counts.items()
        ]

    def clear(self) -> None:
        self._counts.clear()
