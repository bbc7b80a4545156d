"""The URL groups of an `AsyncEmulator`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from emulator.client.aio.link import AsyncLink
from emulator.client.errors import is_emulator_error
from emulator.client.resources import Endpoint, UrlGroup, read_url_group
from emulator.client.values import given, path_of

__tracebackhide__ = is_emulator_error

_GROUPS = "/v2/topics"


class AsyncUrlGroups:
    """The URL groups of the world's built-in account. Each method raises Refused with status and field.

    >>> async with AsyncEmulator() as emulator:
    ...     group = await emulator.url_groups.upsert("news", ["https://a.example.com", "https://b.example.com"])
    ...     published = await emulator.publish("news", "hello")
    ...     (len(group.endpoints), [message.url for message in published.messages])
    (2, ['https://a.example.com', 'https://b.example.com'])
    """

    def __init__(self, link: AsyncLink) -> None:
        self._link = link

    async def upsert(self, name: str, endpoints: Sequence[str | Endpoint]) -> UrlGroup:
        """Add endpoints, each a URL or an `Endpoint` with a name; the group is created if there is none."""
        if isinstance(endpoints, str):
            raise TypeError(f"endpoints: expected several, got {endpoints!r}; is [{endpoints!r}] meant?")
        listed = [Endpoint(each) if isinstance(each, str) else each for each in endpoints]
        wanted = [given({"url": each.url, "name": each.name}) for each in listed]
        await self._link.messaging("POST", path_of(_GROUPS, name, "endpoints"), body={"endpoints": wanted})
        return await self.get(name)

    async def remove(self, name: str, *, url: str | None = None, endpoint: str | None = None) -> None:
        """Remove the endpoint with a URL or a name. The group ends with its last one."""
        wanted = given({"url": url, "name": endpoint})
        await self._link.messaging("DELETE", path_of(_GROUPS, name, "endpoints"), body={"endpoints": [wanted]})

    async def set_headers(self, name: str, headers: Mapping[str, str]) -> UrlGroup:
        """Set the default headers of what is published to it, such as `Svc-Retries`."""
        return read_url_group(
            await self._link.messaging("PATCH", path_of(_GROUPS, name), body={"headers": dict(headers)})
        )

    async def all(self) -> list[UrlGroup]:
        """All URL groups."""
        return [read_url_group(each) for each in await self._link.messaging("GET", _GROUPS)]

    async def get(self, name: str) -> UrlGroup:
        """One URL group."""
        return read_url_group(await self._link.messaging("GET", path_of(_GROUPS, name)))

    async def delete(self, name: str) -> None:
        """Delete it. One that does not exist is no error."""
        await self._link.messaging("DELETE", path_of(_GROUPS, name))
