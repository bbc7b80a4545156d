"""The destination rules of an `AsyncEmulator`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args

from emulator.client.aio.link import Part
from emulator.client.arguments import (
    Duration,
    Scripted,
    check_choice,
    check_rule,
    duration,
    given,
    response_of,
    sequence_of,
)
from emulator.client.control import segment
from emulator.client.errors import has_to_be_awaited, is_error_of_a_call

__tracebackhide__ = is_error_of_a_call

Fault = Literal["refused", "timeout", "reset", "dns", "tls"]


@has_to_be_awaited
class AsyncDestinations(Part):
    """The world's destination rules: what is done for a destination instead of, or before, the network.

    `url` is exact or a glob in which `*` matches any characters; `times` is how many attempts a rule
    answers before the next one has its turn; `latency` passes on the virtual clock; `chance` (0 to 1) is
    the share of attempts that it meets, drawn from the world's seed. Each method answers the rule's
    id, and raises Refused naming what cannot be used.
    """

    async def respond(
        self,
        url: str,
        status: int = 200,
        *,
        headers: Mapping[str, str] | None = None,
        body: str | None = None,
        json: Any = None,
        latency: Duration | None = None,
        method: str | None = None,
        times: int | None = None,
        chance: float | None = None,
    ) -> str:
        """Answer with a response, whose body is a text or `json`.

        >>> async with AsyncEmulator() as emulator:
        ...     rule_id = await emulator.destinations.respond("https://api.example.com/*", status=503, times=1)
        ...     message_id = await emulator.publish("https://api.example.com/orders")
        ...     report = await emulator.clock.drain()
        ...     [delivery.response.status for delivery in await emulator.deliveries()]
        [503, 200]
        """
        answer = {"status": status, "headers": headers, "body": body, "json": json, "latency": latency}
        return await self._add(url, method, times, respond=response_of("", answer), chance=chance)

    async def sequence(self, url: str, answers: Sequence[Scripted], *, method: str | None = None) -> str:
        """Answer with one response after the other, one per attempt; the last repeats.

        An int is a status; a mapping has `status`, `headers`, `body` or `json`, and `latency`, as `respond`.
        """
        return await self._add(url, method, None, sequence=sequence_of(answers))

    async def forward(self, url: str, to: str, *, method: str | None = None, times: int | None = None) -> str:
        """Send to another origin, such as `http://127.0.0.1:3000`: path, query and signature stay."""
        if not isinstance(to, str):
            raise TypeError(f"to: expected an origin such as http://127.0.0.1:3000, got {to!r}")
        return await self._add(url, method, times, forward_to=to)

    async def fault(
        self,
        url: str,
        fault: Fault,
        *,
        latency: Duration | None = None,
        method: str | None = None,
        times: int | None = None,
        chance: float | None = None,
    ) -> str:
        """Fail as the network does."""
        check_choice("fault", fault, get_args(Fault))
        rule: dict[str, Any] = {"fault": fault, "chance": chance}
        if latency is not None:
            rule["latency"] = duration("latency", latency)
        return await self._add(url, method, times, **rule)

    async def disturb(
        self,
        url: str,
        *,
        chance: float | None = None,
        duplicate: bool | Duration = False,
        reorder: bool | Duration = False,
        latency: Duration | tuple[Duration, Duration] | None = None,
        method: str | None = None,
        times: int | None = None,
    ) -> str:
        """Do what at-least-once delivery allows, and leave the answer to later rules or the destination.

        >>> async with AsyncEmulator() as emulator:
        ...     rule_id = await emulator.destinations.disturb("https://app.example.com/*", duplicate=True)
        ...     message_id = await emulator.publish("https://app.example.com/hook")
        ...     [delivery.chaos.did if delivery.chaos else None for delivery in await emulator.deliveries()]
        [None, 'duplicate of attempt 1']

        `chance` (0 to 1) is the share of attempts that it meets, drawn from the world's seed. `duplicate`
        makes a delivery again, at once or after a while; `reorder` lets an attempt leave behind others of
        its instant, or up to so long after it; `latency` is one, or the least and the most.
        """
        check_rule(url, method, times, chance)
        rule: dict[str, Any] = {"chance": chance}
        for name, value in (("duplicate", duplicate), ("reorder", reorder)):
            if value is not False:
                rule[name] = value if isinstance(value, bool) else duration(name, value)
        if latency is not None:
            if isinstance(latency, list) or (isinstance(latency, tuple) and len(latency) != 2):
                raise TypeError(f"latency: expected one, or a tuple of the least and the most, got {latency!r}")
            rule["latency"] = (
                {"min": duration("latency[0]", latency[0]), "max": duration("latency[1]", latency[1])}
                if isinstance(latency, tuple)
                else duration("latency", latency)
            )
        if set(given(rule)) <= {"chance"}:
            raise TypeError("expected something to do: duplicate, reorder or latency")
        return await self._add(url, method, times, **rule)

    async def add(self, rule: Mapping[str, Any]) -> str:
        """Add a rule in the control API's JSON."""
        rule_id: str = (await self._link.control("POST", "destinations", rule))["id"]
        self._link.session.rules.add(rule_id)
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
        check_rule(url, method, times, what.get("chance"))
        rule = {"match": given({"url": url, "method": method}), "times": times, **what}
        return await self.add(given(rule))
