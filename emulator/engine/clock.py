"""The only module that reads a wall clock: virtual time that passes by itself.

A clock that runs is an outer loop around the same engine that a frozen world has: sleep until
the next due instant, then let the driver do what is due.
"""

from __future__ import annotations

import time

from emulator.core.record import Record
from emulator.engine.driver import Driver
from emulator.wire.instants import MAX_INSTANT_MS

# A sleep longer than this is cut: the wall clock may be set, or the machine suspended, meanwhile.
_LONGEST_SLEEP_S = 60.0


def wall_ms() -> int:
    """Milliseconds since the Unix epoch, by the machine's clock."""
    return time.time_ns() // 1_000_000


class Anchor(Record):
    """Where virtual and real time met: `virtual_ms` was at `wall_ms`, and passes at `rate` since."""

    virtual_ms: int
    wall_ms: int
    rate: float


class PacedClock:
    """How virtual time passes: `rate` 0 is frozen, 1 real time, any other number that many times as fast."""

    def __init__(self, anchor: Anchor) -> None:
        self._anchor = anchor
        self._latest_ms = anchor.virtual_ms

    @property
    def anchor(self) -> Anchor:
        return self._anchor

    @property
    def rate(self) -> float:
        return self._anchor.rate

    @property
    def is_frozen(self) -> bool:
        return self._anchor.rate == 0

    def now_ms(self) -> int:
        """The virtual instant it is now. It never goes back, even if the machine's clock does."""
        anchor = self._anchor
        passed_ms = (wall_ms() - anchor.wall_ms) * anchor.rate
        self._latest_ms = max(self._latest_ms, min(anchor.virtual_ms + int(passed_ms), MAX_INSTANT_MS))
        return self._latest_ms

    @property
    def may_slip(self) -> bool:
        """Whether time may pass more slowly than asked when there is more to do than the machine can."""
        return self._anchor.rate > 1

    def wall_ms(self) -> int:
        return wall_ms()

    def rebase(self, now_ms: int) -> None:
        """Virtual time was moved to `now_ms`; it passes from there at the same rate."""
        self._anchor = Anchor(virtual_ms=now_ms, wall_ms=wall_ms(), rate=self._anchor.rate)
        self._latest_ms = now_ms

    def set_rate(self, rate: float, now_ms: int) -> None:
        """From `now_ms` on, time passes at another rate."""
        self._anchor = Anchor(virtual_ms=now_ms, wall_ms=wall_ms(), rate=rate)
        self._latest_ms = now_ms

    def seconds_to(self, instant_ms: int) -> float:
        """How long it takes in real seconds until a virtual instant comes."""
        if self.is_frozen:
            return _LONGEST_SLEEP_S
        return min((instant_ms - self.now_ms()) / 1000 / self._anchor.rate, _LONGEST_SLEEP_S)


async def keep_time(driver: Driver, clock: PacedClock) -> None:
    """Drive one world's clock until cancelled; a frozen clock costs nothing until it is unfrozen."""
    while True:
        if not clock.is_frozen:
            await driver.catch_up()
            await driver.flush()
        await driver.sleep_until_due(clock.seconds_to)
