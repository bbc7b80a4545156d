"""The dead letters of an `AsyncEmulator`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Unpack

from emulator.client.aio.link import AsyncLink
from emulator.client.errors import is_emulator_error
from emulator.client.filters import DeadLetterFilters, filter_query
from emulator.client.publishing import MessageOptions, Published, option_headers, read_published
from emulator.client.resources import DeadLetter, read_dead_letter
from emulator.client.values import path_of

__tracebackhide__ = is_emulator_error

_DEAD_LETTERS = "/v2/dlq"
# The service's largest page, and the largest bulk call.
_PAGE = 100


class AsyncDeadLetters:
    """The dead letter queue of the world's built-in account. Each method raises Refused with status and field.

    >>> async with AsyncEmulator() as emulator:
    ...     rule_id = await emulator.destinations.respond("https://app.example.com/*", status=500, times=1)
    ...     message_id = await emulator.publish("https://app.example.com/hook", retries=0)
    ...     [letter] = await emulator.dead_letters.all(status=500)
    ...     again = await emulator.dead_letters.retry(letter.dead_letter_id)
    ...     (len(await emulator.deliveries()), await emulator.dead_letters.all())
    (2, [])
    """

    def __init__(self, link: AsyncLink) -> None:
        self._link = link

    async def all(self, **filters: Unpack[DeadLetterFilters]) -> list[DeadLetter]:
        """All dead letters that fit every filter, the oldest first."""
        query = {**filter_query(filters, DeadLetterFilters.__annotations__), "count": str(_PAGE)}
        found: list[DeadLetter] = []
        cursor: str | None = ""
        while cursor is not None:
            place = {"cursor": cursor} if cursor else {}
            page = await self._link.messaging("GET", _DEAD_LETTERS, query={**query, **place})
            found += map(read_dead_letter, page["messages"])
            cursor = page.get("cursor")
        return found

    async def get(self, dead_letter_id: str) -> DeadLetter:
        """One dead letter."""
        return read_dead_letter(await self._link.messaging("GET", path_of(_DEAD_LETTERS, dead_letter_id)))

    async def retry(
        self, dead_letter_id: str, *, headers: Mapping[str, str] | None = None, **options: Unpack[MessageOptions]
    ) -> Published:
        """Publish it again, with options that replace its own; the new message's id."""
        prefix = self._link.session.dialect.header_prefix
        said = option_headers(options, MessageOptions.__annotations__, prefix, headers)
        letter = await self.get(dead_letter_id)
        made = await self._link.messaging("POST", path_of(f"{_DEAD_LETTERS}/retry", dead_letter_id), None, said)
        return read_published(made, letter.url)

    async def retry_all(self, **filters: Unpack[DeadLetterFilters]) -> list[str]:
        """Publish all that fit every filter again; the new messages' ids. Those that fail meanwhile stay."""
        made: list[str] = []
        for ids in await self._ids(**filters):
            query = {"dlqIds": ",".join(ids)}
            answer = await self._link.messaging("POST", f"{_DEAD_LETTERS}/retry", query=query)
            made += [each["messageId"] for each in answer["responses"]]
        return made

    async def delete(self, dead_letter_id: str) -> None:
        """Delete one."""
        await self._link.messaging("DELETE", path_of(_DEAD_LETTERS, dead_letter_id))

    async def delete_all(self, **filters: Unpack[DeadLetterFilters]) -> int:
        """Delete all that fit every filter; how many they were."""
        deleted = 0
        for ids in await self._ids(**filters):
            deleted += (await self._link.messaging("DELETE", _DEAD_LETTERS, body={"dlqIds": ids}))["deleted"]
        return deleted

    async def _ids(self, **filters: Unpack[DeadLetterFilters]) -> list[list[str]]:
        """The ids in as many lists as calls are needed. All are read first: a retry may fail and come back."""
        ids = [letter.dead_letter_id for letter in await self.all(**filters)]
        return [ids[start : start + _PAGE] for start in range(0, len(ids), _PAGE)]
