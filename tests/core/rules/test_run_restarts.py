"""Runs that are triggered, resumed and restarted."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from msgspec.structs import replace

from emulator.core import commands
from emulator.core.errors import InvalidInput, InvalidRunMessage, LimitReached, NotFound, QuotaExceeded
from emulator.core.model import workflows
from emulator.core.model.messages import AttemptOutcome, Message
from emulator.core.model.options import MessageOptions
from emulator.core.record import RunId
from tests.harness.simulations import CALLER_IP, DAY, EPOCH_MS, SECOND, answered, callback, make_account
from tests.harness.workflows import FLOW, RUN, WORKFLOW, RunWorld, item, parent, part, step, steps_in

# -- triggering ---------------------------------------------------------------------------------


def handshaking() -> RunWorld:
    """A world whose endpoint answers the first call with an init message of its own."""
    world = RunWorld()

    def introduce(_: RunWorld) -> None:
        message = world.calls[-1]
        assert message.run is not None
        if message.run.awaits_sdk:
            own = part(message.run.run_id, is_init=True, url=FLOW, by_sdk=True)
            world.send(item(body=steps_in(message)[0], workflow=own, max_retries=1))

    world.acts[1] = introduce
    return world


# The answer of an endpoint whose client names its own version, too.
OF_TODAY = answered(headers=(("Svc-Workflow-Sdk-Version", "1"), ("svc-workflow-sdk", "v1.3.3")))


def test_a_triggered_run_begins_with_its_payload() -> None:
    """D-370. One call, as if the endpoint's own client had published it."""
    world = RunWorld()
    world.outcomes[FLOW] = lambda message, number: OF_TODAY
    (run,) = world.trigger(item(body=b"p", forwarded=(("X-User", "u"),)))
    (call,) = world.calls
    assert call.run is not None
    assert (call.run.awaits_sdk, call.run.names_sdk, call.run.detects_workflow) == (False, True, True)
    assert steps_in(call) == [b"p"]
    assert world.endings == []
    world.add(step(1), run.run_id)
    assert [each.run is not None and each.run.names_sdk for each in world.calls] == [True, False]


@pytest.mark.parametrize("restarted", [commands.RestartRuns, commands.ResumeRuns])
def test_a_triggered_run_that_begins_again_is_held_to_the_same(restarted: type[commands.BeginRunsAgain]) -> None:
    """D-370. Restarted, or resumed after its first call had failed."""
    world = RunWorld()
    world.outcomes[FLOW] = lambda message, number: WORKFLOW
    world.trigger(item(workflow=part(RUN)))
    world.run_for(DAY)
    run = resume(world, how=restarted)
    assert world.endings == [(RUN, "RUN_FAILED"), (run.run_id, "RUN_FAILED")]


def test_a_run_of_an_unknown_client_begins_with_a_handshake() -> None:
    """D-370. It is asked for by a header of the trigger, or one that is forwarded."""
    for options in ({"workflow": part(RUN, unknown_sdk=True)}, {"forwarded": (("Svc-Workflow-Unknown-Sdk", "true"),)}):
        world = handshaking()
        world.trigger(item(**options))
        assert [each.run is not None and each.run.awaits_sdk for each in world.calls] == [True, False]
        assert world.endings == []


def test_a_handshake_keeps_the_run_and_its_creation() -> None:
    """D-370."""
    world = handshaking()
    (run,) = world.trigger(item(body=b"p", workflow=part(RunId(""), unknown_sdk=True), forwarded=(("X-User", "u"),)))
    first, second = world.calls
    assert first.run is not None
    assert second.run is not None
    assert (first.run.awaits_sdk, second.run.awaits_sdk) == (True, False)
    assert first.headers == (("X-User", "u"),)
    assert steps_in(second) == [b"p"]
    assert second.run.run_created_ms == first.run.run_created_ms == run.created_ms
    assert world.endings == []
    assert world.run(run.run_id).options.max_retries == 1


def test_the_service_names_a_run_without_an_id() -> None:
    """D-360."""
    world = RunWorld()
    one, two = world.trigger(item(), item(workflow=part(RunId(""), unknown_sdk=True)))
    assert re.fullmatch("wfr_[1-9A-HJ-NP-Za-km-z]{21}", one.run_id)
    assert one.run_id != two.run_id


def test_an_active_run_of_the_id_is_left_alone() -> None:
    world = RunWorld()
    world.outcomes[FLOW] = lambda message, number: OF_TODAY
    world.trigger(item(workflow=part(RUN)))
    calls = len(world.calls)
    (again,) = world.trigger(item(workflow=part(RUN)))
    assert (again.run_id, again.deduplicated, len(world.calls)) == (RUN, True, calls)


@pytest.mark.parametrize(
    ("headers", "error"),
    [
        ((), "detected a non-workflow destination for trigger/invoke"),
        ((("Svc-Workflow-Sdk-Version", "1"),), "trigger rest api is only usable with sdk versions after v1.0.0"),
    ],
)
@pytest.mark.parametrize("unknown_sdk", [False, True])
def test_an_endpoint_that_names_no_client_of_today_fails_the_run(
    headers: tuple[tuple[str, str], ...], error: str, *, unknown_sdk: bool
) -> None:
    """D-365: of an answer without the version of the client, and of a handshake that is not answered."""
    world = RunWorld()
    world.outcomes[FLOW] = lambda message, number: answered(headers=headers)
    world.trigger(item(workflow=part(RUN, unknown_sdk=unknown_sdk)))
    assert world.endings == [(RUN, "RUN_FAILED")]
    assert error in (world.failed_run().outcome.error or "")
    # The failure function is the workflow's own.
    assert [message.url for message in world.calls] == [FLOW, FLOW]


def test_all_are_triggered_or_none() -> None:
    world = RunWorld(account=make_account(max_requests_per_day_hard=1))
    with pytest.raises(QuotaExceeded):
        world.trigger(item(), item())
    with pytest.raises(InvalidRunMessage):
        world.trigger(item(), item(max_retries=99))
    assert world.facts == []


def test_a_trigger_is_as_deep_as_its_header_says() -> None:
    """D-600."""
    world = RunWorld()
    world.trigger(item(forwarded=(("Svc-Workflow-Invoke-Count", "100"),)))
    with pytest.raises(LimitReached):
        world.trigger(item(forwarded=(("Svc-Workflow-Invoke-Count", "101"),)))


# -- resuming -----------------------------------------------------------------------------------

FAIL = "https://app.test/fail"
BOOM = answered(500)


def failed(*, at: int = 3, **options: Any) -> RunWorld:
    """A world with a run that failed when it was called with so many steps; from now on it works."""
    world = RunWorld({1: lambda world: world.add(step(1)), 2: lambda world: world.add(step(2))})
    mended: list[bool] = []

    def answer(message: Any, number: int) -> AttemptOutcome:
        count = len(steps_in(message))
        if count == at and not mended:
            return BOOM
        if act := world.acts.get(count):
            act(world)
        return WORKFLOW

    world.outcomes[FLOW] = answer
    world.begin(max_retries=0, forwarded=(("X-User", "u"),), **options)
    world.run_for(10 * SECOND)
    mended.append(True)
    world.acts.clear()
    return world


def resume(
    world: RunWorld,
    entry: commands.FailedRun | None = None,
    how: type[commands.BeginRunsAgain] = commands.ResumeRuns,
    **overrides: Any,
) -> workflows.TriggeredRun:
    entries = (world.failed_run() if entry is None else entry,)
    command = how(account_id=world.account_id, entries=entries, overrides=MessageOptions(**overrides), strict=True)
    (run,) = world.do(command)
    return run


def test_a_resumed_run_goes_on_with_the_call_that_failed() -> None:
    """D-374."""
    world = failed()
    run = resume(world)
    call = world.calls[-1]
    assert steps_in(call) == [b'{"a":1}', step(1), step(2)]
    assert call.run is not None
    assert (call.run.run_id, call.run.is_init, dict(call.headers)["X-User"]) == (run.run_id, False, "u")
    assert world.run(run.run_id).steps[-1].message_id == call.message_id
    assert world.dead_letter_ids() == []
    world.succeed(run_id=run.run_id)
    assert world.endings[-1] == (run.run_id, "RUN_SUCCESS")


def test_a_resumed_run_has_the_dead_letter_it_comes_from_and_no_waiter_or_invoker_of_the_failed_one() -> None:
    world = failed()
    entry = world.failed_run()
    waiter = replace(failed_waiter(), number=7)
    entry = replace(entry, run=replace(entry.run, waiters=(waiter,), invoker=parent(RunId("wfr_parent"))))
    run = world.run(resume(world, entry).run_id)
    assert (run.from_dead_letter, run.waiters, run.invoker) == (entry.dead_letter_id, (), None)
    call = world.calls[-1]
    assert (call.source.from_dead_letter, call.source.caller_ip) == (entry.dead_letter_id, CALLER_IP)


def failed_waiter() -> workflows.Waiter:
    world = RunWorld()
    world.begin()
    world.wait()
    (waiter,) = world.run().waiters
    return waiter


def plan(number: int) -> bytes:
    """The plan of one of three parallel steps."""
    fields = {"stepId": 0, "stepName": f"s{number}", "stepType": "Run", "concurrent": 3, "targetStep": number}
    return json.dumps(fields).encode()


def failed_in_parallel() -> tuple[RunWorld, commands.FailedRun]:
    """The second of three parallel steps has failed, the third sleeps a day from the second second on; it works now."""
    world = RunWorld()
    world.begin(max_retries=0)
    world.add(plan(1))
    world.add(step(1))
    world.run_for(SECOND)
    world.outcomes[FLOW] = lambda message, number: BOOM
    sleeping = world.add(plan(3), delay_ms=DAY, retry_delay="7000", labels=("nap",))
    world.add(plan(2))
    del world.outcomes[FLOW]
    entry = world.failed_run()
    return world, replace(entry, unfinished=(world.messages[sleeping.message_id],))


def test_a_resumed_run_repeats_parallel_steps_without_a_result() -> None:
    """D-374: in their order, each with the list up to itself and its own options; a sleep ends when it would have."""
    world, entry = failed_in_parallel()
    world.run_for(SECOND)
    seen = len(world.calls)
    run = resume(world, entry)
    assert [steps_in(call) for call in world.calls[seen:]] == [[b'{"a":1}', plan(1), step(1), plan(3), plan(2)]]
    assert world.times_of_calls()[-1] == 2 * SECOND
    world.run_for(2 * DAY)
    call = world.calls[-1]
    assert steps_in(call) == [b'{"a":1}', plan(1), step(1), plan(3)]
    assert (call.policy.retry_delay, call.policy.labels, call.policy.max_retries) == ("7000", ("nap",), 0)
    assert world.times_of_calls()[-1] == SECOND + DAY
    # Each entry of the list has the id of the message that was made for it.
    ids = [each.message_id for each in world.run(run.run_id).steps[-2:]]
    assert ids == [call.message_id, world.calls[seen].message_id]
    world.add(step(3), run_id=run.run_id)
    world.add(step(2), run_id=run.run_id)
    assert steps_in(world.calls[-1])[-4:] == [plan(3), plan(2), step(3), step(2)]
    world.succeed(run_id=run.run_id)
    assert world.endings[-1] == (run.run_id, "RUN_SUCCESS")


def test_a_sleep_that_is_over_by_now_is_not_slept_again() -> None:
    """D-374."""
    world, entry = failed_in_parallel()
    world.run_for(3 * DAY)
    resume(world, entry)
    assert world.times_of_calls()[-2:] == [3 * DAY + SECOND] * 2


@pytest.mark.parametrize(
    ("overrides", "at_ms"),
    [
        ({"delay_ms": 2 * SECOND}, [3 * SECOND, DAY + SECOND]),
        ({"delay_ms": 2 * DAY}, [2 * DAY + SECOND] * 2),
        ({"not_before_ms": EPOCH_MS + 2 * DAY}, [2 * DAY] * 2),
    ],
    ids=["before the sleep ends", "after it", "an instant"],
)
def test_a_resumed_run_makes_no_call_before_the_delay_it_was_given(overrides: dict[str, Any], at_ms: list[int]) -> None:
    """D-374."""
    world, entry = failed_in_parallel()
    resume(world, entry, **overrides)
    world.run_for(3 * DAY)
    assert world.times_of_calls()[-2:] == at_ms


def webhook(run_id: str, event_id: str, kind: str = "CreateWebhook") -> bytes:
    """The result of a step that created a webhook, as a client publishes it."""
    url = f"http://127.0.0.1:8080/v2/workflows/hooks/user/{run_id}/{event_id}"
    return step(1, {"webhookUrl": url, "eventId": event_id}, stepType=kind)


def with_webhook(created: bytes) -> tuple[RunWorld, RunId]:
    """A resumed run that waits for an event; the first of its steps is the one given."""
    world = RunWorld()
    world.begin(max_retries=0)
    world.outcomes[FLOW] = lambda message, number: BOOM
    world.add(created)
    del world.outcomes[FLOW]
    run_id = resume(world).run_id
    world.wait("evt_1", run_id=run_id)
    return world, run_id


def test_a_webhook_of_a_failed_run_reaches_the_run_that_goes_on_with_it() -> None:
    """D-451: also one that comes before the wait, and after the run was resumed twice."""
    world, first = with_webhook(webhook("wfr_one", "evt_1"))
    assert [each.run_id for each in world.notify("evt_1", run_id=RunId("wfr_one"))] == [first]
    assert world.notify("evt_1", run_id=RunId("wfr_one")) == ()
    assert [event.event_id for event in world.run(first).saved_events] == ["evt_1"]
    world.outcomes[FLOW] = lambda message, number: BOOM
    world.add(step(2), run_id=first)
    del world.outcomes[FLOW]
    second = resume(world).run_id
    world.notify("evt_1", b"again", RunId("wfr_one"))
    assert [event.body for event in world.run(second).saved_events] == [b"again"]


def test_a_new_run_with_the_id_of_the_failed_one_has_its_own_webhooks() -> None:
    """D-451."""
    world, resumed_id = with_webhook(webhook("wfr_one", "evt_1"))
    world.begin()
    world.wait("evt_2")
    assert [each.run_id for each in world.notify("evt_2", run_id=RunId("wfr_one"))] == ["wfr_one"]
    assert [each.run_id for each in world.notify("evt_1", run_id=RunId("wfr_one"))] == [resumed_id]


@pytest.mark.parametrize(
    "created",
    [
        webhook("wfr_one", "evt_12"),
        webhook("wfr_other", "evt_1"),
        webhook("wfr_one", "evt_1", "Run"),
        b'{"stepType":"CreateWebhook","out":"/wfr_one/evt_1"}',
        b"/wfr_one/evt_1",
    ],
    ids=["another event", "another run", "no webhook", "no URL", "no JSON"],
)
def test_what_is_no_webhook_of_a_failed_run_leads_nowhere(created: bytes) -> None:
    """D-451."""
    world, run_id = with_webhook(created)
    assert world.notify("evt_1", run_id=RunId("wfr_one")) == ()
    assert world.run(run_id).saved_events == ()


def test_a_run_that_failed_at_its_beginning_begins_again() -> None:
    world = failed(at=1)
    run = resume(world)
    call = world.calls[-1]
    assert call.run is not None
    assert (call.run.is_init, call.run.run_id) == (True, run.run_id)
    assert run.run_id.startswith("wfr_")


def test_a_restarted_run_has_the_payload_and_the_configuration_alone() -> None:
    world = failed(delay_ms=SECOND)
    run = resume(world, how=commands.RestartRuns)
    call = world.calls[-1]
    assert steps_in(call) == [b'{"a":1}']
    assert (call.policy.max_retries, dict(call.headers)["X-User"]) == (0, "u")
    assert world.times_of_calls()[-1] == world.now_ms
    assert world.run(run.run_id).from_dead_letter is not None


@pytest.mark.parametrize("how", [commands.ResumeRuns, commands.RestartRuns])
def test_the_call_overrides_the_configuration(how: type[commands.BeginRunsAgain]) -> None:
    world = failed()
    run = resume(world, how=how, max_retries=5, labels=("new",), delay_ms=DAY)
    world.run_for(DAY)
    call = world.calls[-1]
    assert (call.policy.max_retries, call.policy.labels) == (5, ("new",))
    assert world.times_of_calls()[-1] == 10 * SECOND + DAY
    assert world.run(run.run_id).options.max_retries == 5


def test_an_entry_that_is_gone_is_not_found() -> None:
    world = failed()
    entry = world.failed_run()
    resume(world)
    for strict in (True, False):
        command = commands.RestartRuns(
            account_id=world.account_id, entries=(entry,), overrides=MessageOptions(), strict=strict
        )
        if strict:
            with pytest.raises(NotFound, match=f"^dlq message {entry.dead_letter_id} not found"):
                world.do(command)
        else:
            assert world.do(command) == ()


# -- the failure function ---------------------------------------------------------------------


def call_again(world: RunWorld) -> workflows.TriggeredRun:
    return world.do(commands.CallFailureFunction(account_id=world.account_id, entry=world.failed_run()))


def test_a_failure_function_that_failed_is_called_again() -> None:
    world = RunWorld()
    world.outcomes[FLOW] = world.outcomes[FAIL] = lambda message, number: BOOM
    world.begin(max_retries=0, failure_callback=callback(FAIL, max_retries=0))
    del world.outcomes[FAIL]
    assert call_again(world).run_id == RunId("wfr_one")
    first, second = world.calls_at(FAIL)
    assert first.body == second.body
    with pytest.raises(InvalidInput):
        call_again(world)


def test_a_failure_function_in_progress_is_cancelled() -> None:
    world = RunWorld()
    world.outcomes[FLOW] = world.outcomes[FAIL] = lambda message, number: BOOM
    world.begin(max_retries=0, failure_callback=callback(FAIL, max_retries=5, retry_delay="10000"))
    cancel = commands.CancelFailureFunction(account_id=world.account_id, entry=world.failed_run())
    with pytest.raises(InvalidInput):
        call_again(world)
    world.do(cancel)
    world.run_for(DAY)
    assert len(world.calls_at(FAIL)) == 1
    with pytest.raises(InvalidInput):
        world.do(cancel)
    with pytest.raises(InvalidInput):
        call_again(world)


def test_a_failure_function_whose_call_is_in_flight_is_cancelled_once() -> None:
    world = RunWorld()
    world.outcomes[FLOW] = lambda message, number: BOOM

    def cancel_twice(message: Message, number: int) -> AttemptOutcome:
        cancel = commands.CancelFailureFunction(account_id=world.account_id, entry=world.failed_run())
        world.submit(cancel)
        with pytest.raises(InvalidInput, match="in progress"):
            world.submit(cancel)
        return BOOM

    world.outcomes[FAIL] = cancel_twice
    world.begin(max_retries=0, failure_callback=callback(FAIL, max_retries=5))
    world.run_for(DAY)
    assert len(world.calls_at(FAIL)) == 1


def test_without_a_failure_function_there_is_nothing_to_call() -> None:
    world = failed()
    with pytest.raises(InvalidInput):
        call_again(world)
