"""The messages of an `AsyncEmulator`."""

from __future__ import annotations

from typing import Unpack

from emulator.client.aio.link import AsyncLink
from emulator.client.errors import is_emulator_error
from emulator.client.filters import Filters, filter_query
from emulator.client.resources import Message, MessageStatus, read_message, read_status
from emulator.client.values import given, path_of

__tracebackhide__ = is_emulator_error

_MESSAGES = "/v2/messages"
_PAGE = "1000"


class AsyncMessages:
    """The messages of the world. Each method raises Refused with status and field.

    >>> async with AsyncEmulator() as emulator:
    ...     message_id = await emulator.publish("https://app.example.com/hook", delay="1h", label="orders")
    ...     cancelled = await emulator.messages.cancel_all(label="orders")
    ...     (cancelled, [message.state for message in await emulator.messages.all(label="orders")])
    (1, ['CANCELED'])
    """

    def __init__(self, link: AsyncLink) -> None:
        self._link = link

    async def all(
        self,
        *,
        state: str | None = None,
        url: str | None = None,
        label: str | None = None,
        queue: str | None = None,
        schedule_id: str | None = None,
    ) -> list[MessageStatus]:
        """The messages of all accounts that fit, and where each stands, the newest first.

        `state` is one of `MessageStatus`, `live` or `ended`, or several with commas between; `url` may be
        a glob. Messages that have ended are listed as long as the world's history has them.
        """
        filters = {"state": state, "url": url, "label": label, "queue": queue, "schedule": schedule_id}
        found: list[MessageStatus] = []
        cursor: str | None = ""
        while cursor is not None:
            place = {"cursor": cursor} if cursor else {}
            page = await self._link.control("GET", "messages", query={**given(filters), "limit": _PAGE, **place})
            found += map(read_status, page["messages"])
            cursor = page["cursor"]
        return found

    async def get(self, message_id: str) -> Message:
        """One message as the service shows it, until a minute of virtual time after its end."""
        return read_message(await self._link.messaging("GET", path_of(_MESSAGES, message_id)))

    async def cancel(self, message_id: str) -> None:
        """Cancel one. Raises Refused for one that has ended."""
        await self._link.messaging("DELETE", path_of(_MESSAGES, message_id))

    async def cancel_all(self, **filters: Unpack[Filters]) -> int:
        """Cancel all that fit every filter and have not ended; how many they were."""
        query = filter_query(filters, Filters.__annotations__)
        cancelled: int = (await self._link.messaging("DELETE", _MESSAGES, query=query))["cancelled"]
        return cancelled
