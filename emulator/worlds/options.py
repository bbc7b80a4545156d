"""What all worlds of a server have in common, and where they keep their files."""

from __future__ import annotations

from pathlib import Path

from emulator.core.record import Record
from emulator.core.world_setup import DEFAULT
from emulator.engine.limits import Limits
from emulator.fixtures.records import Fixtures
from emulator.journal.store import MEMORY
from emulator.wire.dialect import Dialect

# SQLite keeps these beside a database.
_SUFFIXES = ("", "-wal", "-shm", "-journal")


class WorldOptions(Record):
    """`fixtures` None stands for the built-in ones; `db` is the database of the default world.

    With `fresh`, what it and the databases of other worlds hold is thrown away.
    """

    dialect: Dialect
    db: str = MEMORY
    fresh: bool = False
    limits: Limits = Limits()
    fixtures: Fixtures | None = None

    @property
    def keeps_state(self) -> bool:
        return self.db != MEMORY

    def database(self, world_id: str) -> str:
        """Where a world keeps its database. The directory exists afterwards."""
        if not self.keeps_state or world_id == DEFAULT:
            return self.db
        self._folder.mkdir(exist_ok=True)
        return str(self._folder / f"{world_id}.db")

    def snapshots_folder(self, world_id: str) -> Path | None:
        """Where a world keeps its snapshots: beside the database, None without one (D-205)."""
        return Path(f"{self.db}-snapshots") / world_id if self.keeps_state else None

    def further_worlds(self) -> list[str]:
        """The ids of the worlds, besides the default one, that have a database."""
        return sorted(path.stem for path in self._folder.glob("*.db")) if self.keeps_state else []

    def remove_database(self, world_id: str) -> None:
        for suffix in _SUFFIXES:
            self._folder.joinpath(f"{world_id}.db{suffix}").unlink(missing_ok=True)

    @property
    def _folder(self) -> Path:
        """Where the worlds besides the default one keep their databases."""
        return Path(f"{self.db}-worlds")
