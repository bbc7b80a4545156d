"""The destination rules of an `AsyncEmulator`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from emulator.client.aio.link import AsyncLink
from emulator.client.control import segment
from emulator.client.errors import is_emulator_error
from emulator.client.values import Duration, duration, given

__tracebackhide__ = is_emulator_error

Fault = Literal["refused", "timeout", "reset", "dns", "tls"]


class AsyncDestinations:
    """The world's destination rules: what is done for a destination instead of, or before, the network.

    `url` is exact or a glob in which `*` matches any characters; `times` is how many attempts a rule
    answers before the next one has its turn; `latency` passes on the virtual clock. Each method
    answers the rule's id, and raises Refused naming what cannot be used.
    """

    def __init__(self, link: AsyncLink) -> None:
        self._link = link

    async def respond(
        self,
        url: str,
        status: int = 200,
        *,
        headers: Mapping[str, str] | None = None,
        body: str | None = None,
        latency: Duration | None = None,
        method: str | None = None,
        times: int | None = None,
    ) -> str:
        """Answer with a response.

        >>> async with AsyncEmulator() as emulator:
        ...     rule_id = await emulator.destinations.respond("https://api.example.com/*", status=503, times=1)
        ...     message_id = await emulator.publish("https://api.example.com/orders")
        ...     report = await emulator.clock.drain()
        ...     [delivery.response.status for delivery in await emulator.deliveries()]
        [503, 200]
        """
        answer = {"status": status, "headers": headers, "body": body}
        if latency is not None:
            answer["latency"] = duration(latency)
        return await self._add(url, method, times, respond=given(answer))

    async def sequence(self, url: str, answers: Sequence[int | Mapping[str, Any]], *, method: str | None = None) -> str:
        """Answer with one response after the other, one per attempt; the last repeats. An int is a status."""
        listed = [{"status": answer} if isinstance(answer, int) else dict(answer) for answer in answers]
        return await self._add(url, method, None, sequence=listed)

    async def forward(self, url: str, to: str, *, method: str | None = None, times: int | None = None) -> str:
        """Send to another origin, such as `http://127.0.0.1:3000`: path, query and signature stay."""
        return await self._add(url, method, times, forward_to=to)

    async def fault(
        self,
        url: str,
        fault: Fault,
        *,
        latency: Duration | None = None,
        method: str | None = None,
        times: int | None = None,
    ) -> str:
        """Fail as the network does."""
        rule: dict[str, Any] = {"fault": fault}
        if latency is not None:
            rule["latency"] = duration(latency)
        return await self._add(url, method, times, **rule)

    async def add(self, rule: Mapping[str, Any]) -> str:
        """Add a rule in the control API's JSON."""
        rule_id: str = (await self._link.control("POST", "destinations", rule))["id"]
        return rule_id

    async def all(self) -> list[dict[str, Any]]:
        """The rules in the control API's JSON, in the order in which they are asked."""
        rules: list[dict[str, Any]] = (await self._link.control("GET", "destinations"))["destinations"]
        return rules

    async def remove(self, rule_id: str) -> None:
        """Remove one rule. Raises Refused for an unknown id."""
        await self._link.control("DELETE", f"destinations/{segment(rule_id)}")

    async def clear(self) -> None:
        """Remove all rules."""
        await self._link.control("DELETE", "destinations")

    async def _add(self, url: str, method: str | None, times: int | None, **what: Any) -> str:
        rule = {"match": given({"url": url, "method": method}), "times": times, **what}
        return await self.add(given(rule))
