"""Telling our database files from everything else before anything could harm them, and making new ones whole."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import shutil
import sqlite3
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from emulator.core.errors import WorldBroken
from emulator.core.language.text import excerpt
from emulator.core.record import Record
from emulator.journal import codec, schema
from emulator.journal.damage import find_broken_pages, find_damage
from emulator.journal.schema import APPLICATION_ID, FORMAT

_MAGIC = b"SQLite format 3\x00"
_HEADER_SIZE = 100
# What reading a damaged file can raise: it is decoded, and its facts are applied, by code that trusts them.
DAMAGE = (
    sqlite3.Error,
    msgspec.MsgspecError,
    WorldBroken,
    LookupError,
    ValueError,
    TypeError,
    AttributeError,
    ArithmeticError,
    AssertionError,
    RecursionError,
)
# SQLite keeps these beside a database.
_BESIDE = ("-wal", "-shm", "-journal")
# A file without tables is never larger; another program's file is copied to be looked at.
_LARGEST_EMPTY = 1024 * 1024
_LONGEST = 200
# How many bytes of a file SQLite locks, and from where on.
_LOCKED_BYTES = (510, 0x40000002)
# So many rows with something wrong are listed, as SQLite lists so many pages.
_MOST_DAMAGE = 10
_SUFFIX_OF_NEW = ".new"


class UnusableDatabase(Exception):
    """The file cannot hold the emulator's state; the text says why, in one line."""

    def __init__(self, text: str, *, is_disk_full: bool = False) -> None:
        super().__init__(text)
        self.is_disk_full = is_disk_full


def unusable(path: Path | str, error: OSError | sqlite3.Error) -> UnusableDatabase:
    """A failure of the disk or of SQLite as what is wrong with a file."""
    reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
    return UnusableDatabase(f"{path}: {reason}", is_disk_full=is_disk_full(error))


def broken(failure: BaseException) -> WorldBroken:
    """A failed write as why a world has stopped."""
    return WorldBroken(f"the database cannot be written: {failure}", is_disk_full=is_disk_full(failure))


def is_disk_full(error: BaseException) -> bool:
    """Whether something failed because there was no room for it."""
    if isinstance(error, OSError):
        return error.errno in (errno.ENOSPC, errno.EDQUOT)
    # SQLite knows no number for a disk that is full while it makes a file of its own.
    return isinstance(error, sqlite3.Error) and "is full" in str(error)


def damage_text(error: BaseException) -> str:
    """What reading a damaged file has found, in one line of reasonable length, for somebody who reads no Python."""
    # The texts of exceptions name parts of this program (D-799).
    match error:
        case codec.Inconsistent() | sqlite3.Error() | WorldBroken():
            text = str(error)
        case msgspec.ValidationError():
            _, _, place = str(error).partition(" - at ")
            text = "a record has another form than was written" + (f", at {place}" if place else "")
        case KeyError(args=(str(key), *_)):
            text = f"{excerpt(key)} is missing, or not known"
        case _:
            text = "a record cannot be read"
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def check(path: Path) -> bool:
    """Refuse a file that is not ours, of another format (D-551), or not to be written; nothing in it changes.

    The answer tells whether it may hold a world: a missing or empty file, or one without tables,
    does not, and becomes a new database. Raises UnusableDatabase.
    """
    try:
        if not path.exists():
            if not path.parent.is_dir():
                raise UnusableDatabase(f"{path}: the directory {path.parent} does not exist")
            # SQLite could only say that it is unable to.
            probe = hidden_beside(path)
            probe.touch()
            probe.unlink()
            return False
        if path.is_dir():
            raise UnusableDatabase(f"{path}: is a directory, expected a file")
        if not path.is_file():
            raise UnusableDatabase(f"{path}: is no ordinary file")
        with path.open("r+b") as file:
            header = file.read(_HEADER_SIZE)
    except OSError as error:
        raise unusable(path, error) from error
    if not header:
        return False
    if len(header) < _HEADER_SIZE or not header.startswith(_MAGIC):
        raise UnusableDatabase(f"{path}: not a database of svc-emulator (nor any SQLite file); nothing was changed")
    version = int.from_bytes(header[60:64], "big")
    application = int.from_bytes(header[68:72], "big")
    if application == 0 and _has_no_tables(path):
        # What an earlier version left that was killed at its first start (D-280).
        return False
    if application != APPLICATION_ID:
        raise UnusableDatabase(f"{path}: a SQLite file of another program; nothing was changed")
    if version != FORMAT:
        remedy = "update svc-emulator" if version > FORMAT else "open it with the version that wrote it"
        raise UnusableDatabase(
            f"{path}: format {version}, and this version of svc-emulator reads format {FORMAT} only: {remedy}, "
            "or begin with a new file; nothing was changed"
        )
    return True


def _has_no_tables(path: Path) -> bool:
    """Looks at a copy: SQLite would complete or undo what another program has left half done."""
    if path.stat().st_size > _LARGEST_EMPTY:
        return False
    with tempfile.TemporaryDirectory(prefix="svc-emulator-") as folder:
        copy = copy_whole(path, Path(folder))
        try:
            with contextlib.closing(sqlite3.connect(copy)) as connection:
                return not list(connection.execute(schema.SELECT_ANY_TABLE))
        except sqlite3.Error:
            return False


def copy_whole(path: Path, folder: Path) -> Path:
    """A copy of a database that has no writer, with what SQLite keeps beside it."""
    for beside in ("", "-wal", "-journal"):
        source = path.with_name(path.name + beside)
        if source.exists():
            shutil.copyfile(source, folder / source.name)
    return folder / path.name


def check_definitions(path: Path | str, found: Iterable[str]) -> None:
    """Refuse other tables than ours, and triggers and views, which would run whatever they hold.

    Raises UnusableDatabase.
    """
    if set(found) != set(schema.DEFINITIONS):
        raise UnusableDatabase(f"{path}: damaged: its tables are not those of format {FORMAT}")


# -- reading all of one -----------------------------------------------------------------------


class Examined(Record):
    """What SQLite says is wrong with a database, each thing in one line, and how much it holds."""

    damage: tuple[str, ...] = ()
    messages: int = 0
    entries: int = 0


def examine(path: Path) -> Examined:
    """Let SQLite check all of a database that is not in use, without changing it (D-284).

    Raises UnusableDatabase for what is not ours, of another format, or in use.
    """
    # Unlike the method of a path, this takes a name that no file can have.
    if not os.path.exists(path):
        raise UnusableDatabase(f"{path}: no such file")
    if not check(path):
        return Examined()
    if is_in_use(path):
        raise UnusableDatabase(f"{path}: in use by another process; stop it, or check a snapshot")
    with _undisturbed(path) as connection:
        try:
            # First: the check of the pages evaluates expressions of the schema, which could be anything.
            check_definitions(path, [sql for (sql,) in connection.execute(schema.SELECT_DEFINITIONS)])
            broken = find_broken_pages(connection)
            if broken:
                return Examined(damage=tuple(broken))
            wrong = find_damage(connection, _MOST_DAMAGE)
            if wrong:
                return Examined(damage=tuple(wrong))
            ((messages, entries),) = connection.execute(schema.COUNT_HISTORY)
        except sqlite3.Error as error:
            return Examined(damage=(str(error),))
        except UnusableDatabase as error:
            return Examined(damage=(str(error).removeprefix(f"{path}: damaged: "),))
    return Examined(messages=messages, entries=entries)


@contextlib.contextmanager
def _undisturbed(path: Path) -> Iterator[sqlite3.Connection]:
    """A connection under which nothing changes in the file."""
    if not any(path.with_name(path.name + beside).exists() for beside in _BESIDE):
        address = f"{path.resolve().as_uri()}?mode=ro&immutable=1"
        with contextlib.closing(sqlite3.connect(address, uri=True, isolation_level=None)) as connection:
            yield connection
        return
    # A process that was killed has left a log, which SQLite would work into the file.
    with (
        tempfile.TemporaryDirectory(prefix="svc-emulator-") as folder,
        contextlib.closing(sqlite3.connect(copy_whole(path, Path(folder)), isolation_level=None)) as copied,
    ):
        yield copied


# -- making -----------------------------------------------------------------------------------


def hidden_beside(path: Path) -> Path:
    """A name for a file that takes a database's place once it is whole. No two are the same."""
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}{_SUFFIX_OF_NEW}")


def put_in_place(fresh: Path, path: Path) -> None:
    """Give a whole database its name, under which there is nothing, or an empty file. Raises OSError."""
    # What lies beside a file that is gone would be taken for part of the new one.
    remove_beside(path)
    if not path.exists():
        try:
            # Unlike a rename, it fails if another process has made the file meanwhile.
            os.link(fresh, path)
            return
        except FileExistsError:
            raise
        except OSError:
            pass  # A file system without links.
    os.replace(fresh, path)


def remove_beside(path: Path) -> None:
    for beside in _BESIDE:
        path.with_name(path.name + beside).unlink(missing_ok=True)


def remove(path: Path) -> None:
    """Remove a database, and what SQLite keeps beside it."""
    path.unlink(missing_ok=True)
    remove_beside(path)


def tidy(folder: Path, name: str = "*") -> None:
    """Remove what is left in a folder of databases that were never finished."""
    for path in found_in(folder, f".{name}.*{_SUFFIX_OF_NEW}*"):
        path.unlink(missing_ok=True)


def found_in(folder: Path, pattern: str) -> list[Path]:
    """The files in a folder that fit a pattern; none in a folder that cannot exist, as its name is too long."""
    try:
        return list(folder.glob(pattern))
    except OSError:
        return []


def is_in_use(path: Path) -> bool:
    """Whether another process has locked a database, as far as this system tells without touching it."""
    try:
        import fcntl
    except ImportError:
        # Elsewhere a file that is in use cannot be copied either.
        return False
    with path.open("rb") as file:
        try:
            fcntl.lockf(file, fcntl.LOCK_SH | fcntl.LOCK_NB, *_LOCKED_BYTES)
        except OSError:
            return True
    return False


# -- while it is used -------------------------------------------------------------------------

Identity = tuple[int, int]


def identity(path: str) -> Identity | None:
    """What tells a file from another one that is put in its place; None if there is none."""
    try:
        stat = os.stat(path)
    except OSError:
        return None
    return stat.st_dev, stat.st_ino


def size(path: str) -> int:
    """The bytes of a database with its log; 0 without one."""
    total = 0
    for beside in ("", *_BESIDE):
        with contextlib.suppress(OSError):
            total += os.stat(path + beside).st_size
    return total
