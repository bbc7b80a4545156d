"""Publish, enqueue and batch: what their answers say beside the messages."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from tests.support import Answer, InProcess, in_process, on_loop

Call = Callable[[InProcess], Awaitable[Answer]]
BATCH = [{"destination": "https://x.test/"}, {"destination": "https://y.test/"}]
LATER = {"Svc-Delay": "1h"}


@pytest.mark.parametrize(
    ("call", "cost"),
    [
        pytest.param(lambda emulator: emulator.post("/v2/publish/https://x.test/", LATER), 1, id="publish"),
        pytest.param(lambda emulator: emulator.post("/v2/enqueue/q/https://x.test/"), 1, id="enqueue"),
        pytest.param(lambda emulator: emulator.post("/v2/batch", body=BATCH), 2, id="batch"),
    ],
)
def test_calls_at_the_same_time_each_tell_what_was_left_of_the_day_after_them(
    call: Call, cost: int, tmp_path: Path
) -> None:
    """D-028."""

    @on_loop
    async def publish_at_once() -> None:
        # A file database, so that each call waits for its commit while the others are carried out.
        async with in_process(db=str(tmp_path / "world.db")) as emulator:
            answers = await asyncio.gather(*(call(emulator) for _ in range(3)))
            limits = {int(answer.headers["ratelimit-limit"]) for answer in answers}
            remaining = [int(answer.headers["ratelimit-remaining"]) for answer in answers]
            (limit,) = limits
            assert remaining == [limit - cost, limit - 2 * cost, limit - 3 * cost]
            assert {answer.headers["ratelimit-reset"] for answer in answers} == {"1767312000"}

    publish_at_once()
