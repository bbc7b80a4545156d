"""The end of a run: results, cancellation, what waited, and who is told."""

from __future__ import annotations

import json
from typing import Any

import pytest

from emulator.core import commands, facts
from emulator.core.errors import NotFound
from emulator.core.model.names import RunId
from emulator.core.workflows import RunFilter
from tests.harness.simulations import CALLER_IP, DAY, EPOCH_MS, SECOND, answered, callback, flow
from tests.harness.workflows import FLOW, RUN, RunWorld, item, parent, part, step, steps_in

CHILD = RunId("wfr_child")


def test_a_run_returns_its_result() -> None:
    world = RunWorld()
    world.begin()
    world.succeed(b'{"total":3}')
    (ended,) = world.all(facts.RunEnded)
    assert (ended.state.value, ended.response, ended.run_number) == ("RUN_SUCCESS", b'{"total":3}', 1)


def test_the_end_of_a_run_that_has_ended_changes_nothing() -> None:
    """D-363."""
    world = RunWorld()
    world.begin()
    world.succeed()
    before = len(world.facts)
    world.succeed(has_existed=True)
    world.cancel_run(has_existed=True)
    assert len(world.facts) == before


@pytest.mark.parametrize("end", [RunWorld.succeed, RunWorld.cancel_run])
def test_the_end_of_an_unknown_run_is_not_found(end: Any) -> None:
    """D-363."""
    with pytest.raises(NotFound):
        end(RunWorld())


def test_a_cancelled_run_drops_what_waits_and_calls_nobody() -> None:
    world = RunWorld()
    world.begin(failure_callback=callback("https://fail.test/"))
    world.add(step(1), delay_ms=DAY)
    world.wait()
    world.cancel_run()
    world.run_for(2 * DAY)
    assert len(world.calls) == 1
    assert (world.dead_letter_ids(), world.owner.runs, world.owner.waiting_runs) == ([], {}, {})
    assert list(world.simulation.state.timers) == []


def test_a_call_that_is_under_way_at_the_end_goes_on_and_fails_nothing() -> None:
    world = RunWorld()
    world.answering = None
    first = world.begin(max_retries=3)
    world.cancel_run()
    world.finish(first.message_id, answered(500))
    assert world.log_of(first.message_id) == ["CREATED", "ACTIVE", "ERROR", "FAILED"]
    assert world.dead_letter_ids() == []


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        pytest.param({}, [0, 1, 2], id="all"),
        pytest.param({"run_ids": ("wfr_1", "wfr_9")}, [1], id="ids"),
        pytest.param({"urls": ("https://app.test/",)}, [0, 1, 2], id="beginning of the url"),
        pytest.param({"urls": ("https://app.test/",), "url_is_exact": True}, [], id="exact url"),
        pytest.param({"urls": (FLOW,), "url_is_exact": True}, [0, 1, 2], id="that url"),
        pytest.param({"urls": ("https://other.test/", FLOW)}, [0, 1, 2], id="one of two urls"),
        pytest.param({"labels": ("l1", "x")}, [1], id="label"),
        pytest.param({"flow_keys": ("k2", "x")}, [2], id="flow control key"),
        pytest.param({"caller_ips": (CALLER_IP,)}, [0, 1, 2], id="caller"),
        pytest.param({"caller_ips": ("1.1.1.1",)}, [], id="another caller"),
        pytest.param({"from_ms": EPOCH_MS + SECOND}, [1, 2], id="from"),
        pytest.param({"to_ms": EPOCH_MS + SECOND}, [0, 1], id="to"),
    ],
)
def test_many_runs_are_cancelled_by_filter(wanted: dict[str, Any], expected: list[int]) -> None:
    world = RunWorld()
    for number in range(3):
        world.begin(RunId(f"wfr_{number}"), labels=(f"l{number}",), flow_control=flow(f"k{number}"))
        world.run_for(SECOND)
    command = commands.CancelRuns(account_id=world.account_id, wanted=RunFilter(**wanted), count=100)
    assert world.do(command) == len(expected)
    assert world.endings == [(f"wfr_{number}", "RUN_CANCELED") for number in expected]


def test_the_oldest_are_cancelled_first() -> None:
    world = RunWorld()
    for number in range(3):
        world.begin(RunId(f"wfr_{number}"))
    world.do(commands.CancelRuns(account_id=world.account_id, wanted=RunFilter(), count=2))
    assert list(world.owner.runs) == ["wfr_2"]


# -- invoked runs -----------------------------------------------------------------------------


def invoking(world: RunWorld) -> None:
    world.begin()
    own = part(CHILD, is_init=True, url="https://app.test/child", invokes=True, features=())
    world.send(item("https://app.test/child", b"payload", workflow=own, invoker=parent(RUN)))


@pytest.mark.parametrize(
    ("response", "out"),
    [
        (b'"r"', {"isFailed": False, "isCanceled": False, "body": '"r"'}),
        (b"", {"isFailed": False, "isCanceled": False}),
    ],
)
def test_the_invoker_gets_the_result(response: bytes, out: dict[str, Any]) -> None:
    world = RunWorld()
    invoking(world)
    world.succeed(response, CHILD)
    told = json.loads(steps_in(world.calls_at(FLOW)[-1])[-1])
    assert json.loads(told.pop("out")) == out
    assert told == {"stepId": 1, "stepName": "inv", "stepType": "Invoke", "concurrent": 1}


def test_the_invoker_is_told_of_a_cancellation() -> None:
    world = RunWorld()
    invoking(world)
    world.cancel_run(CHILD)
    told = json.loads(steps_in(world.calls_at(FLOW)[-1])[-1])
    assert json.loads(told["out"]) == {"isFailed": False, "isCanceled": True}


def test_an_invoker_that_has_ended_gets_no_call() -> None:
    world = RunWorld()
    invoking(world)
    world.succeed()
    world.succeed(b"", CHILD)
    assert len(world.calls_at(FLOW)) == 1


def test_a_later_run_with_the_id_of_the_invoker_gets_no_call() -> None:
    world = RunWorld()
    invoking(world)
    world.succeed()
    world.run_for(SECOND)
    world.begin()
    world.succeed(b"", CHILD)
    assert len(world.calls_at(FLOW)) == 2
    assert len(world.run().steps) == 1


def test_a_message_of_a_run_is_not_cancelled_alone() -> None:
    """D-373."""
    world = RunWorld()
    world.begin()
    waiting = world.add(step(1), delay_ms=DAY)
    with pytest.raises(NotFound):
        world.cancel(waiting.message_id)
    assert world.cancel_all() == 0
    assert world.messages[waiting.message_id].run is not None
