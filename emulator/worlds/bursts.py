"""The calls of one world counted against its accounts' burst limits, since the world began or was begun again."""

from __future__ import annotations

from emulator.core.model.names import AccountId
from emulator.core.rules import limits
from emulator.core.state_view import StateView
from emulator.engine.clock import PacedClock, wall_ms


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
