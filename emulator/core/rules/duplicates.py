"""Duplicates: deliveries that a destination rule has made again, as at-least-once delivery allows.

A duplicate repeats an attempt that was delivered. It goes where that one went, counts on no limit,
and whatever it is answered, its message stays what it is (D-421).
"""

from __future__ import annotations

from msgspec.structs import replace

from emulator.core.commands import RecordAttempt
from emulator.core.decision import Decision
from emulator.core.facts import DuplicateFinished, DuplicateScheduled, DuplicateStarted
from emulator.core.model.answers import Disturbance
from emulator.core.model.messages import CreatedBy, Duplicate, Progress
from emulator.core.state_view import StateView, duplicate_subject


def schedule(state: StateView, delivered: Progress) -> Decision[None]:
    """A message was delivered: if a rule says so, deliver it again, at once or later."""
    answer, message = delivered.answer, delivered.message
    if answer is None or answer.duplicate_ms is None or message.created_by is CreatedBy.CHAT:
        return
    yield DuplicateScheduled(
        duplicate=Duplicate(
            message=message,
            number=delivered.retried + 1,
            due_ms=state.now_ms + answer.duplicate_ms,
            answer=replace(answer, latency_ms=0, duplicate_ms=None, disturbance=Disturbance(is_duplicate=True)),
        )
    )


def start(state: StateView, subject: str) -> Decision[None]:
    """A duplicate is due."""
    duplicate = state.duplicates[subject]
    yield DuplicateStarted(message_id=duplicate.message.message_id, number=duplicate.number, at_ms=state.now_ms)


def finish(state: StateView, command: RecordAttempt) -> Decision[None]:
    """A duplicate came back. One that is not under way (any more) says nothing and is dropped."""
    duplicate = state.duplicates.get(duplicate_subject(command.message_id, command.number))
    if duplicate is None or duplicate.started_ms is None:
        return
    yield DuplicateFinished(
        message_id=command.message_id,
        number=command.number,
        started_ms=duplicate.started_ms,
        at_ms=state.now_ms,
        outcome=command.outcome,
    )
