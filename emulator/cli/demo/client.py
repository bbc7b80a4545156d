"""The demo's own client: it does over HTTP what a user's program and test would do."""

from __future__ import annotations

from types import TracebackType
from typing import Any
from urllib.parse import urlsplit

import aiohttp

from emulator.cli.demo.story import Publication
from emulator.cli.failures import Failure


class DemoClient:
    """Publishes with the account's token, and drives the clock. Raises Failure for any refusal."""

    def __init__(self, url: str, header_prefix: str) -> None:
        self._url = url
        self._prefix = header_prefix
        self._token = ""
        self._session = aiohttp.ClientSession()

    async def __aenter__(self) -> DemoClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._session.close()

    async def sign_in(self) -> dict[str, str]:
        """Take over the account's token; the answer has its `current` and `next` signing key."""
        queue = (await self._call("GET", "/_emulator/credentials"))["queue"]
        self._token = queue["token"]
        return {"current": queue["current_signing_key"], "next": queue["next_signing_key"]}

    async def publish(self, publication: Publication, receiver_url: str) -> None:
        await self._call(
            publication.method,
            publication.path.replace("{receiver}", receiver_url),
            publication.body.replace("{receiver}", receiver_url),
            {
                "Content-Type": "application/json",
                **{
                    self._prefix + name: value.replace("{receiver}", receiver_url)
                    for name, value in publication.headers
                },
            },
        )

    async def advance(self, duration: str) -> None:
        await self._call("POST", "/_emulator/clock/advance", f'{{"by": "{duration}"}}')

    async def deliveries(self) -> list[dict[str, Any]]:
        """The delivery journal."""
        found: list[dict[str, Any]] = (await self._call("GET", "/_emulator/deliveries?limit=1000"))["deliveries"]
        return found

    async def dead_letters(self) -> list[str]:
        """The paths of the destinations that were given up."""
        return [urlsplit(entry["url"]).path for entry in (await self._call("GET", "/v2/dlq"))["messages"]]

    async def _call(
        self, method: str, path: str, body: str | None = None, headers: dict[str, str] | None = None
    ) -> Any:
        headers = {"Authorization": f"Bearer {self._token}", **(headers or {})}
        async with self._session.request(method, self._url + path, data=body, headers=headers) as answer:
            text = await answer.text()
            if answer.status >= 300:
                raise Failure(f"{method} {path} was answered {answer.status}: {text}")
            return await answer.json() if text else None
