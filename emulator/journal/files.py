"""Telling our database files from everything else, before anything could harm them."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import msgspec

from emulator.core.errors import WorldBroken
from emulator.journal.schema import APPLICATION_ID, FORMAT

_MAGIC = b"SQLite format 3\x00"
_HEADER_SIZE = 100
# What reading a damaged file can come to: it is decoded, and its facts are applied, by code that trusts them.
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
)


class UnusableDatabase(Exception):
    """The file cannot hold the emulator's state; the text says why, in one line."""


def check(path: Path) -> None:
    """Refuse a file that is not ours, of a newer format, or not to be written; nothing in it changes.

    An empty file is fine: it becomes a new database. A missing one is made, empty. Raises
    UnusableDatabase.
    """
    try:
        if not path.exists():
            if not path.parent.is_dir():
                raise UnusableDatabase(f"{path}: the directory {path.parent} does not exist")
            # SQLite could only say that it is unable to.
            path.touch()
            return
        if path.is_dir():
            raise UnusableDatabase(f"{path}: is a directory, expected a file")
        if not path.is_file():
            raise UnusableDatabase(f"{path}: is no ordinary file")
        with path.open("r+b") as file:
            header = file.read(_HEADER_SIZE)
    except OSError as error:
        raise UnusableDatabase(f"{path}: {error.strerror or error}") from error
    if not header:
        return
    if len(header) < _HEADER_SIZE or not header.startswith(_MAGIC):
        raise UnusableDatabase(f"{path}: not a database of svc-emulator (nor any SQLite file); nothing was changed")
    version = int.from_bytes(header[60:64], "big")
    application = int.from_bytes(header[68:72], "big")
    if application != APPLICATION_ID:
        raise UnusableDatabase(f"{path}: a SQLite file of another program; nothing was changed")
    if version > FORMAT:
        raise UnusableDatabase(
            f"{path}: format {version}, and this version of svc-emulator reads up to {FORMAT}; nothing was changed"
        )
