"""The refused calls of one world: the latest of them, in memory alone (D-332)."""

from __future__ import annotations

from collections import deque

from emulator.wire.control.refused_calls import MAX_LIMIT, RefusedCall


class RefusedCalls:
    """The latest refused calls, oldest first. Their numbers go on when they are emptied."""

    def __init__(self) -> None:
        self._calls: deque[RefusedCall] = deque(maxlen=MAX_LIMIT)
        self.last_seq = 0

    def add(self, call: RefusedCall) -> None:
        self._calls.append(call)
        self.last_seq = call.seq

    def latest(self, limit: int) -> list[RefusedCall]:
        return list(self._calls)[-limit:]

    def after(self, seq: int) -> list[RefusedCall]:
        """Those that came behind a number, as far as they are kept."""
        return [call for call in self._calls if call.seq > seq] if self.last_seq > seq else []

    def clear(self) -> None:
        self._calls.clear()
