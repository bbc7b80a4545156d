"""The firings of an expression, as text."""

from __future__ import annotations

from datetime import UTC, datetime

from emulator.core.language import cron

DAY_MS = 86_400_000


def at(text: str) -> int:
    """Epoch ms of a time in UTC such as `2024-03-10 07:00`."""
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()) * 1000


def firings(spec: str, after: str, count: int) -> list[str]:
    schedule, instant, found = cron.parse(spec), at(after), []
    for _ in range(count):
        instant = schedule.next_after(instant)
        found.append(datetime.fromtimestamp(instant / 1000, UTC).strftime("%Y-%m-%d %H:%M"))
    return found
