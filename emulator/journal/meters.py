"""Counting what passes through accounts while history is written: by minute, and by day.

Statistics read these counts and never the history itself, so they take as long for an account
with millions of deliveries as for any other.
"""

from __future__ import annotations

from itertools import islice
from typing import Any

from emulator.core.language.calendar import DAY_MINUTES, MINUTE_MS
from emulator.core.model import AttemptOutcome, Message
from emulator.statistics.series import USAGE_FIELDS
from emulator.statistics.workflow_usage import WORKFLOW_FIELDS

# A row of a usage table: the account, the minute or day, and the counts in the order of USAGE_FIELDS
# or of WORKFLOW_FIELDS.
UsageRow = list[Any]

# Colon, space and end of line of a header; and the headers that every request has, with their usual values.
_AROUND = 4
_OWN_HEADERS = 550
_STATUS_LINE = 20

_KEYS = 2
CREATED, ACTIVE, DELIVERED, ERROR, RETRY, FAILED, CANCELED, BYTES = range(_KEYS, _KEYS + len(USAGE_FIELDS))
RUN_MESSAGES, RUN_STARTED, RUN_SUCCESS, RUN_FAILED, RUN_CANCELED = range(_KEYS, _KEYS + len(WORKFLOW_FIELDS))


def weight_of_request(message: Message) -> int:
    """How many bytes the headers of a request for a message take, to a few (D-192)."""
    published = sum(len(name) + len(value) + _AROUND for name, value in message.headers)
    # Of the signature, what depends on the message is its URL, as base64.
    return published + _OWN_HEADERS + 4 * len(message.url) // 3


def weight_of_answer(outcome: AttemptOutcome) -> int:
    """How many bytes a response takes, or the text of a failure, to a few (D-192)."""
    response = outcome.response
    if response is None:
        return len(outcome.error or "")
    headers = sum(len(name) + len(value) + _AROUND for name, value in response.headers)
    return _STATUS_LINE + headers + len(response.body)


class Meter:
    """What has passed through one account since its rows were last taken, in so many counts."""

    __slots__ = ("_account_id", "_minute", "_row", "_rows", "_zeros")

    def __init__(self, account_id: str, counts: int = len(USAGE_FIELDS)) -> None:
        self._account_id = account_id
        self._zeros = [0] * counts
        self._rows: dict[int, UsageRow] = {}
        self._minute: int | None = None
        self._row: UsageRow = []

    def add(self, at_ms: int, column: int, count: int = 1) -> None:
        """Count something in the minute in which it happened; the constants of this module name the columns."""
        minute = at_ms // MINUTE_MS
        # Almost always the minute of the call before: this runs several times for every message.
        if minute != self._minute:
            self._minute = minute
            self._row = self._rows.setdefault(minute, [self._account_id, minute, *self._zeros])
        self._row[column] += count

    def take(self) -> tuple[list[UsageRow], list[UsageRow]]:
        """The rows of the minutes and of the days since the last call."""
        minutes, self._rows = list(self._rows.values()), {}
        self._minute = None
        by_day: dict[int, list[UsageRow]] = {}
        for row in minutes:
            by_day.setdefault(row[1] // DAY_MINUTES, []).append(row)
        days = [
            [self._account_id, day, *map(sum, islice(zip(*rows, strict=True), _KEYS, None))]
            for day, rows in by_day.items()
        ]
        return minutes, days
