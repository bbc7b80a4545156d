"""Messages of workflow runs, invocations and ends."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from emulator.core import commands, run_facts
from emulator.core.checkpoint import capture, restore
from emulator.core.errors import InvalidRunMessage, LimitReached, NotFound
from emulator.core.model.messages import Accepted, PublishedMessage
from emulator.core.model.options import CallType, MessageOptions, Redaction
from emulator.core.model.workflows import RunFilter, RunState
from emulator.core.record import FlowKey, RunId
from emulator.core.rules.runs import inherited
from emulator.core.run_facts import MOST_ENDED_DEPTHS, RunEnded, RunStarted
from tests.harness.simulations import (
    ACCOUNT_ID,
    CALLER_IP,
    DAY,
    EPOCH_MS,
    SECOND,
    answered,
    callback,
    flow,
    make_account,
)
from tests.harness.workflows import FLOW, RUN, WORKFLOW, RunWorld, item, parent, part, step, steps_in

# -- messages -----------------------------------------------------------------------------------

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
        assert getattr(message.policy, name) == CONFIG[name], name
    assert message.headers == (("Svc-Workflow-Sdk-Version", "1"), ("X-User", "u"))


def test_what_a_message_says_itself_goes_before() -> None:
    world = RunWorld()
    world.begin(**CONFIG)
    world.add(step(1), max_retries=0, labels=("own",), forwarded=(("x-user", "own"),))
    message = world.calls[1]
    assert (message.policy.max_retries, message.policy.labels, message.policy.retry_delay) == (0, ("own",), "1000")
    assert dict(message.headers)["x-user"] == "own"


def test_a_run_without_the_feature_inherits_nothing() -> None:
    world = RunWorld()
    world.begin(**CONFIG, part={"features": ()})
    world.add(step(1))
    assert (world.calls[1].policy.max_retries, world.calls[1].headers, world.calls[1].policy.failure_callback) == (
        3,
        (),
        None,
    )


def test_requests_of_call_steps_inherit_nothing() -> None:
    """D-362: not even the run's retries."""
    world = RunWorld()
    world.begin(**CONFIG)
    world.send(item("https://third.test/", workflow=part(call_type=CallType.TO_CALLBACK)))
    (request,) = world.calls_at("https://third.test/")
    assert (request.policy.max_retries, request.headers, request.policy.flow_control) == (3, (), None)


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
    assert world.calls[0].policy.max_retries == expected


# -- invoking -----------------------------------------------------------------------------------

CHILD = RunId("wfr_child")
TWO = RunId("wfr_two")


def invoke(world: RunWorld, child: RunId, by: RunId, number: int = 1) -> PublishedMessage:
    """A step of one run invokes another that may be active."""
    own = part(child, is_init=True, url="https://app.test/child", invokes=True, features=())
    told = json.dumps({"stepId": number, "stepName": "inv", "stepType": "Invoke", "concurrent": 1}).encode()
    return world.send(item("https://app.test/child", b"again", workflow=own, invoker=replace(parent(by), step=told)))


def invoked(world: RunWorld) -> None:
    """A run waits for the run it has invoked."""
    world.begin()
    invoke(world, CHILD, RUN)


def results(world: RunWorld, run_id: RunId) -> list[Any]:
    return [json.loads(step.body) for step in world.run(run_id).steps[1:]]


def test_a_run_that_is_invoked_on_its_way_tells_its_end() -> None:
    """D-450. Nothing is sent to it; what waits in it keeps waiting, and the answer is that of a duplicate."""
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


def test_a_batch_invokes_a_run_once_whatever_else_it_carries() -> None:
    world = RunWorld()
    world.begin()
    own = part(CHILD, is_init=True, url="https://app.test/child", invokes=True)
    twice = [item("https://app.test/child", workflow=own, invoker=parent(RUN)) for _ in range(2)]
    with pytest.raises(InvalidRunMessage, match="is invoked by another message of the batch"):
        world.batch(item("https://x.test/"), *twice)


def test_a_batch_with_a_run_publishes_its_other_messages_as_any_batch() -> None:
    world = RunWorld()
    begins = item(workflow=part(RUN, is_init=True, url=FLOW))
    plain = item("https://x.test/", flow_control=flow("k", parallelism=1))
    reply = world.batch(begins, plain)
    assert [len(each.messages) for each in reply.items if isinstance(each, Accepted)] == [1, 1]
    assert world.owner.flow_keys[FlowKey("k")].parallelism == 1


def test_a_chain_of_runs_ends_whatever_the_header_says() -> None:
    """D-535."""
    world = RunWorld()
    world.begin()
    outer = RUN
    for number in range(1, 101):
        inner = RunId(f"wfr_{number}")
        invoke(world, inner, outer)
        assert world.run(inner).depth == number
        outer = inner
    with pytest.raises(LimitReached):
        invoke(world, RunId("wfr_101"), outer)


@pytest.mark.parametrize("ends", ["succeed", "cancel_run"])
def test_a_chain_of_runs_that_end_before_they_invoke_ends_too(ends: str) -> None:
    """D-535, D-600. Also in a world that was restarted on the way."""
    world = RunWorld()
    world.begin()
    outer = RUN
    for number in range(1, 101):
        world.succeed(b"", outer) if ends == "succeed" else world.cancel_run(outer)
        inner = RunId(f"wfr_{number}")
        invoke(world, inner, outer)
        assert world.run(inner).depth == number
        outer = inner
    world.cancel_run(outer)
    assert restore(capture(restore(world.snapshot()[0]))).accounts[ACCOUNT_ID].ended_depths[outer] == 100
    with pytest.raises(LimitReached):
        invoke(world, RunId("wfr_101"), outer)
    # Others are not held up.
    assert invoke(world, RunId("wfr_other"), RunId("wfr_unknown")).deduplicated is False


def test_the_depths_of_so_many_ended_runs_are_known() -> None:
    """D-600."""
    world = RunWorld()
    world.begin()
    run = replace(world.run(RUN), depth=1)
    state = restore(world.snapshot()[0])
    for number in range(MOST_ENDED_DEPTHS + 2):
        run_id = RunId(f"wfr_{number}")
        state.apply(RunStarted(run=replace(run, run_id=run_id, number=number + 2)))
        state.apply(
            RunEnded(account_id=run.account_id, run_id=run_id, run_number=number + 2, at_ms=0, state=RunState.CANCELED)
        )
    depths = state.accounts[run.account_id].ended_depths
    assert (len(depths), next(iter(depths))) == (MOST_ENDED_DEPTHS, "wfr_2")


# -- ending -------------------------------------------------------------------------------------


def test_a_run_returns_its_result() -> None:
    world = RunWorld()
    world.begin()
    world.succeed(b'{"total":3}')
    (ended,) = world.all(run_facts.RunEnded)
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


@pytest.mark.parametrize(
    ("end", "log"),
    [
        pytest.param(RunWorld.succeed, ["CREATED", "ACTIVE", "ERROR", "FAILED"], id="success"),
        pytest.param(
            RunWorld.cancel_run, ["CREATED", "ACTIVE", "CANCEL_REQUESTED", "ERROR", "CANCELED"], id="cancellation"
        ),
    ],
)
def test_a_call_that_is_under_way_at_the_end_goes_on_and_fails_nothing(
    end: Callable[[RunWorld], None], log: list[str]
) -> None:
    world = RunWorld()
    world.answering = None
    first = world.begin(max_retries=3)
    end(world)
    world.finish(first.message_id, answered(500))
    assert world.log_of(first.message_id) == log
    assert world.dead_letter_ids() == []


def test_an_ended_run_is_kept_as_long_as_a_delivery_of_its_own_is_in_flight_and_no_longer() -> None:
    world = RunWorld()
    world.answering = None
    first, second = world.begin(), world.begin(TWO)
    for published in (first, second):
        world.finish(published.message_id, WORKFLOW)
    again = commands.Redeliver(message=world.messages[second.message_id], number=1)
    assert world.submit(again) == 1
    world.succeed()
    assert list(world.owner.ended_runs) == []
    world.succeed(run_id=TWO)
    assert list(world.owner.ended_runs) == [2]
    world.submit(
        commands.RecordAttempt(
            message_id=second.message_id, number=1, outcome=WORKFLOW, is_duplicate=True, redelivery=1
        )
    )
    assert list(world.owner.ended_runs) == []


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


@pytest.mark.parametrize(
    ("response", "out"),
    [
        (b'"r"', {"isFailed": False, "isCanceled": False, "body": '"r"'}),
        (b"", {"isFailed": False, "isCanceled": False}),
    ],
)
def test_the_invoker_gets_the_result(response: bytes, out: dict[str, Any]) -> None:
    world = RunWorld()
    invoked(world)
    world.succeed(response, CHILD)
    told = json.loads(steps_in(world.calls_at(FLOW)[-1])[-1])
    assert json.loads(told.pop("out")) == out
    assert told == {"stepId": 1, "stepName": "inv", "stepType": "Invoke", "concurrent": 1}


def test_the_invoker_is_told_of_a_cancellation() -> None:
    world = RunWorld()
    invoked(world)
    world.cancel_run(CHILD)
    told = json.loads(steps_in(world.calls_at(FLOW)[-1])[-1])
    assert json.loads(told["out"]) == {"isFailed": False, "isCanceled": True}


def test_an_invoker_that_has_ended_gets_no_call() -> None:
    world = RunWorld()
    invoked(world)
    world.succeed()
    world.succeed(b"", CHILD)
    assert len(world.calls_at(FLOW)) == 1


def test_a_later_run_with_the_id_of_the_invoker_gets_no_call() -> None:
    world = RunWorld()
    invoked(world)
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
