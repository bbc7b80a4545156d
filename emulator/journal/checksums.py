"""The checksum of a row, as a function of SQL."""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

NAME: Final = "row_checksum"

_encode = msgspec.msgpack.Encoder().encode


def row_checksum(*values: object) -> int:
    """A checksum of the values of a row, which also tells their types and lengths apart."""
    return zlib.crc32(_encode(values))


def checked(rows: Iterable[Sequence[object]]) -> list[tuple[object, ...]]:
    """Rows with their checksums behind them, for a table that does not number its rows itself."""
    encode, crc32 = _encode, zlib.crc32
    return [(*row, crc32(encode(row))) for row in rows]


def register(connection: sqlite3.Connection) -> None:
    """Let the statements of a connection compute checksums; the schema's own need it."""
    connection.create_function(NAME, -1, row_checksum, deterministic=True)
