"""The snapshots of one world: copies of its database, each a file of its own that `serve --db` can open.

A file is written under a hidden name and renamed when it is whole. A crash at any moment leaves the
old one, the new one or none, and perhaps a hidden file, which the next start removes.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import shutil
import sqlite3
import tempfile
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterator, Mapping
from pathlib import Path
from typing import BinaryIO

from emulator.core.checkpoint import restore
from emulator.core.errors import Conflict, Damaged, InsufficientStorage, InvalidInput, Malformed, NotFound
from emulator.core.language.calendar import is_clock_instant
from emulator.core.record import Record
from emulator.core.state import State
from emulator.core.world_setup import parse_name_in_files
from emulator.journal import codec, files, schema
from emulator.journal.history import History
from emulator.journal.store import Store, open_store
from emulator.queries.reports import Snapshot

logger = logging.getLogger(__name__)

Meta = Mapping[str, bytes]

_SUFFIX = ".db"
# Of hidden names: a snapshot that is being written, and a file that is being looked at.
_NEW, _GIVEN = _BEGUN = (".new", ".given")
# How much of a file that is being sent is in memory.
_WRITE_BYTES = 1024 * 1024
_UNCHANGED = "; nothing was changed"


class SavedWorld(Record):
    """What a snapshot holds. `base` is what a reset of the restored world returns to."""

    path: Path
    meta: Meta
    state: State
    base: State


class Snapshots:
    """All snapshots of a world, by name. Without a folder they last as long as the world object does.

    Names must have been checked: they become names of files.
    """

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        self._closed = False
        self._received = 0
        # One change at a time.
        self._lock = asyncio.Lock()
        # What the files were found to hold, each for as long as it is the same file.
        self._known: dict[tuple[str, int, int], Snapshot] = {}

    def tidy(self) -> None:
        """Remove what a crash left behind, and nothing that somebody else put there."""
        if self._folder is not None:
            for ending in _BEGUN:
                for path in files.found_in(self._folder, f".*{ending}*"):
                    path.unlink(missing_ok=True)

    # -- reading ----------------------------------------------------------------------------

    async def all(self) -> list[Snapshot]:
        """Every snapshot that can be read, in the order of their names."""
        async with self._lock:
            return await asyncio.to_thread(self._all)

    def _all(self) -> list[Snapshot]:
        found = []
        for name in self._names():
            try:
                found.append(self._describe(name))
            except files.UnusableDatabase as error:
                logger.warning("a snapshot cannot be read: %s", error)
        return found

    def _names(self) -> list[str]:
        if self._folder is None:
            return []
        names = (path.name.removesuffix(_SUFFIX) for path in files.found_in(self._folder, f"*{_SUFFIX}"))
        return sorted(name for name in names if not name.startswith("."))

    def _describe(self, name: str) -> Snapshot:
        path = self._existing(name)
        stat = path.stat()
        key = (name, stat.st_mtime_ns, stat.st_size)
        if key not in self._known:
            state = _read(path).state
            self._known[key] = Snapshot(
                name=name, now_ms=state.now_ms, pending=len(state.messages), size_bytes=path.stat().st_size
            )
        return self._known[key]

    @contextlib.asynccontextmanager
    async def read(self, name: str) -> AsyncIterator[SavedWorld]:
        """What a snapshot holds; its file stays what it is meanwhile.

        Raises NotFound, and Conflict for a file that was damaged since it was saved.
        """
        async with self._lock:
            path = self._existing(name)
            try:
                saved = await asyncio.to_thread(_read, path)
            except files.UnusableDatabase as error:
                raise Conflict(f"the snapshot {name} cannot be read: {_reason(error, path)}") from error
            yield saved

    def open(self, name: str) -> BinaryIO:
        """The file of a snapshot, to be read and closed. Raises NotFound."""
        return self._existing(name).open("rb")

    # -- changing ---------------------------------------------------------------------------

    async def save(self, name: str, store: Store) -> Snapshot:
        """Keep a world as it is now. Raises Conflict for a name that is taken, or a disk that is full."""
        async with self._lock:
            with _conflicts_named(name):
                path = self._place_for(name)
                if path.exists():
                    raise Conflict(f"the snapshot {name} exists already; delete it first, or take another name")
                with _hidden(path.with_name(f".{name}{_NEW}")) as fresh:
                    await store.copy_to(str(fresh))
                    os.replace(fresh, path)
                return await asyncio.to_thread(self._describe, name)

    async def put(
        self, name: str, content: AsyncIterable[bytes], check: Callable[[Meta], object]
    ) -> tuple[Snapshot, bool]:
        """Keep a world that is sent as a database file, piece by piece; the flag tells whether the name was new.

        It takes the place of the snapshot that had its name. `check` looks at what the file says of
        its world, and raises what decoding raises. Raises InvalidInput for a file that is not ours,
        of another format or damaged, with nothing changed.
        """
        self._received += 1
        with (
            _conflicts_named(name),
            # Under a name of its own: others may send a snapshot of that name at the same time.
            _hidden(self._place_for(name).with_name(f".{name}-{self._received}{_GIVEN}")) as given,
        ):
            if not await _write_pieces(content, given):
                raise InvalidInput("body", "empty, expected a snapshot's file or a copy of a world's database")
            async with self._lock:
                path = self._place_for(name)
                is_new = not path.exists()
                with _hidden(path.with_name(f".{name}{_NEW}")) as fresh:
                    # It is read from its beginning to its end, and the server has others to answer meanwhile.
                    await asyncio.to_thread(_import_file, given, fresh, check)
                    os.replace(fresh, path)
                return await asyncio.to_thread(self._describe, name), is_new

    async def remove(self, name: str) -> None:
        """Raises NotFound, and Conflict for a file that cannot be removed: Windows keeps one that somebody reads."""
        async with self._lock:
            path = self._existing(name)
            try:
                path.unlink(missing_ok=True)
            except OSError as error:
                raise Conflict(f"the snapshot {name} cannot be removed: {error.strerror or error}") from error

    async def remove_all(self) -> None:
        async with self._lock:
            if self._folder is not None and self._temporary is None:
                await asyncio.to_thread(shutil.rmtree, self._folder, ignore_errors=True)

    async def close(self) -> None:
        """Let go of what is not to outlive the world object."""
        async with self._lock:
            self._closed = True
            if self._temporary is not None:
                self._folder = None
                self._temporary.cleanup()

    # -- files ------------------------------------------------------------------------------

    def _existing(self, name: str) -> Path:
        if self._folder is not None and (path := _file_of(self._folder, name)).is_file():
            return path
        raise NotFound("snapshot", name)

    def _place_for(self, name: str) -> Path:
        """Where the file will be. Raises OSError, InvalidInput for a name no file can have, Conflict once closed."""
        try:
            parse_name_in_files(name)
        except Malformed as malformed:
            raise InvalidInput("name", malformed.reason) from None
        if self._closed:
            raise Conflict("this world is being removed")
        if self._folder is None:
            # On disk all the same: a world's history may be larger than what memory should hold twice.
            self._temporary = tempfile.TemporaryDirectory(prefix="svc-emulator-", ignore_cleanup_errors=True)
            self._folder = Path(self._temporary.name)
        self._folder.mkdir(parents=True, exist_ok=True)
        return _file_of(self._folder, name)


def _file_of(folder: Path, name: str) -> Path:
    return folder / f"{name}{_SUFFIX}"


@contextlib.contextmanager
def _hidden(path: Path) -> Iterator[Path]:
    """A file that is gone afterwards, with all that SQLite puts beside it, unless it was renamed."""
    try:
        files.remove(path)
        yield path
    finally:
        files.remove(path)


@contextlib.contextmanager
def _conflicts_named(name: str) -> Iterator[None]:
    """Report a disk that is full or read-only as a refusal; the world keeps working (D-282)."""
    try:
        yield
    except OSError as error:
        kind = InsufficientStorage if files.is_disk_full(error) else Conflict
        raise kind(f"the snapshot {name} cannot be written: {error.strerror or error}") from error
    except files.UnusableDatabase as error:
        kind = InsufficientStorage if error.is_disk_full else Conflict
        raise kind(f"the snapshot {name} cannot be written: {str(error).rpartition(': ')[2]}") from error


def _reason(error: files.UnusableDatabase, path: Path) -> str:
    """Why a file is refused, without its path: the client knows it under another name."""
    return str(error).removeprefix(f"{path}: ")


# -- one file ---------------------------------------------------------------------------------


def _read(path: Path) -> SavedWorld:
    """A snapshot that we made: it has a checkpoint, and no facts after it. Raises UnusableDatabase."""
    files.check(path)
    try:
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
            meta: Meta = dict(connection.execute(schema.SELECT_META))
            _, state = codec.checkpoint_of(connection.execute(schema.SELECT_CHECKPOINT))
        return SavedWorld(
            path=path,
            meta=meta,
            state=restore(codec.decode_checkpoint(state)),
            base=restore(codec.decode_checkpoint(meta[schema.BASE_CHECKPOINT])),
        )
    except files.DAMAGE as error:
        raise files.UnusableDatabase(f"{path}: damaged: {files.damage_text(error)}") from error


async def _write_pieces(content: AsyncIterable[bytes], path: Path) -> int:
    """Write a file as it comes in; its size. Raises OSError."""
    with path.open("wb") as file:
        waiting = bytearray()
        async for piece in content:
            waiting += piece
            if len(waiting) >= _WRITE_BYTES:
                await asyncio.to_thread(file.write, bytes(waiting))
                waiting.clear()
        await asyncio.to_thread(file.write, bytes(waiting))
        return file.tell()


def _import_file(given: Path, fresh: Path, check: Callable[[Meta], object]) -> None:
    """Make a snapshot of a database file.

    Raises InvalidInput for one that no world could come from, UnusableDatabase if there is no room for it.
    """
    try:
        for damage in files.examine(given).damage:
            raise files.UnusableDatabase(f"{given}: damaged: {damage}")
        asyncio.run(_copy_whole(given, fresh, check))
    except files.UnusableDatabase as error:
        if str(error).startswith(f"{fresh}: "):
            raise
        reason = _reason(error, given).removesuffix(_UNCHANGED)
        raise InvalidInput("body", f"{reason}{_UNCHANGED}") from error
    except Damaged as damaged:
        raise InvalidInput("body", f"damaged: {damaged.what}{_UNCHANGED}") from damaged
    except files.DAMAGE as error:
        raise InvalidInput("body", f"damaged: {files.damage_text(error)}{_UNCHANGED}") from error


async def _copy_whole(given: Path, fresh: Path, check: Callable[[Meta], object]) -> None:
    """Start the world as a restart does, read its whole history once, and copy what a stop would leave."""
    store, _ = await open_store(str(given))
    try:
        state = await store.resume()
        meta = await store.meta()
        check(meta)
        for each in (state, restore(codec.decode_checkpoint(meta[schema.BASE_CHECKPOINT]))):
            if not (is_clock_instant(each.now_ms) and each.accounts):
                raise codec.Inconsistent("no world is like that")
        async for _ in History(store).trace():
            pass
        await store.copy_to(str(fresh))
    finally:
        await store.close()
