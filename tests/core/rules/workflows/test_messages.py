"""What the calls of a run carry: the configuration of the run, and their own."""

from __future__ import annotations

from typing import Any

import pytest

from emulator.core.model.names import MessageId
from emulator.core.model.options import CallType, MessageOptions, Redaction
from emulator.core.rules.workflows.messages import inherited, steps_body
from emulator.core.workflows import WorkflowStep
from tests.harness.simulations import callback, flow, make_account
from tests.harness.workflows import RunWorld, item, part, step

HIDDEN = Redaction(body=True, all_headers=False, header_names=())
CONFIG: dict[str, Any] = {
    "max_retries": 7,
    "retry_delay": "1000",
    "failure_callback": callback("https://fail.test/", max_retries=1),
    "labels": ("l",),
    "redaction": HIDDEN,
    "flow_control": flow("k", parallelism=9),
    "forwarded": (("X-User", "u"), ("Svc-Workflow-Sdk-Version", "1"), ("Svc-Workflow-Unknown-Sdk", "false")),
}


def test_the_configuration_of_a_run_holds_for_every_call() -> None:
    world = RunWorld()
    world.begin(**CONFIG)
    world.add(step(1), forwarded=(("Svc-Workflow-Sdk-Version", "1"),))
    message = world.calls[1]
    for name in ("max_retries", "retry_delay", "failure_callback", "labels", "redaction", "flow_control"):
        assert getattr(message, name) == CONFIG[name], name
    assert message.headers == (("Svc-Workflow-Sdk-Version", "1"), ("X-User", "u"))


def test_what_a_message_says_itself_goes_before() -> None:
    world = RunWorld()
    world.begin(**CONFIG)
    world.add(step(1), max_retries=0, labels=("own",), forwarded=(("x-user", "own"),))
    message = world.calls[1]
    assert (message.max_retries, message.labels, message.retry_delay) == (0, ("own",), "1000")
    assert dict(message.headers)["x-user"] == "own"


def test_a_run_without_the_feature_inherits_nothing() -> None:
    world = RunWorld()
    world.begin(**CONFIG, part={"features": ()})
    world.add(step(1))
    assert (world.calls[1].max_retries, world.calls[1].headers, world.calls[1].failure_callback) == (3, (), None)


def test_requests_of_call_steps_inherit_nothing() -> None:
    """D-362: not even the run's retries."""
    world = RunWorld()
    world.begin(**CONFIG)
    world.send(item("https://third.test/", workflow=part(call_type=CallType.TO_CALLBACK)))
    (request,) = world.calls_at("https://third.test/")
    assert (request.max_retries, request.headers, request.flow_control) == (3, (), None)


def test_the_response_of_a_call_step_has_no_version_of_the_protocol() -> None:
    """With it the client would read the response as a list of steps."""
    world = RunWorld()
    world.begin(**CONFIG)
    options = inherited(world.run(), MessageOptions(), CallType.FROM_CALLBACK)
    assert options.forwarded == (("X-User", "u"),)


@pytest.mark.parametrize(("limit", "expected"), [(20, 3), (2, 2)])
def test_a_call_has_three_retries_by_default(limit: int, expected: int) -> None:
    """D-362."""
    world = RunWorld(account=make_account(max_retries=limit))
    world.begin()
    assert world.calls[0].max_retries == expected


def test_the_list_holds_bytes_as_they_are() -> None:
    body = bytes(range(256))
    listed = steps_body((WorkflowStep(message_id=MessageId("m"), body=body),))
    assert b'"body":"AAECAwQF' in listed
