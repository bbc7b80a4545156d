"""How virtual time passes: not at all, in real time, or faster. The only module that reads the wall clock."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from collections.abc import Callable

from emulator.core.record import Record
from emulator.wire.times import MAX_INSTANT_MS

# A longer sleep is cut, because the wall clock may be set, or the machine suspended, meanwhile.
_LONGEST_SLEEP_S = 60.0


def wall_ms() -> int:
    """Milliseconds since the Unix epoch, by the machine's clock.

    A test may have changed what its process reads as the time, with time-machine or freezegun. The emulator
    in it goes by the machine's time all the same: a world in real time must not jump (D-504).
    """
    return _machine_ns() // 1_000_000


def _machine_ns() -> int:
    ns: int
    # Asked before, since a replaced clock may ask the emulator; and after, since another thread may have replaced it.
    if not _may_be_replaced():
        ns = time.time_ns()
        if not _may_be_replaced():
            return ns
    while True:
        if _is_travelling():
            # It may have ended since it was asked.
            with contextlib.suppress(ValueError):
                travelled: int = sys.modules["time_machine"].escape_hatch.time.time_ns()
                return travelled
        else:
            # Replaced only while freezegun is active, but then for this module too.
            read: Callable[[], int] = getattr(sys.modules.get("freezegun.api"), "real_time_ns", time.time_ns)
            ns = read()
            if not _is_travelling():
                return ns


def _may_be_replaced() -> bool:
    return "time_machine" in sys.modules or "freezegun.api" in sys.modules


def _is_travelling() -> bool:
    # Never imported from here. While another thread imports it, it is there without its contents.
    escape_hatch = getattr(sys.modules.get("time_machine"), "escape_hatch", None)
    return escape_hatch is not None and escape_hatch.is_travelling()


class Anchor(Record):
    """A pair of simultaneous instants, `virtual_ms` and `wall_ms`, and the rate at which time passes from there."""

    virtual_ms: int
    wall_ms: int
    rate: float


class PacedClock:
    """The clock of one world: `rate` 0 is frozen, 1 real time, any other number that many times as fast."""

    def __init__(self, anchor: Anchor, wall_ms: Callable[[], int] = wall_ms) -> None:
        self.wall_ms = wall_ms
        self.anchor = anchor
        # Virtual time that was lost since the rate was set last.
        self.slipped_ms = 0
        self._latest_ms = anchor.virtual_ms
        self._wake = asyncio.Event()
        self._asleep_until_ms: int | None = None

    @property
    def rate(self) -> float:
        return self.anchor.rate

    @property
    def is_frozen(self) -> bool:
        return self.anchor.rate == 0

    def now_ms(self) -> int:
        """The present virtual instant. It never goes back, even if the machine's clock does."""
        self._latest_ms = self.peek_ms()
        return self._latest_ms

    def peek_ms(self) -> int:
        """The same without keeping it, for other threads than the world's."""
        anchor = self.anchor
        passed_ms = (self.wall_ms() - anchor.wall_ms) * anchor.rate
        return max(self._latest_ms, min(anchor.virtual_ms + int(passed_ms), MAX_INSTANT_MS))

    def rebase(self, now_ms: int) -> None:
        """Virtual time was moved to `now_ms`; it passes from there at the same rate."""
        self._go_on_from(Anchor(virtual_ms=now_ms, wall_ms=self.wall_ms(), rate=self.rate))

    def slip(self, now_ms: int) -> None:
        """Give up the time after `now_ms`, which there was too much to do for (D-300)."""
        self.slipped_ms += max(0, self.now_ms() - now_ms)
        self.rebase(now_ms)

    def set_rate(self, rate: float, now_ms: int) -> None:
        """From the virtual instant `now_ms` on, time passes at this rate."""
        self.begin(Anchor(virtual_ms=now_ms, wall_ms=self.wall_ms(), rate=rate))

    def begin(self, anchor: Anchor) -> None:
        """Time passes from another anchor on; nothing of it is lost yet."""
        self.slipped_ms = 0
        self._go_on_from(anchor)

    def _go_on_from(self, anchor: Anchor) -> None:
        self.anchor = anchor
        self._latest_ms = anchor.virtual_ms
        self.wake()

    async def sleep_until(self, due_ms: int | None) -> None:
        """Sleep until a virtual instant comes (None: for ever), `wake` is called, or a minute has passed."""
        self._asleep_until_ms = due_ms
        self._wake.clear()
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(None if due_ms is None else self.seconds_to(due_ms)):
                    await self._wake.wait()
        finally:
            self._asleep_until_ms = None

    def wake(self) -> None:
        """End the sleep."""
        self._wake.set()

    def wake_for(self, due_ms: int | None) -> None:
        """Something is due at `due_ms`: end a sleep that would last longer."""
        if due_ms is not None and (self._asleep_until_ms is None or due_ms < self._asleep_until_ms):
            self._wake.set()

    def seconds_to(self, due_ms: int) -> float:
        """How long to sleep, in real seconds, for a virtual instant to come."""
        if self.is_frozen:
            return _LONGEST_SLEEP_S
        return max(0.0, min((due_ms - self.now_ms()) / 1000 / self.rate, _LONGEST_SLEEP_S))
