"""Lists that come page by page, read on to their end or to a number of entries: for Python, the shell and agents.

Nothing is sent here. The loop yields the query of each page and is sent the answer, so that it serves callers that
block and callers on an event loop.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Mapping
from typing import Any, TypeAlias

Query: TypeAlias = Mapping[str, str]
Answer: TypeAlias = Mapping[str, Any]
Reading: TypeAlias = Generator[dict[str, str], Answer, dict[str, Any]]

# The most entries of a page of the control API.
_LARGEST = 1_000


def reading(
    name: str,
    query: Query,
    most: int | None = None,
    *,
    size: str = "limit",
    largest: int = _LARGEST,
) -> Reading:
    """The list in the field `name`: one answer, as of a single page, with the entries of all pages.

    It ends after `most` entries, without which it is whole. A page may be shorter than its query says in `size`; only
    a page without a cursor is the last. The cursor of the result continues behind its last entry.
    """
    # Only the cursor says where a list ends (D-795).
    entries: list[Any] = []
    place: dict[str, str] = {}
    while True:
        count = largest if most is None else min(largest, most - len(entries))
        page = yield {**query, **place, size: str(count)}
        entries += page[name]
        cursor = page.get("cursor")
        if cursor is None or (most is not None and len(entries) >= most):
            return {**page, name: entries, "cursor": cursor}
        place = {"cursor": cursor}


def read(pages: Reading, call: Callable[[Query], Answer]) -> dict[str, Any]:
    """The result of a reading, by calls that block. Raises what a call raises."""
    try:
        query = next(pages)
        while True:
            query = pages.send(call(query))
    except StopIteration as end:
        whole: dict[str, Any] = end.value
        return whole


async def read_async(pages: Reading, call: Callable[[Query], Awaitable[Answer]]) -> dict[str, Any]:
    """The same by calls that are awaited."""
    try:
        query = next(pages)
        while True:
            query = pages.send(await call(query))
    except StopIteration as end:
        whole: dict[str, Any] = end.value
        return whole
