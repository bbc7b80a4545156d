"""Counting what passes through accounts while history is written.

A row holds the counts from the world's beginning to the end of a minute. What happened in a stretch of
time is the difference of two rows (D-401), so that statistics take as long for an account with millions of
deliveries as for any other.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from emulator.core.language.calendar import MINUTE_MS
from emulator.core.model.messages import AttemptOutcome, Message
from emulator.core.record import AccountId
from emulator.statistics.series import USAGE_FIELDS, WORKFLOW_FIELDS

# A row of a usage table: the account, the minute, and the counts in the order of USAGE_FIELDS or of WORKFLOW_FIELDS.
UsageRow = list[Any]

# Colon, space and end of line of a header; and the headers that every request has, with their usual values.
_AROUND = 4
_OWN_HEADERS = 550
_STATUS_LINE = 20

_KEYS, _MINUTE = 2, 1
# Where the counts stand in a row.
USAGE_COLUMNS, WORKFLOW_COLUMNS = (
    {name: column for column, name in enumerate(names, start=_KEYS)} for names in (USAGE_FIELDS, WORKFLOW_FIELDS)
)


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
    return _STATUS_LINE + headers + response.body_bytes


class Meter:
    """What has passed through one account, in so many counts."""

    __slots__ = ("_minute", "_row", "_rows")

    def __init__(self, so_far: Sequence[Any]) -> None:
        """`so_far` is the account's last row; its minute is 0 for an account without one."""
        self._row: UsageRow = list(so_far)
        self._rows: list[UsageRow] = []
        # That of the last of `_rows`.
        self._minute: int | None = None

    def copy(self) -> Meter:
        """An independent copy with the same counts. Call when the rows have been taken."""
        return Meter(self._row)

    def add(self, at_ms: int, column: int, count: int = 1) -> None:
        """Count something in the minute in which it happened; see USAGE_COLUMNS and WORKFLOW_COLUMNS."""
        minute = at_ms // MINUTE_MS
        # Almost always the minute of the call before: this runs several times for every message.
        if minute != self._minute:
            # Time does not go back: what is counted from now on is part of all later rows.
            assert minute >= self._row[_MINUTE]
            self._minute = minute
            self._row = [self._row[0], minute, *self._row[_KEYS:]]
            self._rows.append(self._row)
        self._row[column] += count

    def take(self) -> list[UsageRow]:
        """The rows of the minutes since the last call. The first may be a later state of one that was taken before."""
        taken, self._rows, self._minute = self._rows, [], None
        return taken


class Meters:
    """Those of all accounts of a world, of one usage table."""

    def __init__(self, counts: int) -> None:
        """`counts` is how many things are counted."""
        self._nothing = (0,) * counts
        self._meters: dict[AccountId, Meter] = {}

    def start_counts_from(self, so_far: Iterable[Sequence[Any]]) -> None:
        """Begin with the last row of each account."""
        self._meters = {row[0]: Meter(row) for row in so_far}

    def of(self, account_id: AccountId) -> Meter:
        """That of an account, through which nothing may have passed yet."""
        meter = self._meters.get(account_id)
        if meter is None:
            meter = self._meters[account_id] = Meter((account_id, 0, *self._nothing))
        return meter

    def copy(self) -> Meters:
        """As `Meter.copy`, of all."""
        twin = Meters(len(self._nothing))
        twin._meters = {account_id: meter.copy() for account_id, meter in self._meters.items()}
        return twin

    def take(self) -> list[UsageRow]:
        """As `Meter.take`, of all."""
        return [row for meter in self._meters.values() for row in meter.take()]
