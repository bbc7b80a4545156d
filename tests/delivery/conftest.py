from __future__ import annotations

import asyncio
import functools
import inspect
import sys
from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec

import pytest

P = ParamSpec("P")
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


def on_both_loops(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Makes an asynchronous test two ordinary ones, one on each event loop of `run`."""

    @functools.wraps(test)
    def with_loop(run: Run, *args: P.args, **kwargs: P.kwargs) -> None:
        run(test(*args, **kwargs))

    signature = inspect.signature(test)
    run = inspect.Parameter("run", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    with_loop.__dict__["__signature__"] = signature.replace(parameters=[run, *signature.parameters.values()])
    return with_loop
