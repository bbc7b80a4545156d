"""The process around the server, as far as no server is needed for it."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator

import pytest

from emulator.server import serving
from tests.harness.loops import PATIENCE_S


class LoopWithoutHandlers(asyncio.SelectorEventLoop):
    """A loop that has no handlers of signals, like those of Windows."""

    def add_signal_handler(self, *_: object) -> None:
        raise NotImplementedError


@pytest.fixture
def _signals_as_before() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("_signals_as_before")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_server_in_order_where_the_loop_has_no_handlers(number: signal.Signals) -> None:
    async def main() -> None:
        stop = asyncio.Event()
        serving.stop_on_signals(stop)
        signal.raise_signal(number)
        await asyncio.wait_for(stop.wait(), PATIENCE_S)

    with asyncio.Runner(loop_factory=LoopWithoutHandlers) as runner:
        runner.run(main())
