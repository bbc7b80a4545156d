"""Invocations of runs that are active already (D-450)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace

from emulator.core.errors import InvalidRunMessage
from emulator.core.model.names import RunId
from emulator.core.replies import Published
from tests.harness.workflows import FLOW, RUN, RunWorld, item, parent, part

CHILD = RunId("wfr_child")
TWO = RunId("wfr_two")


def invoke(world: RunWorld, child: RunId, by: RunId, number: int = 1) -> Published:
    """A step of one run invokes another that may be active."""
    own = part(child, is_init=True, url="https://app.test/child", invokes=True, features=())
    told = json.dumps({"stepId": number, "stepName": "inv", "stepType": "Invoke", "concurrent": 1}).encode()
    return world.send(item("https://app.test/child", b"again", workflow=own, invoker=replace(parent(by), step=told)))


def invoked(world: RunWorld) -> None:
    """A run waits for the one that it has invoked."""
    world.begin()
    invoke(world, CHILD, RUN)


def results(world: RunWorld, run_id: RunId) -> list[Any]:
    return [json.loads(step.body) for step in world.run(run_id).steps[1:]]


def test_a_run_that_is_invoked_on_its_way_tells_its_end() -> None:
    """D-450. Nothing is sent to it; what waits in it goes on waiting, and the answer is that of a duplicate."""
    world = RunWorld()
    world.begin(TWO)
    world.begin(CHILD)
    world.wait(run_id=CHILD)
    calls = len(world.calls)
    published = invoke(world, CHILD, TWO)
    assert (published.deduplicated, published.message_id) == (True, world.run(CHILD).steps[0].message_id)
    assert len(world.calls) == calls
    assert len(world.notify()) == 1
    world.succeed(b"7", CHILD)
    (told,) = results(world, TWO)
    assert json.loads(told["out"]) == {"isFailed": False, "isCanceled": False, "body": "7"}


def test_a_run_whose_invoker_has_ended_is_invoked_by_another() -> None:
    """D-450."""
    world = RunWorld()
    invoked(world)
    world.cancel_run()
    world.begin(TWO)
    invoke(world, CHILD, TWO)
    world.cancel_run(CHILD)
    assert len(results(world, TWO)) == 1


def test_an_invocation_that_is_repeated_is_told_once() -> None:
    """D-450. The call that invokes is made again if its answer was lost."""
    world = RunWorld()
    world.begin()
    assert [invoke(world, CHILD, RUN).deduplicated for _ in range(2)] == [False, True]
    world.succeed(b"", CHILD)
    assert len(results(world, RUN)) == 1


def test_a_run_is_awaited_by_one_other() -> None:
    """D-450. Refused so that the client fails its run, which else would wait for ever."""
    world = RunWorld()
    invoked(world)
    world.begin(TWO)
    for by, number in ((TWO, 1), (RUN, 2)):
        with pytest.raises(InvalidRunMessage, match="wfr_child is active, and wfr_one waits for its end"):
            invoke(world, CHILD, by, number)


def test_runs_do_not_wait_for_each_other_in_a_circle() -> None:
    """D-450."""
    world = RunWorld()
    world.begin()
    invoke(world, TWO, RUN)
    invoke(world, CHILD, TWO)
    for by in (RUN, TWO, CHILD):
        with pytest.raises(InvalidRunMessage, match="wfr_one is active, and would wait for itself"):
            invoke(world, RUN, by)


def test_a_circle_that_an_id_closed_is_no_endless_search() -> None:
    """D-450. A client may leave out when the invoking run was created, and another run may have its id by now."""
    world = RunWorld()
    world.begin()
    unnamed = replace(parent(RUN), run_created_ms=0)
    world.send(item(FLOW, workflow=part(CHILD, is_init=True, invokes=True), invoker=unnamed))
    world.succeed()
    invoke(world, RUN, CHILD)
    world.begin(TWO)
    assert invoke(world, TWO, RUN).deduplicated


def test_a_batch_invokes_a_run_once() -> None:
    """D-450."""
    world = RunWorld()
    world.begin(TWO)
    world.begin(RUN)
    own = part(CHILD, is_init=True, url=FLOW, invokes=True)
    with pytest.raises(InvalidRunMessage):
        world.batch(*(item(workflow=own, invoker=parent(by)) for by in (RUN, TWO)))
    assert CHILD not in world.owner.runs
