"""The queues of an `AsyncEmulator`."""

from __future__ import annotations

from emulator.client.aio.link import AsyncLink
from emulator.client.errors import is_emulator_error
from emulator.client.resources import Queue, read_queue
from emulator.client.values import given, path_of

__tracebackhide__ = is_emulator_error

_QUEUES = "/v2/queues"


class AsyncQueues:
    """The queues of the world's built-in account. Each method raises Refused with status and field.

    >>> async with AsyncEmulator() as emulator:
    ...     queue = await emulator.queues.upsert("mail", parallelism=2, paused=True)
    ...     message_id = await emulator.publish("https://app.example.com", queue="mail")
    ...     (queue.parallelism, (await emulator.queues.get("mail")).lag)
    (2, 1)
    """

    def __init__(self, link: AsyncLink) -> None:
        self._link = link

    async def upsert(self, name: str, *, parallelism: int | None = None, paused: bool | None = None) -> Queue:
        """Create a queue, of parallelism 1 unless said otherwise, or change what is given of one that exists."""
        wanted = given({"queueName": name, "parallelism": parallelism, "paused": paused})
        await self._link.messaging("POST", _QUEUES, body=wanted)
        return await self.get(name)

    async def all(self) -> list[Queue]:
        """All queues."""
        return [read_queue(each) for each in await self._link.messaging("GET", _QUEUES)]

    async def get(self, name: str) -> Queue:
        """One queue."""
        return read_queue(await self._link.messaging("GET", path_of(_QUEUES, name)))

    async def pause(self, name: str) -> None:
        """Pause it: it takes messages, and delivers none."""
        await self._link.messaging("POST", path_of(_QUEUES, name, "pause"))

    async def resume(self, name: str) -> None:
        """Resume it."""
        await self._link.messaging("POST", path_of(_QUEUES, name, "resume"))

    async def delete(self, name: str) -> None:
        """Delete it, and drop its messages. One that does not exist is no error."""
        await self._link.messaging("DELETE", path_of(_QUEUES, name))
