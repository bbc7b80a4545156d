"""The messages that wait for a slot, first ticket first."""

from __future__ import annotations

import heapq
from collections.abc import Iterator

from emulator.core.model.names import MessageId


class WaitList:
    """Messages ordered by ticket; leaving from the middle is lazy and cheap."""

    __slots__ = ("_heap", "_tickets")

    def __init__(self) -> None:
        self._heap: list[tuple[int, MessageId]] = []
        self._tickets: dict[MessageId, int] = {}

    def join(self, message_id: MessageId, ticket: int) -> None:
        self._tickets[message_id] = ticket
        heapq.heappush(self._heap, (ticket, message_id))

    def leave(self, message_id: MessageId) -> None:
        self._tickets.pop(message_id, None)

    @property
    def first(self) -> MessageId | None:
        heap = self._heap
        while heap:
            ticket, message_id = heap[0]
            if self._tickets.get(message_id) == ticket:
                return message_id
            heapq.heappop(heap)
        return None

    @property
    def first_ticket(self) -> int | None:
        first = self.first
        return None if first is None else self._tickets[first]

    def __contains__(self, message_id: MessageId) -> bool:
        return message_id in self._tickets

    def __len__(self) -> int:
        return len(self._tickets)

    def __iter__(self) -> Iterator[MessageId]:
        return iter(sorted(self._tickets, key=self._tickets.__getitem__))
