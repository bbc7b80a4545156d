"""Waiting for deliveries in a world whose clock runs, by its event stream instead of polling."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, cast

from emulator.client.errors import EmulatorError, is_emulator_error
from emulator.client.records import Delivery, read_delivery
from emulator.client.session import Session
from emulator.client.verify.timeline import timeline, world_snapshot
from emulator.core.rules.destination_rules import matches_url
from emulator.wire.event_stream import Kind, StreamReader

__tracebackhide__ = is_emulator_error


@dataclass(frozen=True, slots=True, kw_only=True)
class AwaitedDeliveries:
    """The deliveries that are waited for: `count` of them, all of which fit. None is anything."""

    url: str | None
    message_id: str | None
    status: int | None
    outcome: str | None
    count: int

    def fits(self, delivery: Delivery) -> bool:
        return (
            (self.url is None or matches_url(self.url, delivery.url))
            and self.message_id in (None, delivery.message_id)
            and self.status in (None, delivery.status)
            and self.outcome in (None, "succeeded" if delivery.succeeded else "failed")
        )

    def __str__(self) -> str:
        """What is waited for, as the object of a sentence."""
        parts = [f"{self.count} deliveries" if self.count != 1 else "a delivery"]
        if self.url is not None:
            parts.append(f"to {self.url}")
        if self.message_id is not None:
            parts.append(f"of {self.message_id}")
        if self.status is not None:
            parts.append(f"answered {self.status}")
        if self.outcome is not None:
            parts.append(f"that {self.outcome}")
        return " ".join(parts)


async def wait_for(session: Session, awaited: AwaitedDeliveries, timeout_s: float) -> list[Delivery] | str:
    """The deliveries that fit, as soon as there are `awaited.count`; those that came before count.

    If too few come in time (seconds of real time), the text of the failure.
    Raises EmulatorError if the world ends meanwhile.
    """
    found: dict[int, Delivery] = {}
    try:
        async with (
            asyncio.timeout(timeout_s),
            session.stream() as lines,
        ):
            # Read after the stream was opened, which reports everything that follows.
            for delivery in await session.deliveries(url=awaited.url, message_id=awaited.message_id):
                if awaited.fits(delivery):
                    found[delivery.seq] = delivery
            if len(found) >= awaited.count:
                return list(found.values())
            reader = StreamReader()
            async for line in lines:
                event = reader.take(line)
                if event is None:
                    continue
                if event.kind == Kind.END:
                    break
                if event.kind == Kind.RESET:
                    found.clear()
                elif event.kind == Kind.ATTEMPT and awaited.fits(delivery := read_delivery(cast(Any, event.data))):
                    found[delivery.seq] = delivery
                if len(found) >= awaited.count:
                    return list(found.values())
    except TimeoutError:
        return await _timed_out(session, awaited, timeout_s, len(found))
    raise EmulatorError(f"the world {session.world} ended while {awaited} was waited for")


async def _timed_out(session: Session, awaited: AwaitedDeliveries, timeout_s: float, found: int) -> str:
    came = "none came" if found == 0 else f"{found} came"
    lines = [f"waited {timeout_s:g} s for {awaited}, and {came}"]
    clock = await session.clock()
    if clock.rate == 0 and clock.next_due_ms is not None:
        lines.append("The clock is frozen: what is due later needs clock.advance(...), not waiting.")
    journal = await session.newest_deliveries()
    snapshot = await world_snapshot(session, journal, journal.deliveries)
    return "\n".join([*lines, *snapshot.ineffective_calls, "", timeline(snapshot, has_ids=True)])
