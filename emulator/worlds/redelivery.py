"""Redelivering: an attempt of the delivery journal is sent again now, whatever has become of its message (D-705)."""

from __future__ import annotations

from contextlib import suppress

import anyio

from emulator.core.commands import Redeliver
from emulator.core.errors import Conflict, NotFound
from emulator.core.state import duplicate_subject
from emulator.queries.history import DeliveryQuery, RecordedDelivery
from emulator.worlds.world import World

# Among so many of a message's last attempts the new one is searched for.
_LATEST = 1_000
_LOOK_AGAIN_S = 1.0


async def redeliver(world: World, seq: int, given: str) -> tuple[int, RecordedDelivery | None]:
    """Send the attempt `seq` of the journal, as it was `given`, again; the redelivery's number, and what it made.

    That is None where the answer is not there yet (D-707): who calls while attempts are in flight may be a receiver, so
    the call waits no longer than a publish does. Raises NotFound, Conflict.
    """
    state = await world.current_state()
    page = await world.history.deliveries(DeliveryQuery(limit=1, seq=seq))
    if not page.items:
        raise NotFound("delivery", given)
    [attempt] = await world.history.as_sent(page.items)
    message, generation = attempt.message, world.generation
    wait_s = None if world.driver.outbox.in_flight == 0 and not world.driver.is_advancing else world.limits.settle_s
    with world.watches.watch() as watch:
        watch.start(state.now_ms, world.pace.rate)
        number = await world.submit(Redeliver(message=message, number=attempt.attempt))
        subject = duplicate_subject(message.message_id, attempt.attempt, number)
        with suppress(TimeoutError):
            with anyio.fail_after(wait_s):
                while world.generation == generation and subject in world.state.duplicates:
                    await watch.wait(_LOOK_AGAIN_S)
    if world.generation != generation:
        raise Conflict("the world was reset or restored before the answer came")
    latest = DeliveryQuery(limit=_LATEST, message_id=message.message_id, latest_first=True)
    recorded = (await world.history.deliveries(latest)).items
    made = [each for each in recorded if each.outcome.redelivery == number]
    return number, next(await world.history.as_sent(made), None)
