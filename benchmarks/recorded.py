"""A million recorded deliveries: by delivering a million times, or at once where the format of the file is known."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from benchmarks import servers

MINUTES = 30 * 1440
PER_MINUTE = 24
DELIVERIES = MINUTES * PER_MINUTE
_FIRST_MINUTE = 29_453_760
# The format of the tables below. Files of another one are not written to.
_FORMAT = 1

_ATTEMPTS = """
WITH RECURSIVE series (seq) AS (SELECT 1 UNION ALL SELECT seq + 1 FROM series WHERE seq < ?)
INSERT INTO attempts (seq, number, attempt, at_ms, finished_ms, succeeded, status, outcome)
SELECT seq, seq, 1, ?, ?, 1, 200, zeroblob(64) FROM series
"""
_MINUTES = "INSERT INTO usage_minutes VALUES (?, ?, ?, ?, ?, 0, 0, 0, 0, ?)"
_DAYS = """
INSERT INTO usage_days
SELECT account_id, minute / 1440, sum(created), sum(active), sum(delivered), 0, 0, 0, 0, sum(bytes)
FROM usage_minutes GROUP BY 1, 2
"""


def schedule(emulator: servers.Emulator) -> None:
    """Have so many deliveries made in every month from now on."""
    emulator.rule("https://api.example.com/*", respond={"status": 200})
    for number in range(PER_MINUTE):
        emulator.schedule("* * * * *", f"https://api.example.com/{number}")


def is_known(database: Path) -> bool:
    """Whether `fill` can write the file; it must not be in use."""
    with closing(sqlite3.connect(database)) as connection:
        (found,) = connection.execute("PRAGMA user_version").fetchone()
        return bool(found == _FORMAT)


def fill(database: Path, account_id: str) -> None:
    """Record a month of deliveries for an account, as the emulator itself does; it must not be running."""
    with closing(sqlite3.connect(database)) as connection, connection:
        at_ms = _FIRST_MINUTE * 60_000
        connection.execute(_ATTEMPTS, (DELIVERIES, at_ms, at_ms))
        connection.executemany(
            _MINUTES,
            (
                (account_id, minute, PER_MINUTE, PER_MINUTE, PER_MINUTE, PER_MINUTE * 900)
                for minute in range(_FIRST_MINUTE, _FIRST_MINUTE + MINUTES)
            ),
        )
        connection.execute(_DAYS)
