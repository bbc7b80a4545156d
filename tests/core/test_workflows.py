"""The list of steps that a call of a workflow delivers."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from emulator.core.model.messages import Message
from emulator.core.model.options import CallType, RunPart
from emulator.core.model.workflows import WorkflowStep, as_delivered, listed_bytes, steps_body
from emulator.core.record import MessageId
from tests.harness.simulations import EPOCH_MS, World
from tests.harness.workflows import FLOW, RUN

A, B, C = (WorkflowStep(message_id=MessageId(name), body=name.encode()) for name in ("msg_a", "msg_b", "msg_c"))


def message(step: WorkflowStep, listed: int) -> Message:
    world = World()
    plain = world.messages[world.publish("https://x.test/")]
    run = RunPart(
        run_id=RUN,
        run_number=1,
        run_created_ms=EPOCH_MS,
        url=FLOW,
        call_type=CallType.STEP,
        listed=listed,
        listed_bytes=99,
    )
    return replace(plain, message_id=step.message_id, body=step.body, run=run)


@pytest.mark.parametrize(
    ("step", "listed", "steps", "expected"),
    [
        pytest.param(B, 2, (A, B), (A, B), id="its-own-step-is-the-last"),
        pytest.param(B, 2, (A, B, C), (A, B), id="later-steps-are-left-out"),
        pytest.param(A, 1, (A, B), (A,), id="the-first"),
        # A handshake has replaced the steps since the message was accepted (D-452).
        pytest.param(A, 1, (B,), (A,), id="another-first-step"),
        pytest.param(A, 1, (), (A,), id="no-step-any-more"),
        pytest.param(C, 3, (A, B), (A, B, C), id="fewer-steps"),
        pytest.param(C, 3, (A, B, A), (A, B, C), id="another-last-step"),
        pytest.param(B, 2, (B, C), (B, B), id="its-own-step-elsewhere"),
    ],
)
def test_a_message_delivers_the_steps_up_to_its_own(
    step: WorkflowStep, listed: int, steps: tuple[WorkflowStep, ...], expected: tuple[WorkflowStep, ...]
) -> None:
    delivered = as_delivered(message(step, listed), steps)
    assert delivered.body == steps_body(expected)
    assert delivered.run is not None
    assert (delivered.run.listed, delivered.run.listed_bytes) == (0, 0)


def test_a_message_that_lists_nothing_delivers_its_own_body() -> None:
    assert as_delivered(message(A, 0), (A, B)) == message(A, 0)


@pytest.mark.parametrize("steps", [(A,), (A, B), (A, replace(B, body=b""), replace(C, body=b"1234"))])
def test_the_length_of_the_list_is_known_without_making_it(steps: tuple[WorkflowStep, ...]) -> None:
    assert len(steps_body(steps)) == 1 + sum(map(listed_bytes, steps))
