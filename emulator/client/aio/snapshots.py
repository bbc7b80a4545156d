"""The snapshots of an `AsyncEmulator`."""

from __future__ import annotations

from pathlib import Path

from emulator.client.aio.link import AsyncLink
from emulator.client.control import segment
from emulator.client.errors import is_emulator_error
from emulator.client.records import read_snapshot
from emulator.queries.reports import Snapshot

__tracebackhide__ = is_emulator_error


class AsyncSnapshots:
    """Copies of the whole world: clock, pending work, history, random source.

        >>> async with AsyncEmulator() as emulator:
        ...     message_id = await emulator.publish("https://app.example.com", delay="1h")
        ...     snapshot = await emulator.snapshots.save("before")
        ...     once = await emulator.clock.advance("1h")
        ...     await emulator.snapshots.restore("before")
        ...     again = await emulator.clock.advance("1h")
        ...     (snapshot.pending, once.deliveries, again.deliveries)
        (1, 1, 1)

    Names are letters, digits, hyphens, underscores and periods. Each method raises Refused with what
    the server says.
    """

    def __init__(self, link: AsyncLink) -> None:
        self._link = link

    async def save(self, name: str) -> Snapshot:
        """Save the world as it is under a new name."""
        return read_snapshot(await self._link.control("POST", "snapshots", {"name": name}))

    async def restore(self, name: str) -> None:
        """Make the world what it was. It goes on as the original would have: same ids, same trace."""
        await self._link.control("POST", f"snapshots/{segment(name)}/restore", refresh=True)

    async def all(self) -> list[Snapshot]:
        """The world's snapshots."""
        return [read_snapshot(each) for each in (await self._link.control("GET", "snapshots"))["snapshots"]]

    async def delete(self, name: str) -> None:
        """Delete a snapshot."""
        await self._link.control("DELETE", f"snapshots/{segment(name)}")

    async def export_to(self, file: str | Path, name: str) -> None:
        """Write a snapshot to a SQLite file, which `svc-emulator serve --db` can open as well. Raises OSError."""
        await self._link.run(self._link.session.export_snapshot(name, Path(file)))

    async def import_from(self, file: str | Path, name: str) -> Snapshot:
        """Take a file in as a snapshot. What is no world's is refused, with nothing changed. Raises OSError."""
        return read_snapshot(await self._link.run(self._link.session.import_snapshot(name, Path(file))))
