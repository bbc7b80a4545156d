"""Event loops for tests: each test has its own, and one that hangs fails instead."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

# How long a test waits for something that has to come; on a quiet machine nothing here takes a hundredth of it.
PATIENCE_S = 60


def on_loop(test: Callable[P, Awaitable[None]]) -> Callable[P, None]:
    """Makes an asynchronous test an ordinary one."""

    @functools.wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        async def main() -> None:
            async with asyncio.timeout(PATIENCE_S * 2):
                await test(*args, **kwargs)

        asyncio.run(main())

    return run


def spawn(work: Coroutine[Any, Any, R]) -> asyncio.Task[R]:
    """Start something that runs beside the test."""
    return asyncio.get_running_loop().create_task(work)


async def turns(count: int = 50) -> None:
    """Run every task that is ready."""
    for _ in range(count):
        await asyncio.sleep(0)


async def cancelled(task: asyncio.Task[Any]) -> None:
    """Cancel a task and wait for its end."""
    task.cancel()
    await asyncio.wait((task,))
    assert task.cancelled()
