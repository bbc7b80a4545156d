"""The virtual clock: which instants it can show, and the commands that move it."""

from __future__ import annotations

from emulator.core.commands import AdvanceClock, SetBackClock
from emulator.core.decision import Decision
from emulator.core.errors import Conflict, Malformed
from emulator.core.facts import ClockMoved
from emulator.core.state_view import StateView

# Cursors and periods count from the Unix epoch, so a clock shows a later instant.
EARLIEST_MS = 1
# The end of the year 9999, the last that an ISO 8601 time can name.
LATEST_MS = 253_402_300_799_999


def check_clock_instant(instant_ms: int) -> int:
    """The same instant, if a virtual clock can show it. Raises Malformed."""
    if instant_ms < EARLIEST_MS:
        raise Malformed("expected an instant after 1970-01-01T00:00:00Z")
    if instant_ms > LATEST_MS:
        raise Malformed("expected an instant in the year 9999 at the latest")
    return instant_ms


def is_clock_instant(instant_ms: int) -> bool:
    """Whether a virtual clock can show the instant."""
    return EARLIEST_MS <= instant_ms <= LATEST_MS


def advance_clock(state: StateView, command: AdvanceClock) -> Decision[None]:
    """Time only moves forward, and never past an instant at which something is due."""
    due_ms = state.timers.next_due_ms()
    if command.to_ms < state.now_ms or (due_ms is not None and due_ms < command.to_ms):
        raise Conflict(f"the clock cannot move from {state.now_ms} to {command.to_ms} in one step")
    if command.to_ms > state.now_ms:
        yield ClockMoved(now_ms=command.to_ms)


def set_back_clock(state: StateView, command: SetBackClock) -> Decision[None]:
    """Refused once a message was created or anything is due."""
    if state.counters.messages or state.timers.next_due_ms() is not None:
        raise Conflict("the clock cannot go back once something has happened in the world; reset it first")
    yield ClockMoved(now_ms=command.to_ms)
