"""What all worlds of a server have in common, and where they keep their files."""

from __future__ import annotations

import contextlib
from pathlib import Path

from emulator.core.record import Record
from emulator.core.world_setup import DEFAULT
from emulator.engine.limits import Limits
from emulator.fixtures.records import Fixtures
from emulator.journal import files
from emulator.journal.database import MEMORY, Threads
from emulator.journal.dropping import KEEP_ALL, Keep
from emulator.journal.store import Store, open_store
from emulator.journal.writer import DEFAULT_THRESHOLDS
from emulator.wire.dialect import Dialect


class WorldOptions(Record):
    """`fixtures` None stands for the built-in ones; `db` is the database of the default world.

    With `fresh`, what it and the databases of other worlds hold is thrown away.
    """

    dialect: Dialect
    db: str = MEMORY
    fresh: bool = False
    limits: Limits = Limits()
    fixtures: Fixtures | None = None
    keep_history: Keep = KEEP_ALL

    @property
    def keeps_state(self) -> bool:
        return self.db != MEMORY

    def database(self, world_id: str) -> str:
        """Where a world keeps its database. The directory exists afterwards."""
        if not self.keeps_state or world_id == DEFAULT:
            return self.db
        self._folder.mkdir(exist_ok=True)
        return str(self._folder / f"{world_id}.db")

    async def open_store(self, world_id: str, threads: Threads) -> tuple[Store, bool]:
        """The store of a world; the flag tells whether it holds the world already. Raises UnusableDatabase."""
        try:
            path = self.database(world_id)
        except OSError as error:
            raise files.unusable(self._folder, error) from error
        return await open_store(path, DEFAULT_THRESHOLDS, self.keep_history, threads)

    def snapshots_folder(self, world_id: str) -> Path | None:
        """Where a world keeps its snapshots: beside the database, None without one (D-205)."""
        return Path(f"{self.db}-snapshots") / world_id if self.keeps_state else None

    def further_worlds(self) -> list[str]:
        """The ids of the worlds, besides the default one, that have a database."""
        return sorted(path.stem for path in files.found_in(self._folder, "*.db")) if self.keeps_state else []

    def remove_database(self, world_id: str) -> None:
        files.remove(self._folder / f"{world_id}.db")

    def tidy(self) -> None:
        """Remove what is left of databases that were never finished: nobody was told of their worlds."""
        if not self.keeps_state:
            return
        path = Path(self.db)
        files.tidy(path.parent, path.name)
        files.tidy(self._folder)
        for world_id in self.further_worlds():
            # A file that cannot be used is reported when it is opened.
            with contextlib.suppress(files.UnusableDatabase):
                if not files.check(Path(self.database(world_id))):
                    self.remove_database(world_id)

    @property
    def _folder(self) -> Path:
        """Where the worlds besides the default one keep their databases."""
        return Path(f"{self.db}-worlds")
