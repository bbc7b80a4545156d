"""`svc-emulator demo`: a server, a receiver and a week of deliveries, checked one by one."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import urlsplit

import click

from emulator.cli.output import CommandFailed

if TYPE_CHECKING:
    from emulator.cli.demo_week import Reply, Week
    from emulator.queries.reports import Credentials


# Runs the week; its argument prints the progress.
Run: TypeAlias = "Callable[[Callable[[str], None]], Coroutine[Any, Any, Week]]"

# Far more than it takes, in case something hangs.
_LIMIT_S = 60


@click.command(epilog="Example: svc-emulator demo")
@click.pass_obj
def demo(run: Run | None, /) -> None:
    """Show everything in one go, with no set-up and no network.

    Starts a server in memory and a real HTTP receiver that verifies every signature, publishes
    messages of every kind, fast-forwards a week, and prints what was delivered when. Succeeds only
    if everything that should have arrived did, at its instant and with a valid signature.
    """
    from emulator.cli import demo_week
    from emulator.client.errors import EmulatorError
    from emulator.server import serving

    # What is imported never becomes garbage, so the collector need not look at it again.
    gc.freeze()
    console = demo_week.console()
    try:
        week = serving.run(lambda: asyncio.wait_for((run or run_week)(console.print), _LIMIT_S))
    except TimeoutError as error:
        raise CommandFailed(f"the demo was not done after {_LIMIT_S} s") from error
    except EmulatorError as error:
        raise CommandFailed(str(error)) from error
    can_tick = bool("✓".encode(console.encoding, "ignore"))
    console.print(demo_week.timeline(week.deliveries, can_tick=can_tick, is_narrow=console.width < demo_week.WIDTH))
    problems = demo_week.mismatches(week)
    for problem in problems:
        console.print(problem, style="red", markup=False)
    if problems:
        raise CommandFailed(f"the week did not go as planned, differences: {len(problems)}")
    console.print()
    console.print(demo_week.summary(week), style="bold")
    console.print(demo_week.HINTS)


async def run_week(
    say: Callable[[str], None],
    *,
    replies: Mapping[str, Sequence[Reply]] | None = None,
    known: Callable[[Credentials], Credentials] = lambda credentials: credentials,
) -> Week:
    """Publish everything, advance a week, and report.

    `replies` are what the receiver answers instead of the planned ones, `known` gives the credentials that it knows.
    """
    from emulator.cli import demo_week
    from emulator.client.aio.emulator import AsyncEmulator
    from emulator.client.server import served
    from emulator.server import serving

    async with contextlib.AsyncExitStack() as stack:
        emulator = await stack.enter_async_context(AsyncEmulator(epoch=demo_week.EPOCH, external="fail"))
        inbox = serving.listen("127.0.0.1", 0)
        receiver_url = serving.url_of(inbox)
        answers = demo_week.REPLIES if replies is None else replies
        receiver = demo_week.DemoReceiver(receiver_url, known(emulator.credentials), emulator.dialect, answers)
        await stack.enter_async_context(served(receiver.app, inbox))
        say(demo_week.introduction(emulator.url, receiver_url))
        began = time.perf_counter()
        for each in demo_week.PUBLICATIONS:
            call = each.addressed(receiver_url)
            headers = {emulator.dialect.header_prefix + name: value for name, value in call.headers}
            headers["Content-Type"] = "application/json"
            await emulator.call(call.method, call.path, call.body, headers=headers)
        await emulator.clock.advance(f"{demo_week.DAYS}d")
        wall_s = time.perf_counter() - began
        letters = (await emulator.call("GET", "/v2/dlq")).json()["messages"]
        return demo_week.Week(
            deliveries=[receiver.confirm(delivery) for delivery in await emulator.deliveries()],
            dead_letters=[urlsplit(letter["url"]).path for letter in letters],
            wall_s=wall_s,
        )
