"""The checksum of a row, as a function of SQL."""

from __future__ import annotations

import sqlite3
import zlib
from typing import Final

import msgspec

NAME: Final = "row_checksum"

_encode = msgspec.msgpack.Encoder().encode


def row_checksum(*values: object) -> int:
    """A checksum of the values of a row, which also tells their types and lengths apart."""
    return zlib.crc32(_encode(values))


def register(connection: sqlite3.Connection) -> None:
    """Let the statements of a connection compute checksums; the schema's own need it."""
    connection.create_function(NAME, -1, row_checksum, deterministic=True)
