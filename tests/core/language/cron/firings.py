"""The firings of an expression, as text."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

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


def table(text: str) -> pytest.MarkDecorator:
    """Rows of a name, an expression (with its zone before it), an instant, and the firings after that, in UTC.

    A date holds for the times behind it; without a year it is of that of the instant. `#` begins a comment.
    """
    rows = []
    for line in (line.strip() for line in text.strip().splitlines()):
        if not line.startswith("#"):
            name, spec, after, found = (cell.strip() for cell in line.split("|"))
            expected, day = [], ""
            for word in found.split():
                if "-" in word:
                    day = word if len(word) == 10 else f"{after[:4]}-{word}"
                else:
                    expected.append(f"{day} {word}")
            prefix = "CRON_TZ=" if spec[0].isalpha() else ""
            rows.append(pytest.param(prefix + spec, after, expected, id=name))
    return pytest.mark.parametrize(("spec", "after", "expected"), rows)
