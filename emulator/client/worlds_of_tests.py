"""The worlds in which tests run: one for each, by the pytest plugin, and one after the other, by `explore`.

Most of the plugin's options and of its marker `emulator` a world has by itself. What only a server can have, such as a
dialect, gives the test a server of its own; what no single test can have, such as the port of the run's server, is
refused. `explore` runs the same test under many seeds, and finds the fewest disturbances with which it still fails.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Unpack, cast

from emulator.client.aio.emulator import AsyncEmulator
from emulator.client.arguments import check_names
from emulator.client.errors import add_note
from emulator.client.server import Options, check_values
from emulator.client.session import Session
from emulator.client.sync.emulator import Emulator
from emulator.fixtures.files import document_of
from emulator.server.settings import Settings

# D-493.
# What `new_world` takes, by the names of `Emulator`; a clock's rate has another name there.
_OF_WORLD = frozenset(inspect.signature(Emulator.new_world).parameters) - {"self", "id", "strict"} | {"clock"}
_KNOWN = (*Options.__annotations__, "token")
# How a server is reached and what it keeps: the run has one, and the worlds of tests last no longer than they.
_OF_RUN = (
    "port",
    "host",
    "db",
    "fresh",
    "server",
    "control_token",
    "control_token_file",
    "allow_control_host",
    "public_host",
    "allow_origin",
    "trust_proxy",
    "tls_cert",
    "tls_key",
)


def check_arguments(marked: Mapping[str, Any]) -> None:
    """Raises TypeError and ValueError that name an argument of the marker that a test's world cannot have."""
    check_names(marked, dict.fromkeys(_KNOWN))
    for name in marked:
        if name in _OF_RUN:
            also = f"; emulator_{name} in the ini file is for the whole run" if name == "port" else ""
            raise ValueError(f"{name}: the tests of a run share a server, so that a test cannot have its own{also}")
    check_values(marked)


def only_of_a_server(names: Iterable[str]) -> list[str]:
    """The options among these that a world cannot have by itself."""
    return [name for name in names if name not in _OF_WORLD]


def world_of_test(
    server: Emulator, run: Mapping[str, Any], marked: Mapping[str, Any], *, id: str, is_fixed: bool
) -> Any:
    """A context with the world of a test: of the run's server, or of another one where that one will not do.

    `is_fixed` says that clients find the run's server by its address. Raises ValueError for a marker
    that would need another one then.
    """
    apart = {name: marked[name] for name in only_of_a_server(marked) if marked[name] != run.get(name)}
    if apart.get("strict") is False:
        # A strict server only tells what does not match.
        del apart["strict"]
    if apart and is_fixed:
        raise ValueError(
            f"{', '.join(apart)}: a server of its own would be needed, and the clients of this run are bound to "
            f"{server.url} (emulator_url, emulator_port)"
        )
    wanted = _world_arguments({**run, **marked})
    is_strict = bool({**run, **marked}.get("strict"))
    return _made(server, {**run, **apart} if apart else None, {"id": id, **wanted}, is_strict=is_strict)


@contextmanager
def _made(
    server: Emulator, own: Mapping[str, Any] | None, wanted: Mapping[str, Any], *, is_strict: bool
) -> Iterator[Emulator]:
    with ExitStack() as stack:
        if own is not None:
            server = Emulator(**{name: value for name, value in own.items() if name != "token"})
            # Not by its `with` block: what no world's client sent fails no test.
            stack.callback(server.close)
            server.start()
        yield stack.enter_context(server.new_world(**wanted, strict=is_strict))


def _world_arguments(options: Mapping[str, Any]) -> dict[str, Any]:
    """What `new_world` is called with."""
    wanted = {name: value for name, value in options.items() if name in _OF_WORLD}
    if "clock" in wanted:
        wanted["rate"] = Settings(clock=str(wanted.pop("clock"))).rate
    if isinstance(wanted.get("chaos"), str):
        wanted["chaos"] = float(wanted["chaos"])
    if isinstance(wanted.get("fixtures"), str | Path):
        wanted["fixtures"] = document_of(Path(wanted["fixtures"]))
    return wanted


# D-424.
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
    if isinstance(seeds, int):
        raise TypeError(f"seeds: expected several, got {seeds!r}, did you mean range({seeds})?")
    if isinstance(seeds, str) or not isinstance(seeds, Iterable):
        raise TypeError(f"seeds: expected several whole numbers, such as range(100), got {seeds!r}")
    if not callable(test):
        raise TypeError(f"test: expected a function of one emulator, got {test!r}")
    if isinstance(without, str):
        raise TypeError(f"without: expected a list of attempts such as ['3.1'], got {without!r}")
    epoch, chaos = options.get("epoch", _EPOCH), options.get("chaos", DEFAULT_CHAOS)
    with Emulator(**options) as server:
        for seed in seeds:
            if isinstance(seed, bool) or not isinstance(seed, int):
                raise TypeError(f"seeds: expected whole numbers, got {seed!r}")

            def fails(spared: Sequence[str], seed: int = seed) -> _FailedRun | None:
                wanted = {"level": chaos, "except": list(spared)}
                return _failure(test, server.new_world(seed=seed, epoch=epoch, chaos=wanted))

            failure = fails(without)
            if failure is not None:
                raise _shrunk(failure, fails, getattr(test, "__name__", "test"), seed, chaos, without)


class _FailedRun:
    def __init__(self, error: BaseException, met: Disturbances) -> None:
        self.error = error
        self.met = met


def _failure(test: Test, world: Emulator) -> _FailedRun | None:
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
        return _FailedRun(error, met)
    return None


def _shrunk(
    first: _FailedRun,
    fails: Callable[[Sequence[str]], _FailedRun | None],
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
    add_note(smallest.error, report(seed, first.met, remaining, call))
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
    """The report of a test that fails under a seed; `repeat` is the line that repeats it."""
    if remaining:
        head = f"It fails under seed {seed} with {len(remaining)} of {len(met)} disturbances (message.attempt):"
    else:
        head = f"It fails under seed {seed}, and without any of {len(met)} disturbances."
    return "\n".join([head, *(f"  {mark}  {did}" for mark, did in remaining.items()), f"Repeat it: {repeat}"])
