"""How much one world does at once, and how long it waits."""

from __future__ import annotations

from emulator.core.record import Record


class Limits(Record):
    """The limits and waiting times of a driver.

    `concurrency` is how many attempts may be under way at once: per destination origin in a running
    world, in all during a clock advance and in a frozen world. None means 64 and 1.
    """

    concurrency: int | None = None
    max_attempts_per_instant: int = 10_000
    # How long a call in a frozen world waits for the deliveries it caused. The caller may be the
    # receiver, with one thread, and then cannot answer before its call returns.
    settle_s: float = 1.0
    # How long an advance waits for the next outcome of attempts that left before it began. The
    # caller may be their receiver.
    patience_s: float = 15
    # The same while a call waits for the deliveries it caused: the two wait for each other then, if
    # the caller of the advance is a receiver in its handler (D-293).
    deadlock_s: float = 0.25
    # A clock faster than real time slips when catching up with it takes longer than this.
    slip_after_ms: int = 200
    # A clock that catches up waits for deliveries while so many messages are due and have not ended.
    most_due: int = 1_000
    # It waits no longer than this for the next of them.
    crowded_s: float = 1.0
