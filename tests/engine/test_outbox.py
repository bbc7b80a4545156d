"""Attempts on their way: each is routed once, and only those to one origin wait for each other."""

from __future__ import annotations

import weakref

import pytest

from emulator.engine.outbox import Rooms
from tests.harness.engines import Engine
from tests.harness.loops import on_loop
from tests.harness.simulations import SECOND, answered

A, B = "http://a.test/hook", "http://b.test/hook"


def test_attempts_to_one_origin_share_a_room_that_lasts_as_long_as_it_is_used() -> None:
    rooms = Rooms(2)
    room = rooms.at("http://a.test")
    assert rooms.at("http://a.test") is room
    assert rooms.at("http://b.test") is not room

    seen = weakref.ref(room)
    del room

    assert seen() is None


@pytest.mark.parametrize("is_frozen", [True, False], ids=["frozen", "running"])
@pytest.mark.parametrize("concurrency", [1, 3])
def test_every_attempt_is_routed_once(is_frozen: bool, concurrency: int) -> None:
    @on_loop
    async def test() -> None:
        engine = Engine(is_frozen=is_frozen, concurrency=concurrency)
        engine.transport.inside[B] = answered()
        for url in (A, B, A, B):
            await engine.publish(url)
            await engine.publish(url, delay_ms=SECOND)

        await engine.driver.settle()
        await engine.driver.advance.by(SECOND)

        assert len(engine.finished()) == 8
        assert sorted(engine.transport.routed) == [(number, 1) for number in range(1, 9)]

    test()
