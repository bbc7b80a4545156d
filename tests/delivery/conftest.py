from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

Run = Callable[[Coroutine[Any, Any, None]], None]


@pytest.fixture(params=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Run:
    """Runs a coroutine on a new event loop: the standard one, and the one the server uses."""
    if request.param == "asyncio":
        return asyncio.run
    if sys.platform == "win32":
        pytest.skip("uvloop does not run here")
    import uvloop

    def run_on_uvloop(coroutine: Coroutine[Any, Any, None]) -> None:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(coroutine)

    return run_on_uvloop
