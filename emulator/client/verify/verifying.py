"""Verifying a world over the control API, and telling what happened in it."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING

from emulator.client.errors import Refused
from emulator.client.verify.expectations import Expectation
from emulator.client.verify.mismatches import Surroundings, text_of
from emulator.client.verify.timeline import timeline, worth_explaining
from emulator.client.verify.verification import check

if TYPE_CHECKING:
    from emulator.client.session import Session


async def difference(session: Session, expectation: Expectation) -> str | None:
    """All there is to say about an expectation that the world does not meet; None if it does."""
    deliveries = await session.deliveries()
    # Asked for anew, because keys may have been rotated.
    credentials = await session.current_credentials()
    mismatch = check(expectation, deliveries, credentials, session.dialect)
    if mismatch is None:
        return None
    upcoming = await session.upcoming(None)
    nearest = () if mismatch.nearest is None else mismatch.nearest.message.attempts
    surroundings = Surroundings(
        deliveries=deliveries,
        clock=await session.clock(),
        upcoming=upcoming,
        explanations=await _explanations(session, worth_explaining(nearest, upcoming)),
    )
    return text_of(mismatch, surroundings)


async def timeline_of(session: Session) -> str:
    """What happened in the world, what is still to come, and why messages failed, as a readable table."""
    deliveries, upcoming = await session.deliveries(), await session.upcoming(None)
    explanations = await _explanations(session, worth_explaining(deliveries, upcoming))
    return timeline(deliveries, clock=await session.clock(), upcoming=upcoming, explanations=explanations)


async def _explanations(session: Session, message_ids: Iterable[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for message_id in message_ids:
        # A world that is reset meanwhile no longer knows its messages.
        with suppress(Refused):
            found[message_id] = (await session.explain(message_id))["summary"]
    return found
