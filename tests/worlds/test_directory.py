"""Finding worlds by their ids, tokens and logins (D-301)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
from msgspec.structs import replace

from emulator.core.commands import RotateToken
from emulator.core.state_view import StateView
from emulator.engine.driver import Driver
from emulator.worlds.world import World
from tests.harness.emulators import InProcess, in_process
from tests.harness.loops import on_loop
from tests.worlds.test_registry import create


@on_loop
async def test_a_new_world_looks_through_no_other() -> None:
    async with in_process() as emulator:
        worlds = emulator.emulation.worlds
        first = await create(worlds, "a")
        looked_at: list[str] = []

        class Watched(Driver):
            @property
            def state(self) -> StateView:
                looked_at.append("a")
                return super().state

        first.driver.__class__ = Watched
        await create(worlds, "b")
        assert worlds.by_token("nobody's") is None
        assert worlds.by_login("nobody", "nothing") is None
        await worlds.delete("b")
        assert looked_at == []


Change = Callable[[InProcess, World], Awaitable[object]]


async def _rotate_token(emulator: InProcess, world: World) -> None:
    await world.submit(RotateToken(account_id=world.account().id))


async def _change_token(emulator: InProcess, world: World) -> None:
    await emulator.emulation.worlds.change_account(world, replace(world.account(), token="another"))


async def _swap_tokens(emulator: InProcess, world: World) -> None:
    account = world.account()
    swapped = replace(account, token=account.read_only_token, read_only_token=account.token)
    await emulator.emulation.worlds.change_account(world, swapped)


async def _reset(emulator: InProcess, world: World) -> None:
    await _rotate_token(emulator, world)
    await emulator.emulation.worlds.reset(world, {"accounts": [{"token": "fixed"}]})


async def _restore(emulator: InProcess, world: World) -> None:
    await world.save_snapshot("s")
    await _rotate_token(emulator, world)
    await emulator.emulation.worlds.restore_snapshot(world, "s")


@pytest.mark.parametrize("change", [_rotate_token, _change_token, _swap_tokens, _reset, _restore])
def test_a_world_is_found_by_the_tokens_it_has_and_by_no_others(change: Change) -> None:
    @on_loop
    async def test() -> None:
        async with in_process() as emulator:
            worlds = emulator.emulation.worlds
            world = await create(worlds, "a")
            await create(worlds, "b")
            before = world.account()
            assert worlds.by_token(before.token) is not None
            assert worlds.by_token(before.read_only_token) is not None

            await change(emulator, world)

            after = world.account()
            for token in {before.token, before.read_only_token, after.token, after.read_only_token}:
                found = worlds.by_token(token)
                if token in (after.token, after.read_only_token):
                    assert found is not None
                    assert (found.world, found.is_read_only) == (world, token == after.read_only_token)
                else:
                    assert found is None

    test()
