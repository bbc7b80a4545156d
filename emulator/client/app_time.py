"""The time of this process, made that of a world: `follow_time` and the fixture `emulator_time`.

time-machine replaces the functions of Python that read the machine's clock, for every module and every
thread of the process, and asks an object of its own what time it is. Here that object asks the world. So
the two agree at each delivery and after each move of the clock, by any client, and also in a world whose
clock runs by itself; there is nothing to push at the right moment.

`time.monotonic`, `perf_counter` and `sleep` are not replaced, and neither are event loops and timeouts,
which use them. The emulator's own thread reads the machine's clock in one place, which time-machine does
not change (`emulator.engine.clock.wall_ms`); the time of its log lines is that of the process.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from emulator.client.errors import EmulatorError, is_emulator_error
from emulator.client.session import Session

__tracebackhide__ = is_emulator_error

_lock = threading.Lock()
# The server and the world whose time the process has.
_followed: tuple[object, str] | None = None


@contextlib.contextmanager
def followed(session: Session) -> Iterator[None]:
    """Let the process have the time of a world for the length of a block; again inside it, this does nothing.

    Raises EmulatorError for a second world, and for a server in another process; ImportError without time-machine.
    """
    # D-503.
    global _followed
    world = (session.server, session.world)
    with _lock:
        if _followed not in (None, world):
            raise EmulatorError(
                f"this process follows the clock of the world {_followed[1] if _followed else ''} already, and a "
                "process has one time: leave that follow_time, or the test's fixture emulator_time, first"
            )
        begun = None if _followed else _begin(session)
        _followed = world
    try:
        yield
    finally:
        if begun is not None:
            with _lock:
                begun.close()
                _followed = None


def _begin(session: Session) -> contextlib.ExitStack:
    now_ms = session.server.virtual_time(session.world)
    try:
        import time_machine
    except ImportError:
        raise ImportError(
            "follow_time and the fixture emulator_time need time-machine: pip install 'svc-emulator[time]'",
            name="time_machine",
        ) from None
    with contextlib.ExitStack() as undo:
        travel = time_machine.travel(now_ms() / 1000, tick=False)
        try:
            traveller = travel.start()
        except RuntimeError as error:
            # freezegun is active.
            raise EmulatorError(f"follow_time: {error}") from None
        undo.callback(travel.stop)
        show(traveller, now_ms)
        return undo.pop_all()


def show(traveller: Any, now_ms: Callable[[], int]) -> None:
    """Let time-machine ask `now_ms` for the time. Raises EmulatorError for a version that does not."""
    # What it asks is no documented part of time-machine, so that it is tried first.
    tried_ns = now_ms() * 1_000_000 + 1
    traveller.time_ns = lambda: tried_ns
    if time.time_ns() != tried_ns or time.monotonic() == tried_ns / 1_000_000_000:
        raise EmulatorError("follow_time does not work with this version of time-machine: 3.3 or newer is needed")
    traveller.time_ns = lambda: now_ms() * 1_000_000
