"""`svc-emulator demo`: a server, a receiver and a week of deliveries, checked one by one."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import time
from collections.abc import AsyncIterator, Callable
from socket import socket
from typing import TYPE_CHECKING

import click

from emulator.cli.failures import Failure

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from emulator.cli.demo.timeline import Week

# Far more than it takes; whatever hangs, the demo ends.
_LIMIT_S = 60


@click.command(epilog="Example: svc-emulator demo")
def demo() -> None:
    """Show everything in one go, with no set-up and no network.

    Starts a server in memory and a real HTTP receiver that verifies every signature, publishes
    messages of every kind, fast-forwards a week, and prints what was delivered when. Succeeds only
    if everything that should have arrived did, at its instant and with a valid signature.
    """
    from emulator.cli.demo import timeline
    from emulator.server import serving

    # What is imported never becomes garbage; without this the collector would look at it again and again.
    gc.freeze()
    console = timeline.console()
    try:
        week = serving.run(lambda: _within_limit(lambda text: console.print(text)))
    except TimeoutError as error:
        raise Failure(f"the demo was not done after {_LIMIT_S} s") from error
    console.print(timeline.timeline(week.deliveries, can_tick=_can_print("✓", console.encoding)))
    problems = timeline.mismatches(week)
    for problem in problems:
        console.print(problem, style="red", markup=False)
    if problems:
        raise Failure(f"the week did not go as planned, differences: {len(problems)}")
    console.print()
    console.print(timeline.summary(week), style="bold")
    console.print(timeline.HINTS)


def _can_print(text: str, encoding: str) -> bool:
    try:
        text.encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return False
    return True


async def _within_limit(say: Callable[[str], None]) -> Week:
    async with asyncio.timeout(_LIMIT_S):
        return await _live_through(say)


async def _live_through(say: Callable[[str], None]) -> Week:
    from emulator.cli.demo import story, timeline
    from emulator.cli.demo.client import DemoClient
    from emulator.cli.demo.receiver import Receiver, SigningKeys
    from emulator.server import bootstrap, serving
    from emulator.server.settings import Settings

    settings = Settings(clock="frozen", epoch=story.EPOCH, external="fail")
    async with contextlib.AsyncExitStack() as stack:
        emulation = await bootstrap.start(settings)
        stack.push_async_callback(emulation.close)
        listener, inbox = serving.listen("127.0.0.1", 0), serving.listen("127.0.0.1", 0)
        url, receiver_url = serving.url_of(listener), serving.url_of(inbox)
        await stack.enter_async_context(_served(emulation.app, listener))
        client = await stack.enter_async_context(DemoClient(url, emulation.dialect.header_prefix))
        keys = await client.sign_in()
        receiver = Receiver(
            receiver_url,
            SigningKeys(issuer=emulation.dialect.issuer, **keys),
            emulation.dialect.header_prefix,
            story.REPLIES,
        )
        await stack.enter_async_context(_served(receiver.app, inbox))
        say(timeline.introduction(url, receiver_url))
        began = time.perf_counter()
        for publication in story.PUBLICATIONS:
            await client.publish(publication, receiver_url)
        await client.advance(f"{story.DAYS}d")
        wall_s = time.perf_counter() - began
        return timeline.Week(
            deliveries=[receiver.confirm(entry) for entry in await client.deliveries()],
            dead_letters=await client.dead_letters(),
            wall_s=wall_s,
        )


@contextlib.asynccontextmanager
async def _served(app: ASGIApp, listener: socket) -> AsyncIterator[None]:
    from emulator.server import serving

    stop = asyncio.Event()
    task = asyncio.get_running_loop().create_task(serving.serve(app, listener, server="uvicorn", stop=stop))
    try:
        yield
    finally:
        stop.set()
        await task
