"""Where a schedule stands as JSON, and the one sentence that sums it up."""

from __future__ import annotations

from collections.abc import Iterator

from emulator.core.model.options import DestinationKind
from emulator.core.model.resources import Schedule, ScheduleProgress
from emulator.queries.schedule_explanations import ScheduleExplanation
from emulator.wire.control.instants import instant_fields
from emulator.wire.instants import iso
from emulator.wire.json_fields import Json


def schedule_explanation_view(explanation: ScheduleExplanation) -> dict[str, Json]:
    """A schedule, where it stands, and why; `reasons` in the order in which they came about."""
    progress = explanation.progress
    schedule = progress.schedule
    return {
        "schedule_id": schedule.schedule_id,
        "account_id": schedule.account_id,
        "destination": schedule.destination.text,
        "cron": schedule.cron,
        "paused": progress.paused,
        "summary": _summary(explanation),
        "reasons": list(_reasons(explanation)),
    }


def _summary(explanation: ScheduleExplanation) -> str:
    progress = explanation.progress
    if progress.next_ms is None:
        then = "It is paused and does not fire before it is resumed."
    else:
        then = f"It fires next at {iso(progress.next_ms)}."
    if explanation.refusal is not None:
        then += f" As things are, that would make no message: {explanation.refusal}."
    if progress.last_fired_ms is None:
        return f"Has not fired yet. {then}"
    return f"Fired last at {iso(progress.last_fired_ms)}: {_result(progress)}. {then}"


def _result(progress: ScheduleProgress) -> str:
    """What came of the last firing."""
    if progress.error is not None:
        return f"it made no message, {progress.error}"
    count = len(progress.last_states)
    if count == 0:
        return "its messages were deduplicated"
    return "it made 1 message" if count == 1 else f"it made {count} messages"


def _reasons(explanation: ScheduleExplanation) -> Iterator[dict[str, Json]]:
    progress = explanation.progress
    schedule = progress.schedule
    text = f"written by {schedule.caller_ip}, to {_destination(schedule)} at {schedule.cron}"
    yield _at("created", schedule.created_ms, text)
    if progress.last_fired_ms is not None:
        kind = "fired" if progress.error is None else "refused"
        yield _at(kind, progress.last_fired_ms, _result(progress)) | {
            "messages": {message_id: state.value for message_id, state in progress.last_states},
            "error": progress.error,
        }
    if progress.next_ms is None:
        yield _at("paused", explanation.now_ms, "it is paused and does not fire")
    else:
        yield _at("due", progress.next_ms, "it fires next")
    if explanation.refusal is not None:
        text = f"a firing now would make no message: {explanation.refusal}"
        yield _at("would_be_refused", explanation.now_ms, text) | {"error": explanation.refusal}


def _destination(schedule: Schedule) -> str:
    destination = schedule.destination
    return f"URL group {destination.text}" if destination.kind is DestinationKind.GROUP else destination.text


def _at(kind: str, at_ms: int, text: str) -> dict[str, Json]:
    return {**instant_fields("at", at_ms), "kind": kind, "text": text}
