"""Where a schedule stands: its last firing, its next one, and whether that would be refused as things are."""

from __future__ import annotations

from emulator.core.errors import Refused
from emulator.core.model.resources import ScheduleProgress
from emulator.core.record import Record
from emulator.core.rules.schedules import plan_firing
from emulator.core.state_view import StateView


class ScheduleExplanation(Record):
    """A schedule at `now_ms`. `refusal` is what a firing now would be refused with, None if it would not be."""

    now_ms: int
    progress: ScheduleProgress
    refusal: str | None


def explain_schedule(state: StateView, progress: ScheduleProgress) -> ScheduleExplanation:
    """What came of a schedule, and what would come of it now. Nothing is published (D-263)."""
    refusal: str | None = None
    try:
        plan_firing(state, progress.schedule)
    except Refused as refused:
        refusal = refused.text
    return ScheduleExplanation(now_ms=state.now_ms, progress=progress, refusal=refusal)
