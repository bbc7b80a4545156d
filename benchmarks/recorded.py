"""A database with a million recorded deliveries, made without delivering a million times."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

MINUTES = 30 * 1440
PER_MINUTE = 24
DELIVERIES = MINUTES * PER_MINUTE

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


def fill(database: Path, account_id: str, first_minute: int) -> None:
    """Record a month of deliveries for an account, as the emulator itself does; it must not be running."""
    with closing(sqlite3.connect(database)) as connection, connection:
        at_ms = first_minute * 60_000
        connection.execute(_ATTEMPTS, (DELIVERIES, at_ms, at_ms))
        connection.executemany(
            _MINUTES,
            (
                (account_id, minute, PER_MINUTE, PER_MINUTE, PER_MINUTE, PER_MINUTE * 900)
                for minute in range(first_minute, first_minute + MINUTES)
            ),
        )
        connection.execute(_DAYS)
