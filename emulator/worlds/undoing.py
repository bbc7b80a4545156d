"""The advances of one world that can be taken back: what the world was before each (D-435)."""

from __future__ import annotations

from emulator.core.errors import Conflict
from emulator.journal.snapshots import Snapshots
from emulator.journal.store import Store

# Each takes as much room on the disk as the world's history.
MOST = 100


class UndoableAdvances:
    """The world before each of its latest undoable advances, as files that last as long as the world object."""

    def __init__(self) -> None:
        self.snapshots = Snapshots(None)
        self._names: list[str] = []
        self._made = 0

    @property
    def last(self) -> str:
        """The snapshot of before the last one. Raises Conflict."""
        if not self._names:
            raise Conflict("there is no advance to take back: none was undoable since the world began or was restored")
        return self._names[-1]

    async def keep(self, store: Store) -> None:
        """Keep the world as it is now; the oldest one is forgotten if there are too many. Raises Conflict."""
        self._made += 1
        name = f"before-{self._made}"
        await self.snapshots.save(name, store)
        self._names.append(name)
        if len(self._names) > MOST:
            await self.snapshots.remove(self._names.pop(0))

    async def forget_last(self) -> None:
        await self.snapshots.remove(self._names.pop())

    async def forget_all(self) -> None:
        while self._names:
            await self.forget_last()
