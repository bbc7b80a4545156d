"""The snapshots of an `Emulator`.

Made from `aio/snapshots.py` by `python -m tests.client.faces`; edit that file, not this one.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from emulator.client.errors import is_told
from emulator.queries.reports import Snapshot

if TYPE_CHECKING:
    from emulator.client.sync.emulator import Emulator

__tracebackhide__ = is_told


class Snapshots:
    """Copies of the whole world: clock, pending work, history, random source.

        >>> with Emulator() as emulator:
        ...     message_id = emulator.publish("https://app.example.com", headers={"Svc-Delay": "1h"})
        ...     snapshot = emulator.snapshots.save("before")
        ...     once = emulator.clock.advance("1h")
        ...     emulator.snapshots.restore("before")
        ...     again = emulator.clock.advance("1h")
        ...     (snapshot.pending, once.deliveries, again.deliveries)
        (1, 1, 1)

    Names are letters, digits, hyphens, underscores and periods. Each method raises Refused with what
    the server says.
    """

    def __init__(self, emulator: Emulator) -> None:
        self._emulator = emulator

    def save(self, name: str) -> Snapshot:
        """Save the world as it is under a new name."""
        return self._emulator._do(self._emulator._here().save_snapshot(name))

    def restore(self, name: str) -> None:
        """Make the world what it was. It goes on as the original would have: same ids, same trace."""
        self._emulator._do(self._emulator._here().restore_snapshot(name))

    def all(self) -> list[Snapshot]:
        """The world's snapshots."""
        return self._emulator._do(self._emulator._here().snapshots())

    def delete(self, name: str) -> None:
        """Delete a snapshot."""
        self._emulator._do(self._emulator._here().delete_snapshot(name))

    def export_to(self, file: str | Path, name: str) -> None:
        """Write a snapshot to a SQLite file, which `svc-emulator serve --db` can open as well. Raises OSError."""
        self._emulator._do(self._emulator._here().export_snapshot(name, Path(file)))

    def import_from(self, file: str | Path, name: str) -> Snapshot:
        """Take a file in as a snapshot. What is no world's is refused, with nothing changed. Raises OSError."""
        return self._emulator._do(self._emulator._here().import_snapshot(name, Path(file)))
