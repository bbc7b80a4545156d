"""Lists that come page by page, whatever the length of the pages."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from random import Random
from typing import Any

import pytest

from emulator.client import pages

ENTRIES = list(range(25))


class Journal:
    """Answers with pages that are shorter than asked for, as those with long bodies are."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self.sizes: list[int] = []

    def page(self, query: Mapping[str, str]) -> dict[str, Any]:
        assert query["url"] == "https://app.test"
        start, size = int(query.get("cursor", "0")), int(query["limit"])
        self.sizes.append(size)
        end = start + self._random.randint(0, size)
        return {
            "entries": ENTRIES[start:end],
            "cursor": str(end) if end < len(ENTRIES) else None,
            "dropped": {"until_ms": 7},
        }


@pytest.mark.parametrize("most", [1, 2, 10, 24, 25, 26, 1_000, None])
@pytest.mark.parametrize("seed", range(5))
def test_a_list_has_as_many_entries_as_were_asked_for(seed: int, most: int | None) -> None:
    """D-795: each once, in order, and the cursor leads to the rest."""
    journal = Journal(seed)
    query = {"url": "https://app.test"}
    answer = pages.read(pages.reading("entries", query, most, largest=10), journal.page)
    assert answer["entries"] == ENTRIES[:most]
    assert answer["dropped"] == {"until_ms": 7}
    assert (answer["cursor"] is None) == (most is None or most >= 25)
    assert max(journal.sizes) <= min(10, most or 10)
    if answer["cursor"] is not None:
        rest = pages.reading("entries", {**query, "cursor": answer["cursor"]})
        assert pages.read(rest, journal.page)["entries"] == ENTRIES[most:]


def test_a_list_is_read_by_calls_that_are_awaited_too() -> None:
    journal = Journal(1)

    async def page(query: pages.Query) -> pages.Answer:
        await asyncio.sleep(0)
        return journal.page(query)

    reading = pages.reading("entries", {"url": "https://app.test"}, 20)
    assert asyncio.run(pages.read_async(reading, page))["entries"] == ENTRIES[:20]
