"""Publishing a message and waiting for its answer, in one call."""

from __future__ import annotations

from emulator.core.commands import Publish
from emulator.core.errors import Conflict
from emulator.core.model.answers import AttemptOutcome
from emulator.queries.history import DeliveryQuery
from emulator.worlds.world import World

# How often somebody who waits for a message looks whether the world still works.
_PATIENCE_S = 1.0


async def ask(world: World, command: Publish) -> AttemptOutcome:
    """Publish one message and wait until it has ended; how it did, by its last attempt.

    On a frozen clock a rule's latency passes only when somebody moves the clock. Raises Refused
    as `submit`; Conflict if the message ends without an answer, or the world is reset or removed.
    """
    generation = world.generation
    with world.watches.watch() as watch:
        [published] = (await world.submit(command)).accepted.messages
        while published.message_id in world.state.messages and generation == world.generation:
            world.driver.check()
            await watch.wait(_PATIENCE_S)
    if generation == world.generation:
        await world.driver.commit()
        page = await world.history.deliveries(DeliveryQuery(message_id=published.message_id))
        if page.items:
            return page.items[-1].outcome
    raise Conflict(f"message {published.message_id} has ended without an answer")
