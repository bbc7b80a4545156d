"""Ids and tokens that a world has, and so no other may have (D-301)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

import pytest
from msgspec.structs import replace

from emulator.core.commands import DeleteSearchIndex, RotateToken
from emulator.core.state import Fact, StateView
from emulator.worlds.callers import Identifiers, may_differ
from emulator.worlds.setup import identifiers_of
from emulator.worlds.world import World
from tests.harness.emulators import InProcess, with_emulator
from tests.worlds.registry.callers import create

Change = Callable[[InProcess, World], Awaitable[object]]


def observing(emulator: InProcess) -> Identifiers:
    """The identifiers of the worlds that are made from now on."""
    identifiers = Identifiers()

    def observe(world: World, state: StateView, produced: Sequence[Fact]) -> None:
        if may_differ(produced):
            identifiers.learn(world, state)

    emulator.emulation.worlds.observers.append(observe)
    return identifiers


async def _rotate_token(emulator: InProcess, world: World) -> None:
    await world.submit(RotateToken(account_id=world.account().id))


async def _change_token(emulator: InProcess, world: World) -> None:
    await emulator.emulation.worlds.change_account(world, replace(world.account(), token="another"))


async def _reset(emulator: InProcess, world: World) -> None:
    await emulator.emulation.worlds.reset(world, {"accounts": [{"token": "fixed"}]})


async def _restore(emulator: InProcess, world: World) -> None:
    await world.save_snapshot("s")
    await _rotate_token(emulator, world)
    await emulator.emulation.worlds.restore_snapshot(world, "s")


async def _delete_index(emulator: InProcess, world: World) -> None:
    (*_, index_id) = world.state.search_indexes
    await world.submit(DeleteSearchIndex(index_id=index_id))


@pytest.mark.parametrize("change", [_rotate_token, _change_token, _reset, _restore, _delete_index])
@with_emulator()
async def test_what_a_world_has_after_a_change_is_taken_and_what_it_had_is_free(
    emulator: InProcess, change: Change
) -> None:
    identifiers = observing(emulator)
    world = await create(emulator.emulation.worlds, "a")
    before = identifiers_of(world.state)

    await change(emulator, world)

    after = identifiers_of(world.state)
    for identifier in after:
        assert identifiers.found_elsewhere([identifier], "b") == (identifier, "a")
        assert identifiers.found_elsewhere([identifier], "a") is None
    assert identifiers.found_elsewhere(before - after, "b") is None
    # Those of a world that has gone are free as well.
    identifiers.forget("a")
    assert identifiers.found_elsewhere(after, "b") is None
