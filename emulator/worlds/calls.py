"""The calls of one world that are counted or had no effect: burst limits, refused calls, mismatches (D-332, D-337)."""

from __future__ import annotations

import re
from collections import Counter, deque
from datetime import datetime

from emulator.core.record import AccountId, AsDatetime, Record
from emulator.core.rules import limits
from emulator.core.state import StateView
from emulator.engine.clock import PacedClock, wall_ms
from emulator.wire import redaction

# As many as are kept of each world.
MAX_LIMIT = 1_000
_LONGEST_PATH = 2_000


class RefusedCall(Record):
    """One refused call.

    `at_ms` is its instant on the clock of its world, `wall_ms` the same on the wall clock. `path` is what was
    asked for with its query, credentials masked; `caller` the address of who called. `account_id` is None if the
    credentials were of no account. `error` and `field` are what was answered, `hint` says what was probably meant.
    """

    seq: int
    at_ms: int
    wall_ms: int
    method: str
    path: str
    caller: str | None
    account_id: str | None
    status: int
    error: str
    field: str | None
    hint: str | None

    at = AsDatetime[datetime]("at_ms")
    wall = AsDatetime[datetime]("wall_ms")


class DeduplicatedPublish(Record):
    """A publish that made no message at `at_ms`, because the message that it repeats stands for it."""

    at_ms: int
    message_id: str
    url: str


def head_of_call(path: str, query: str) -> str:
    """What was asked for, as text without credentials: of parameters that are named like one, and of URLs (D-332)."""
    text = redaction.mask_credentials(f"{path}?{query}" if query else path)
    return text if len(text) <= _LONGEST_PATH else f"{text[:_LONGEST_PATH]}..."


_PUBLISHES = re.compile(r"/v2/(?:publish|enqueue|(?P<batch>batch))\b", re.IGNORECASE)


class RefusedCalls:
    """The latest refused calls and deduplicated publishes, oldest first. Numbers continue when they are emptied."""

    def __init__(self) -> None:
        self.calls: deque[RefusedCall] = deque(maxlen=MAX_LIMIT)
        self.deduplicated: deque[DeduplicatedPublish] = deque(maxlen=MAX_LIMIT)
        self.last_seq = 0
        # How many publishes were refused so far, single ones and items of batches.
        self.publishes: Counter[str] = Counter()

    def add(self, call: RefusedCall) -> None:
        self.calls.append(call)
        self.last_seq = call.seq
        publishes = _PUBLISHES.match(call.path)
        if publishes is not None:
            self.publishes["batch" if publishes["batch"] else "publish"] += 1

    def after(self, seq: int) -> list[RefusedCall]:
        """Those that came behind a number, as far as they are kept."""
        return [call for call in self.calls if call.seq > seq] if self.last_seq > seq else []

    def clear(self) -> None:
        self.calls.clear()
        self.deduplicated.clear()


# As many different ones are kept.
_MOST = 1_000


class Mismatches:
    """The different mismatches of one world, in the order in which they were first found.

    `counts` says in how many calls each was found, by the operation that the call is for and what is wrong with it.
    """

    def __init__(self) -> None:
        self.counts: Counter[tuple[str, str]] = Counter()

    def add(self, operation: str, mismatch: str) -> None:
        if (operation, mismatch) in self.counts or len(self.counts) < _MOST:
            self.counts[operation, mismatch] += 1


class Bursts:
    """The latest calls of each account. They are no part of the world's state: a restart forgets them."""

    def __init__(self, state: StateView, pace: PacedClock) -> None:
        self._state = state
        self._pace = pace
        self._windows: dict[AccountId, limits.BurstWindow] = {}

    def count(self, account_id: AccountId) -> None:
        """Count a call. Raises QuotaExceeded."""
        account = self._state.accounts[account_id].account
        if limits.counts_calls(account, is_frozen=self._pace.is_frozen):
            window = self._windows.get(account_id)
            self._windows[account_id] = limits.count_call(window, account, self._state.now_ms, wall_ms())
