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

    async def keep(self, store: Store) -> str:
        """Keep the world as it is now, under the name that is answered; of too many the oldest is forgotten.

        Raises Conflict.
        """
        self._made += 1
        name = f"before-{self._made}"
        await self.snapshots.save(name, store)
        self._names.append(name)
        if len(self._names) > MOST:
            await self.forget(self._names[0])
        return name

    async def forget(self, name: str) -> None:
        """Forget one that may be forgotten already."""
        if name in self._names:
            self._names.remove(name)
            await self.snapshots.remove(name)

    async def forget_all(self) -> None:
        while self._names:
            await self.forget(self._names[0])
