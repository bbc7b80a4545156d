"""The calls of one world that had no effect: the latest of them, in memory alone (D-332)."""

from __future__ import annotations

from collections import deque

from emulator.wire.control.refused_calls import MAX_LIMIT, DeduplicatedPublish, RefusedCall


class RefusedCalls:
    """The latest refused calls and deduplicated publishes, oldest first. Numbers go on when they are emptied."""

    def __init__(self) -> None:
        self._calls: deque[RefusedCall] = deque(maxlen=MAX_LIMIT)
        self._deduplicated: deque[DeduplicatedPublish] = deque(maxlen=MAX_LIMIT)
        self.last_seq = 0

    def add(self, call: RefusedCall) -> None:
        self._calls.append(call)
        self.last_seq = call.seq

    def add_deduplicated(self, publish: DeduplicatedPublish) -> None:
        self._deduplicated.append(publish)

    def latest_deduplicated(self, limit: int) -> list[DeduplicatedPublish]:
        return list(self._deduplicated)[-limit:]

    def latest(self, limit: int) -> list[RefusedCall]:
        return list(self._calls)[-limit:]

    def after(self, seq: int) -> list[RefusedCall]:
        """Those that came behind a number, as far as they are kept."""
        return [call for call in self._calls if call.seq > seq] if self.last_seq > seq else []

    def clear(self) -> None:
        self._calls.clear()
        self._deduplicated.clear()
