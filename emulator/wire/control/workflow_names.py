"""Which workflow run and step a message belongs to, in the control API's answers."""

from __future__ import annotations

from emulator.core.model.messages import Message
from emulator.queries.published_steps import step_of
from emulator.wire.json_fields import Json


def run_fields(message: Message) -> dict[str, Json]:
    """The run and the step of a message, null where it has none; nothing for a message of no run."""
    if message.run is None:
        return {}
    step = step_of(message)
    return {"workflow_run_id": message.run.run_id, "step": None if step is None else step.step_name}
