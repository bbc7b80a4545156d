"""Counting what passes through accounts while history is written: by minute, and by day.

Statistics read these counts and never the history itself, so they take as long for an account
with millions of deliveries as for any other.
"""

from __future__ import annotations

from itertools import chain

from emulator.core.calendar import DAY_MINUTES, MINUTE_MS
from emulator.core.model import AttemptOutcome
from emulator.core.statistics import USAGE_FIELDS

# A row of a usage table: the account, the minute or day, and the counts in the order of USAGE_FIELDS.
UsageRow = tuple[str | int, ...]

_WIDTH = len(USAGE_FIELDS)
CREATED, ACTIVE, DELIVERED, ERROR, RETRY, FAILED, CANCELED, BYTES = range(_WIDTH)


class Meter:
    """What has passed through one account since its rows were last taken."""

    __slots__ = ("_account_id", "_counts", "_minute", "_minutes")

    def __init__(self, account_id: str) -> None:
        self._account_id = account_id
        self._minutes: dict[int, list[int]] = {}
        self._minute: int | None = None
        self._counts: list[int] = []

    def at(self, at_ms: int) -> list[int]:
        """The counts of the minute of an instant; the constants of this module are their places."""
        minute = at_ms // MINUTE_MS
        if minute != self._minute:
            self._minute = minute
            counts = self._minutes.get(minute)
            if counts is None:
                counts = self._minutes[minute] = [0] * _WIDTH
            self._counts = counts
        return self._counts

    def take(self) -> tuple[list[UsageRow], list[UsageRow]]:
        """The rows of the minutes and of the days since the last call."""
        minutes, self._minutes = self._minutes, {}
        self._minute = None
        days: dict[int, list[list[int]]] = {}
        for minute, counts in minutes.items():
            days.setdefault(minute // DAY_MINUTES, []).append(counts)
        return (
            [(self._account_id, minute, *counts) for minute, counts in minutes.items()],
            [(self._account_id, day, *map(sum, zip(*rows, strict=True))) for day, rows in days.items()],
        )


def bytes_carried(body_bytes: int, outcome: AttemptOutcome) -> int:
    """What one attempt moved: the body and the headers it sent, and the body that came back (D-192)."""
    headers = sum(map(len, chain.from_iterable(outcome.request_headers)))
    return body_bytes + headers + (0 if outcome.response is None else len(outcome.response.body))
