"""What attempts lead to: duplicates, and what becomes of the calls of a run."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from msgspec.structs import replace

from emulator.core import commands, message_facts, run_facts
from emulator.core.checkpoint import capture, restore
from emulator.core.commands import PublishItem
from emulator.core.errors import Conflict
from emulator.core.model.messages import AttemptOutcome, CreatedBy, Message, Via
from emulator.core.model.options import CallType, Destination, DestinationKind, MessageOptions, Redaction
from emulator.core.model.resources import Disturbance, Fault, ScriptedResponse
from emulator.core.record import RunId
from tests.harness.simulations import (
    EPOCH_MS,
    HOUR,
    SECOND,
    World,
    answered,
    by_url,
    callback,
    make_account,
    unreachable,
)
from tests.harness.workflows import FLOW, RUN, WORKFLOW, RunWorld, item, parent, part, step

# -- duplicates ---------------------------------------------------------------------------------

URL = "https://api.example.com/hook"


@pytest.mark.parametrize("duplicate_ms", [0, HOUR])
def test_a_delivery_is_made_again_at_once_or_after_a_while(duplicate_ms: int) -> None:
    """D-421: a failed attempt is not."""
    world = World(answering=by_url({URL: [answered(500), answered()]}))
    world.add_rule("*", duplicate_ms=duplicate_ms)
    message_id = world.publish(URL, retry_delay="0")
    assert len(world.all(message_facts.DuplicateStarted)) == (duplicate_ms == 0)
    world.run_for(HOUR)
    (duplicate,) = world.all(message_facts.DuplicateFinished)
    assert (duplicate.message_id, duplicate.number, duplicate.started_ms) == (
        message_id,
        2,
        world.began_ms + duplicate_ms,
    )
    assert len(world.all(message_facts.MessageDelivered)) == 1


def test_what_a_duplicate_is_answered_changes_nothing() -> None:
    """D-421: it causes no callback either."""
    answers = iter((answered(200), answered(500)))
    world = World(answering=lambda message, number: next(answers) if message.url == URL else answered())
    world.add_rule("https://api.example.com/*", duplicate_ms=0)
    world.publish(URL, max_retries=3, callback=callback("https://back.example.com"))
    (finished,) = world.all(message_facts.DuplicateFinished)
    assert not finished.outcome.succeeded
    assert world.all(message_facts.RetryScheduled) == []
    assert world.all(message_facts.MessageFailed) == []
    assert len(world.all(message_facts.MessageCreated)) == 2
    assert not world.simulation.state.messages


def test_a_duplicate_goes_where_its_delivery_went_and_has_none_of_its_own() -> None:
    """D-421."""
    world = World()
    world.add_rule(URL, forward_to="http://127.0.0.1:3000", duplicate_ms=0, latency_ms=10)
    world.publish(URL)
    world.run_for(HOUR)
    (scheduled,) = world.all(message_facts.DuplicateScheduled)
    answer = scheduled.duplicate.answer
    assert answer is not None
    assert (answer.forward_to, answer.latency_ms, answer.duplicate_ms) == ("http://127.0.0.1:3000", 0, None)
    assert answer.disturbance == Disturbance(is_duplicate=True)


def test_a_redelivery_is_answered_at_once_unless_its_answer_comes_too_late_and_no_rule_repeats_it() -> None:
    """D-705."""
    world = World()
    message_id = world.publish(URL, timeout_ms=5_000)
    rule_id = world.add_rule(URL, duplicate_ms=0, latency_ms=4_000)
    assert world.do(commands.Redeliver(message=world.messages[message_id], number=1)) == 1
    world.do(commands.RemoveRules(rule_id=rule_id))
    world.add_rule(URL, responses=(ScriptedResponse(status=200, latency_ms=6_000),))
    assert world.do(commands.Redeliver(message=world.messages[message_id], number=1)) == 2
    first, second = (each.outcome for each in world.all(message_facts.DuplicateFinished))
    assert (first.redelivery, first.error, first.response is None) == (1, None, False)
    assert (second.redelivery, second.error, second.response) == (2, "timeout: no response in time", None)
    repeats = [
        each.duplicate.answer.duplicate_ms
        for each in world.all(message_facts.DuplicateScheduled)
        if each.duplicate.answer is not None
    ]
    assert (repeats, world.all(message_facts.ResponseDelayed)) == ([None, None], [])


def test_an_answer_that_a_caller_waited_for_is_neither_repeated_nor_sent_again() -> None:
    """D-421, D-705."""
    world = World()
    world.add_rule(URL, duplicate_ms=0)
    chat = PublishItem(
        destination=Destination(kind=DestinationKind.URL, text=URL), body=b"", options=MessageOptions(), caller_ip=""
    )
    world.do(commands.Publish(account_id=world.account_id, item=chat, created_by=CreatedBy.CHAT))
    assert world.all(message_facts.DuplicateScheduled) == []
    (message,) = world.messages.values()
    with pytest.raises(Conflict, match=r"^a chat completion was answered to the call that asked for it"):
        world.do(commands.Redeliver(message=message, number=1))


def test_a_redelivery_meets_the_rules_that_its_attempt_would_meet_now() -> None:
    """D-705: a rule may spare the attempt of that number."""
    world = World()
    message_id = world.publish(URL)
    world.add_rule(URL, fault=Fault.RESET, exempt_attempts=("1.2",))
    for number in (1, 2):
        world.do(commands.Redeliver(message=world.messages[message_id], number=number))
    answers = [each.duplicate.answer for each in world.all(message_facts.DuplicateScheduled)]
    assert [answer is None for answer in answers] == [False, True]


def test_a_pending_duplicate_outlasts_a_restart() -> None:
    """D-421."""
    world = World()
    world.add_rule("*", duplicate_ms=HOUR)
    world.publish(URL)
    state = world.snapshot()[0]
    assert len(state.duplicates) == 1
    assert capture(restore(state)) == state


# -- calls of a workflow run --------------------------------------------------------------------

THIRD = "https://third.test/"
FAIL = "https://app.test/fail"
BOOM = answered(500, headers=(("Content-Type", "application/json"),), body=b'{"error":"E","message":"boom"}')
FATAL = answered(489, headers=(("Svc-NonRetryable-Error", "true"),))


def answers(outcome: AttemptOutcome) -> Any:
    return lambda message, number: outcome


def test_a_failing_call_is_retried_and_then_fails_the_run() -> None:
    world = RunWorld()
    world.outcomes[FLOW] = answers(BOOM)
    first = world.begin(max_retries=2, retry_delay="1000")
    world.run_for(10 * SECOND)
    assert world.times_of_calls() == [0, SECOND, 2 * SECOND]
    assert world.endings == [(RUN, "RUN_FAILED")]
    (letter,) = world.owner.dead_letters.values()
    assert (letter.message_id, letter.run_number) == (first.message_id, 1)
    assert world.all(run_facts.RunEnded)[0].dead_letter_id == letter.dead_letter_id


def test_the_failure_function_is_told_all() -> None:
    world = RunWorld()
    world.outcomes[FLOW] = answers(BOOM)
    failed = world.begin(
        body=b"payload",
        max_retries=0,
        failure_callback=callback(FAIL, forwarded=(("X-Own", "1"),), max_retries=1),
    )
    (call,) = world.calls_at(FAIL)
    assert call.run is not None
    assert (call.run.call_type, call.policy.max_retries, call.headers) == (
        CallType.FAILURE_CALL,
        1,
        (("X-Own", "1"), ("Content-Type", "application/json")),
    )
    told = json.loads(call.body)
    letter = world.dead_letter_ids()[0]
    assert told == {
        "status": 500,
        "header": {"Content-Type": ["application/json"]},
        "body": base64.b64encode(BOOM.response.body if BOOM.response else b"").decode(),
        "retried": 0,
        "maxRetries": 0,
        "dlqId": letter,
        "url": FLOW,
        "method": "POST",
        "sourceHeader": {},
        "sourceBody": base64.b64encode(b"payload").decode(),
        "sourceMessageId": failed.message_id,
        "workflowRunId": RUN,
        "workflowCreatedAt": EPOCH_MS,
        "workflowUrl": FLOW,
        "notBefore": str(EPOCH_MS),
        "createdAt": str(EPOCH_MS),
        "callerIP": "203.0.113.7",
    }
    assert b": " not in call.body


def test_a_failing_failure_function_leaves_no_dead_letter_of_its_own() -> None:
    world = RunWorld()
    world.outcomes[FLOW] = world.outcomes[FAIL] = answers(BOOM)
    world.begin(max_retries=0, failure_callback=callback(FAIL, max_retries=1, retry_delay="1000"))
    world.run_for(10 * SECOND)
    assert len(world.calls_at(FAIL)) == 2
    assert len(world.dead_letter_ids()) == 1
    assert len(world.all(message_facts.MessageGivenUp)) == 1
    assert world.owner.run_messages == {}


def test_a_step_in_the_middle_fails_the_run_with_the_failure_function_of_its_beginning() -> None:
    world = RunWorld({1: lambda world: world.add(step(1), max_retries=0)})
    world.outcomes[FLOW] = lambda message, number: WORKFLOW if message.run and message.run.is_init else BOOM
    world.begin(failure_callback=callback(FAIL))
    world.add(step(1), max_retries=0)
    assert json.loads(world.calls_at(FAIL)[0].body)["sourceBody"] == base64.b64encode(b'{"a":1}').decode()


def test_two_steps_that_fail_make_one_dead_letter() -> None:
    world = RunWorld()
    world.answering = None
    first = world.begin()
    world.finish(first.message_id, WORKFLOW)
    steps = [world.add(step(number), max_retries=0).message_id for number in (1, 2)]
    for message_id in steps:
        world.finish(message_id, BOOM)
    assert len(world.dead_letter_ids()) == 1
    assert world.endings == [(RUN, "RUN_FAILED")]
    assert world.log_of(steps[1])[-1] == "FAILED"


def test_the_oldest_dead_letter_makes_room() -> None:
    world = RunWorld(account=make_account(max_dlq_size=1))
    world.outcomes[FLOW] = answers(FATAL)
    for name in ("wfr_1", "wfr_2"):
        world.begin(RunId(name))
    assert [letter.run_number for letter in world.owner.dead_letters.values()] == [2]


def test_the_invoker_is_told_of_a_failure() -> None:
    world = RunWorld()
    world.begin()
    world.outcomes[THIRD] = answers(FATAL)
    world.send(item(THIRD, workflow=part(RunId("wfr_child"), is_init=True), invoker=parent(RUN)))
    told = json.loads(world.run().steps[-1].body)
    assert json.loads(told["out"]) == {"isFailed": True, "isCanceled": False}


# -- destinations that are no workflow --------------------------------------------------------


@pytest.mark.parametrize(
    ("features", "outcome", "ends"),
    [
        pytest.param(("WF_DetectTrigger",), answered(body=b"page"), [(RUN, "RUN_FAILED")], id="no workflow"),
        pytest.param(("WF_DetectTrigger",), WORKFLOW, [], id="workflow"),
        pytest.param((), answered(), [], id="not asked for"),
        pytest.param(("WF_DetectTrigger",), replace(answered(), via=Via.CAPTURE), [], id="captured"),
    ],
)
def test_a_destination_that_is_no_workflow_fails_the_run(
    features: tuple[str, ...], outcome: AttemptOutcome, ends: list[tuple[str, str]]
) -> None:
    """D-365."""
    world = RunWorld()
    world.outcomes[FLOW] = answers(outcome)
    world.begin(part={"features": features}, failure_callback=callback(FAIL))
    assert world.endings == ends
    assert len(world.calls_at(FLOW)) == 1
    if ends:
        finished = world.all(message_facts.AttemptFinished)[0].outcome
        assert finished.error is not None
        assert finished.error.startswith("detected a non-workflow destination for trigger/invoke. make sure")
        assert base64.b64decode(json.loads(world.calls_at(FAIL)[0].body)["body"]) == b"page"


def test_later_answers_need_not_be_a_workflows() -> None:
    world = RunWorld()
    world.outcomes[FLOW] = lambda message, number: WORKFLOW if message.run and message.run.is_init else answered()
    world.begin()
    world.add(step(1))
    assert world.endings == []


# -- call steps -------------------------------------------------------------------------------


def call(world: RunWorld, outcome: AttemptOutcome, **options: Any) -> list[Message]:
    """Begin a run, and make the request of a call step; the calls that carry its response."""
    world.outcomes[THIRD] = answers(outcome)
    hidden = Redaction(body=False, all_headers=True, header_names=())
    world.begin(body=b"payload", forwarded=(("X-User", "u"), ("Svc-Workflow-Sdk-Version", "1")), redaction=hidden)
    back = callback(
        FLOW, forwarded=(("Svc-Workflow-Callback", "true"),), workflow=part(call_type=CallType.FROM_CALLBACK)
    )
    options = {"max_retries": 0, "callback": back, **options}
    world.send(item(THIRD, b"q", workflow=part(call_type=CallType.TO_CALLBACK), **options))
    world.run_for(60 * SECOND)
    return [message for message in world.calls if message.run and message.run.call_type is CallType.FROM_CALLBACK]


@pytest.mark.parametrize("status", [200, 201, 300, 400, 401, 500])
def test_whatever_a_third_party_answers_is_brought_once(status: int) -> None:
    """D-366."""
    world = RunWorld()
    (brought,) = call(world, answered(status, body=b"r"), max_retries=1, retry_delay="1000")
    told = json.loads(brought.body)
    retried = 0 if status < 300 else 1
    assert (told["status"], told["body"], told["retried"], told["maxRetries"]) == (status, "cg==", retried, 1)
    assert told["sourceBody"] == base64.b64encode(b"payload").decode()
    assert brought.url == FLOW
    # It repeats headers in its body (D-513).
    assert brought.policy.redaction == Redaction(body=True, all_headers=True, header_names=())
    assert brought.headers == (
        ("Svc-Workflow-Callback", "true"),
        ("X-User", "u"),
        ("Content-Type", "application/json"),
    )
    assert (world.dead_letter_ids(), world.endings) == ([], [])
    assert len(world.run().steps) == 1


def test_what_a_call_hides_is_hidden_in_the_message_that_carries_its_response() -> None:
    """D-026: its body repeats what was sent and answered."""
    own = Redaction(body=True, all_headers=False, header_names=("x-key",))
    (carrier,) = call(RunWorld(), answered(), redaction=own)
    assert carrier.policy.redaction is not None
    assert (carrier.policy.redaction.body, carrier.policy.redaction.header_names) == (True, ("x-key",))


def test_a_third_party_that_cannot_be_reached_has_the_status_0() -> None:
    """D-366."""
    (brought,) = call(RunWorld(), unreachable("connection refused"))
    told = json.loads(brought.body)
    assert (told["status"], base64.b64decode(told["body"])) == (0, b"connection refused")


def test_a_response_that_comes_after_the_end_is_brought_to_nobody() -> None:
    world = RunWorld()
    world.answering = None
    world.begin()
    request = world.send(
        item(THIRD, workflow=part(call_type=CallType.TO_CALLBACK), callback=callback(FLOW), max_retries=0)
    )
    world.cancel_run()
    world.finish(request.message_id, answered(200))
    assert len(world.messages) == 2
