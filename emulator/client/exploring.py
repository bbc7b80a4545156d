"""The same test under many seeds, and the fewest disturbances with which it still fails (D-424)."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any, Unpack, cast

from emulator.client.aio.emulator import AsyncEmulator
from emulator.client.server import Options
from emulator.client.session import Session
from emulator.client.sync.emulator import Emulator

DEFAULT_CHAOS = 0.2
# A world that began elsewhere would meet other disturbances under the same seed.
_EPOCH = "2026-01-01T00:00:00Z"
# Shrinking ends here, though fewer disturbances might do.
_MOST_RUNS = 200

_Test = Callable[[Emulator], object]
_AsyncTest = Callable[[AsyncEmulator], Coroutine[Any, Any, object]]
Test = _Test | _AsyncTest

# What chance did in a world: the names of attempts, each with what that was in words.
Disturbances = Mapping[str, str]


def explore(
    test: Test,
    seeds: Iterable[int] = range(100),
    *,
    without: Sequence[str] = (),
    **options: Unpack[Options],
) -> None:
    """Run a test under many seeds, each time in a fresh world with chaos and another order of simultaneous deliveries.

        >>> from emulator import explore
        >>> def test(emulator):
        ...     emulator.publish("https://app.example.com/hook", retries=5)
        ...     emulator.clock.drain()
        ...     assert any(delivery.succeeded for delivery in emulator.deliveries())
        >>> explore(test, seeds=range(5))

    The first failing seed ends it: the test is run again with ever fewer disturbances, and the exception
    of the smallest run that fails is raised, with a note that names the seed, the call that repeats it, and
    the disturbances that remain. Attempts in `without` are spared. A coroutine function gets an
    `AsyncEmulator`. The options are those of `Emulator`; `chaos` is 0.2 without it, and all worlds begin at
    `epoch`, 2026-01-01 without it. Raises: what the test raises.
    """
    epoch, chaos = options.get("epoch", _EPOCH), options.get("chaos", DEFAULT_CHAOS)
    with Emulator(**options) as server:
        for seed in seeds:

            def fails(spared: Sequence[str], seed: int = seed) -> _Failure | None:
                wanted = {"level": chaos, "except": list(spared)}
                return _failure(test, server.new_world(seed=seed, epoch=epoch, chaos=wanted))

            failure = fails(without)
            if failure is not None:
                raise _shrunk(failure, fails, getattr(test, "__name__", "test"), seed, chaos, without)


class _Failure:
    def __init__(self, error: BaseException, met: Disturbances) -> None:
        self.error = error
        self.met = met


def _failure(test: Test, world: Emulator) -> _Failure | None:
    """What a test raises in a world, and what it met there; None if it passes."""
    met: Disturbances = {}
    try:
        with world:
            try:
                if inspect.iscoroutinefunction(test):
                    asyncio.run(cast(_AsyncTest, test)(AsyncEmulator.sharing(world)))
                else:
                    cast(_Test, test)(world)
            finally:
                met = disturbances_of(world)
    except (KeyboardInterrupt, SystemExit, asyncio.CancelledError):
        raise
    except BaseException as error:  # An edge: whatever the test raises is its failure, pytest's own included.
        return _Failure(error, met)
    return None


def _shrunk(
    first: _Failure,
    fails: Callable[[Sequence[str]], _Failure | None],
    name: str,
    seed: int,
    chaos: float,
    without: Sequence[str],
) -> BaseException:
    smallest = first

    def run(spared: Sequence[str]) -> Disturbances | None:
        nonlocal smallest
        failure = fails((*without, *spared))
        if failure is None or type(failure.error) is not type(first.error):
            return None
        smallest = failure
        return failure.met

    spared, remaining = fewest(first.met, run)
    all_spared = [*without, *spared]
    call = f"explore({name}, seeds=[{seed}], chaos={chaos:g}"
    call += f", without={all_spared})" if all_spared else ")"
    smallest.error.add_note(report(seed, first.met, remaining, call))
    return smallest.error


def fewest(
    met: Disturbances, run: Callable[[Sequence[str]], Disturbances | None]
) -> tuple[tuple[str, ...], Disturbances]:
    """Spare disturbances one after another, many at a time at first, as long as the test still fails.

    `run` makes a run that spares some and answers what it met, None if it passes. Returns what can be
    spared, and what remains.
    """
    spared: tuple[str, ...] = ()
    size, runs = max(1, len(met) // 2), 0
    while met and runs < _MOST_RUNS:
        place, is_smaller = 0, False
        while place < len(met) and runs < _MOST_RUNS:
            chunk = tuple(met)[place : place + size]
            found = run((*spared, *chunk))
            runs += 1
            if found is None:
                place += size
            else:
                spared, met, is_smaller = (*spared, *chunk), found, True
        if size == 1 and not is_smaller:
            break
        size = max(1, size // 2)
    return spared, met


def disturbances_of(world: Emulator, timeout_s: float = 10.0) -> Disturbances:
    """What chance did in a world so far, what is still to come included."""
    session = world.session
    return session.server.background.submit(_disturbances(session)).result(timeout_s)


async def _disturbances(session: Session) -> Disturbances:
    done = [(each.chaos.id, each.chaos.did) for each in await session.deliveries() if each.chaos is not None]
    upcoming: dict[str, Any] = await session.control("GET", "upcoming")
    done += [(each["chaos"]["id"], each["chaos"]["did"]) for each in upcoming["items"] if "chaos" in each]
    found: dict[str, str] = {}
    for mark, did in done:
        found[mark] = f"{found[mark]}; {did}" if mark in found else did
    return found


def report(seed: int, met: Disturbances, remaining: Disturbances, repeat: str) -> str:
    """What is told of a test that fails under a seed; `repeat` is the line that repeats it."""
    if remaining:
        head = f"It fails under seed {seed} with {len(remaining)} of {len(met)} disturbances (message.attempt):"
    else:
        head = f"It fails under seed {seed}, and without any of {len(met)} disturbances."
    return "\n".join([head, *(f"  {mark}  {did}" for mark, did in remaining.items()), f"Repeat it: {repeat}"])
