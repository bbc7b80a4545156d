"""Waiting for events: resumed by an event, by one that came before, by the deadline."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from msgspec.structs import replace

from emulator.core.checkpoint import capture, restore
from emulator.core.errors import InvalidRunMessage, LimitReached, PayloadTooLarge, RunOver
from emulator.core.model.resources import Plan
from emulator.core.record import RunId
from emulator.core.rules.run_waits import waiters_of
from tests.harness.simulations import DAY, EPOCH_MS, SECOND, make_account
from tests.harness.workflows import FLOW, RUN, RunWorld, item, part

TWO = RunId("wfr_two")
STEP = {"stepId": 1, "stepName": "w", "stepType": "Wait", "concurrent": 1}


def waiting(*runs: RunId) -> RunWorld:
    world = RunWorld()
    for run in runs or (RUN,):
        world.begin(run)
        world.wait(run_id=run)
    return world


def last_step(world: RunWorld, run_id: RunId = RUN) -> Any:
    return json.loads(world.run(run_id).steps[-1].body)


def test_an_event_resumes_a_wait() -> None:
    world = waiting()
    (notified,) = world.notify(body=b'{"x":"\xc3\xa9"}')
    out = base64.b64encode(b'{"x":"\xc3\xa9"}').decode()
    assert last_step(world) == {**STEP, "out": out, "waitEventId": "ev", "timeout": "20s"}
    assert (notified.run_id, notified.message_id) == (RUN, world.run().steps[-1].message_id)
    assert world.calls[-1].url == FLOW
    world.run_for(DAY)
    assert len(world.run().steps) == 2


def test_the_deadline_resumes_a_wait() -> None:
    world = waiting()
    world.run_for(19 * SECOND)
    assert len(world.run().steps) == 1
    world.run_for(SECOND)
    assert last_step(world) == {**STEP, "waitTimeout": True}
    assert world.times_of_calls(FLOW + "/late") == [20 * SECOND]
    assert world.notify() == ()


def test_an_event_resumes_all_who_wait_in_the_order_of_waiting() -> None:
    world = waiting(TWO, RUN)
    assert [each.run_id for each in world.notify()] == [TWO, RUN]


def test_an_event_that_nobody_waits_for_is_lost() -> None:
    world = RunWorld()
    world.begin()
    assert world.notify() == ()
    world.wait()
    assert len(world.run().steps) == 1


def test_an_event_for_one_run_resumes_that_one_alone() -> None:
    world = waiting(RUN, TWO)
    assert [each.run_id for each in world.notify(run_id=TWO)] == [TWO]
    assert len(world.run(RUN).steps) == 1


def test_waiters_are_numbered_one_after_the_other() -> None:
    world = waiting(RUN, TWO, RunId("wfr_three"))
    assert [waiter.number for _, waiter in waiters_of(world.owner, "ev")] == [1, 2, 3]
    world.notify()
    world.wait()
    assert [waiter.number for _, waiter in waiters_of(world.owner, "ev")] == [4]


def test_what_resumes_a_run_leaves_at_once_and_in_the_trace_of_the_run() -> None:
    traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    world = RunWorld()
    world.send(replace(item(workflow=part(RUN, is_init=True, url=FLOW)), traceparent=traceparent))
    world.wait(not_before_ms=EPOCH_MS + DAY, delay_ms=DAY)
    (notified,) = world.notify()
    message = world.messages[notified.message_id]
    assert (message.not_before_ms, message.source.traceparent) == (EPOCH_MS, traceparent)
    assert notified.run_created_ms == EPOCH_MS


def test_an_event_for_one_run_is_saved_until_it_waits() -> None:
    """The oldest first; each is used once (D-368)."""
    world = RunWorld()
    world.begin()
    for body in (b"1", b"2"):
        world.notify("other", b"0", RUN)
        assert world.notify(body=body, run_id=RUN) == ()
    for body in (b"1", b"2"):
        world.wait()
        assert last_step(world)["out"] == base64.b64encode(body).decode()
    world.wait()
    assert len(world.run().steps) == 3
    assert [event.event_id for event in world.run().saved_events] == ["other", "other"]


def test_all_waits_of_one_run_are_resumed_by_one_event() -> None:
    """D-369."""
    world = waiting()
    world.wait(number=2)
    assert len(world.notify(run_id=RUN)) == 2


def test_an_event_for_a_run_that_has_ended_is_lost() -> None:
    """D-369."""
    world = waiting()
    world.cancel_run()
    assert world.notify(run_id=RUN) == ()
    world.begin()
    assert world.run().saved_events == ()


def test_only_an_active_run_waits() -> None:
    with pytest.raises(RunOver):
        RunWorld().wait()


def test_a_wait_is_as_long_as_the_plan_lets_a_message_wait() -> None:
    """D-364."""
    world = RunWorld(account=make_account(Plan.FREE))
    world.begin()
    world.wait(timeout_ms=7 * DAY)
    with pytest.raises(InvalidRunMessage) as refused:
        world.wait(timeout_ms=7 * DAY + SECOND)
    assert refused.value.field == "timeout"


def test_what_is_too_large_is_refused() -> None:
    world = RunWorld(account=make_account(max_message_size=80))
    world.begin()
    with pytest.raises(LimitReached):
        world.wait(number=10**30)
    with pytest.raises(PayloadTooLarge):
        world.notify(body=b"x" * 81)


def test_waits_and_saved_events_survive_a_checkpoint() -> None:
    world = waiting(TWO, RUN)
    world.notify("early", b"1", RUN)
    state = restore(world.snapshot()[0])
    (owner,) = state.accounts.values()
    assert owner.waiting_runs == {"ev": {1: TWO, 2: RUN}}
    assert owner.runs == world.owner.runs
    assert capture(state) == world.snapshot()[0]
    assert [timer.due_ms for timer in state.timers] == [EPOCH_MS + 20 * SECOND] * 2


def test_who_waits_is_listed_in_the_order_of_waiting() -> None:
    world = waiting(RUN, TWO)
    assert [waiter.number for _, waiter in waiters_of(world.owner, "ev")] == [1, 2]
    assert waiters_of(world.owner, "other") == ()
