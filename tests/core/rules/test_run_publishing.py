"""Publishing into a run: init messages, steps, requests of call steps, and refusals of whole requests."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace

from emulator.core import commands, message_facts, run_facts
from emulator.core.checkpoint import capture, restore
from emulator.core.errors import Forbidden, InvalidRunMessage, LimitReached, QuotaExceeded, RunOver
from emulator.core.model import messages
from emulator.core.model.messages import AttemptOutcome, Message
from emulator.core.model.options import CallType, Destination, DestinationKind, Redaction
from emulator.core.record import RunId
from emulator.core.state import delivered_message
from tests.harness.simulations import DAY, EPOCH_MS, SECOND, answered, callback, flow, make_account
from tests.harness.workflows import FLOW, RUN, RunWorld, item, part, step, steps_in


def test_a_run_is_called_at_the_url_that_it_gives_or_else_at_its_destination() -> None:
    world = RunWorld()
    reply = world.do(commands.Publish(account_id=world.account_id, item=item(workflow=part(is_init=True))))
    assert reply.quota is not None
    assert reply.quota.limit - reply.quota.remaining == 1
    world.begin(RunId("wfr_own"), workflow=part(RunId("wfr_own"), is_init=True, url="https://app.test/other"))
    world.begin(RunId("wfr_none"), workflow=part(RunId("wfr_none"), is_init=True))
    assert [world.run(RunId(name)).url for name in ("wfr_own", "wfr_none")] == ["https://app.test/other", FLOW]


def test_a_run_of_three_steps_is_called_four_times() -> None:
    acts = {
        1: lambda world: world.add(step(1, "a")),
        2: lambda world: world.add(step(2, "b")),
        3: lambda world: world.add(step(3, "c")),
        4: lambda world: world.succeed(),
    }
    world = RunWorld(acts)
    world.begin()
    assert len(world.calls) == 4
    assert steps_in(world.calls[3]) == [b'{"a":1}', step(1, "a"), step(2, "b"), step(3, "c")]
    assert world.endings == [(RUN, "RUN_SUCCESS")]
    assert world.owner.runs == {}
    assert world.owner.run_messages == {}


def test_the_list_is_compact_and_names_the_messages() -> None:
    world = RunWorld()
    first = world.begin(body=b"x")
    second = world.add(b"y")
    listed = [
        {"messageId": first.message_id, "body": "eA==", "callType": "step"},
        {"messageId": second.message_id, "body": "eQ==", "callType": "step"},
    ]
    assert world.calls[1].body == json.dumps(listed, separators=(",", ":")).encode()


def test_a_delivery_is_cut_at_its_own_step_whatever_is_accepted_later() -> None:
    world = RunWorld()
    world.begin()
    world.add(b"late", delay_ms=10 * SECOND)
    world.add(b"now")
    world.run_for(10 * SECOND)
    assert [steps_in(message)[1:] for message in world.calls] == [[], [b"late", b"now"], [b"late"]]


def test_a_message_of_a_run_keeps_its_own_step_and_not_the_list() -> None:
    """D-560."""
    world = RunWorld()
    world.begin()
    world.batch(*(item(body=step(number), workflow=part()) for number in range(1, 41)))
    assert [len(steps_in(message)) for message in world.calls] == list(range(1, 42))
    assert [world.messages[message.message_id].body for message in world.calls[1:]] == [
        step(number) for number in range(1, 41)
    ]


@pytest.mark.parametrize("is_restarted", [False, True], ids=["running", "restarted"])
def test_a_call_that_outlasts_its_run_delivers_the_steps_of_its_run(is_restarted: bool) -> None:
    """D-560: the attempt has started, so it leaves; nothing is kept once it has come back."""
    world = RunWorld()
    world.answering = None
    world.begin()
    late = world.add(b"late").message_id
    world.cancel_run()
    state = restore(capture(world._state)) if is_restarted else world._state
    assert steps_in(delivered_message(state, state.messages[late].message)) == [b'{"a":1}', b"late"]
    for message_id in list(state.messages):
        state.apply(
            message_facts.AttemptFinished(
                message_id=message_id, number=1, started_ms=EPOCH_MS, at_ms=EPOCH_MS, outcome=answered()
            )
        )
        state.apply(message_facts.MessageDelivered(message_id=message_id, at_ms=EPOCH_MS))
    assert state.accounts[world.account_id].ended_runs == {}


def test_a_run_takes_so_many_steps_and_no_more() -> None:
    """D-561: an item too many refuses the whole batch, and the limit is named."""
    world = RunWorld()
    world.answering = None
    world.begin()
    world._state.apply(run_facts.RunRewritten(run=replace(world.run(), steps=world.run().steps * 19_999)))
    steps = [item(body=b"1", workflow=part())] * 2
    with pytest.raises(LimitReached, match="a workflow run takes at most 20001 steps"):
        world.batch(*steps, steps[0])
    assert len(world.run().steps) == 19_999
    world.batch(*steps)
    with pytest.raises(LimitReached, match="a workflow run takes at most 20001 steps"):
        world.add(b"1")
    # The request of a call step is no step of the list, and the run can still end.
    world.send(item("https://third.test/", workflow=part(call_type=CallType.TO_CALLBACK)))
    world.succeed()


def test_a_sleep_is_the_delay_of_its_step() -> None:
    world = RunWorld({1: lambda world: world.add(step(1), delay_ms=3 * DAY), 2: lambda world: world.succeed()})
    world.begin(delay_ms=SECOND)
    world.run_for(30 * DAY)
    assert world.times_of_calls() == [SECOND, SECOND + 3 * DAY]


def test_init_of_an_active_run_sends_nothing() -> None:
    world = RunWorld()
    first = world.begin()
    again = world.begin(body=b"other")
    assert (again.message_id, again.deduplicated) == (first.message_id, True)
    assert len(world.calls) == 1
    assert world.run().payload == b'{"a":1}'


def test_an_id_can_be_used_again_once_its_run_has_ended() -> None:
    world = RunWorld()
    world.begin()
    world.succeed()
    world.run_for(SECOND)
    assert not world.begin(body=b"again").deduplicated
    assert (world.run().number, world.run().created_ms) == (2, EPOCH_MS + SECOND)


@pytest.mark.parametrize("how", ["ended", "unknown"])
def test_a_step_of_a_run_that_is_over_is_refused(how: str) -> None:
    world = RunWorld()
    if how == "ended":
        world.begin()
        world.cancel_run()
    with pytest.raises(RunOver):
        world.add(step(1))


def test_one_item_of_a_run_that_is_over_refuses_a_whole_batch() -> None:
    world = RunWorld()
    world.begin()
    before = len(world.facts)
    with pytest.raises(RunOver):
        world.batch(item(workflow=part()), item("https://other.test/"), item(workflow=part(RunId("wfr_gone"))))
    assert len(world.facts) == before


def test_an_ordinary_item_of_a_batch_with_steps_is_refused_alone() -> None:
    world = RunWorld()
    world.begin()
    reply = world.batch(item("https://other.test/", max_retries=21), item(body=b"1", workflow=part()))
    refused, accepted = reply.items
    assert isinstance(refused, Exception)
    assert isinstance(accepted, messages.Accepted)
    assert len(world.run().steps) == 2


def test_a_batch_begins_many_runs_and_names_each() -> None:
    world = RunWorld()
    runs = [RunId(f"wfr_{number}") for number in range(3)]
    reply = world.batch(*(item(body=b"1", workflow=part(run, is_init=True, url=FLOW)) for run in (*runs, runs[0])))
    assert [each.messages[0].deduplicated for each in reply.items if isinstance(each, messages.Accepted)] == [
        False,
        False,
        False,
        True,
    ]
    assert list(world.owner.runs) == runs


@pytest.mark.parametrize(
    ("options", "body", "refusal"),
    [
        pytest.param({"max_retries": 21}, b"", InvalidRunMessage, id="retries"),
        pytest.param({"delay_ms": 2**52}, b"", InvalidRunMessage, id="delay"),
        pytest.param({}, b"x" * 52_428_801, LimitReached, id="size"),
    ],
)
def test_what_exceeds_the_plan_is_not_told_as_the_end_of_the_run(
    options: dict[str, Any], body: bytes, refusal: type[Exception]
) -> None:
    """D-364."""
    world = RunWorld()
    world.begin()
    with pytest.raises(refusal):
        world.batch(item(body=body, workflow=part(), **options))
    with pytest.raises(refusal):
        world.add(body, **options)
    assert len(world.run().steps) == 1


def test_a_run_at_a_url_group_is_refused() -> None:
    """D-364."""
    world = RunWorld()
    group = commands.PublishItem(
        destination=Destination(kind=DestinationKind.GROUP, text="g"),
        body=b"",
        options=item(workflow=part(is_init=True)).options,
        caller_ip="",
    )
    with pytest.raises(InvalidRunMessage):
        world.send(group)


def test_steps_in_between_are_not_refused_for_a_spent_daily_quota() -> None:
    world = RunWorld(account=make_account(max_requests_per_day_hard=1))
    world.begin()
    world.add(step(1))
    with pytest.raises(QuotaExceeded):
        world.begin(RunId("wfr_two"))


def test_a_suspended_account_begins_no_run() -> None:
    world = RunWorld(account=make_account(state="suspended"))
    with pytest.raises(Forbidden):
        world.begin()


def test_invokes_nest_a_hundred_deep() -> None:
    world = RunWorld()

    def nested(count: str) -> commands.PublishItem:
        forwarded = (("Svc-Workflow-Invoke-Count", count),)
        return item(workflow=part(is_init=True, invokes=True), forwarded=forwarded)

    with pytest.raises(LimitReached):
        world.send(nested("101"))
    world.send(nested("100"))


def test_a_run_of_a_key_passes_through_its_limits() -> None:
    world = RunWorld({1: lambda world: world.add(step(1)), 2: lambda world: world.succeed()})
    world.begin(flow_control=flow("k", rate=1, period_ms=10 * SECOND))
    world.run_for(10 * SECOND)
    assert world.times_of_calls() == [0, 10 * SECOND]


def test_an_endpoint_that_forwards_an_unknown_client_says_itself_what_it_is() -> None:
    """The second init message is no duplicate, and counts from then on."""
    own = part(is_init=True, url=FLOW, by_sdk=True)
    acts = {1: lambda world: len(world.calls) == 1 and world.send(item(body=b"own", workflow=own, max_retries=7))}
    world = RunWorld(acts)
    world.begin(forwarded=(("Svc-Workflow-Unknown-Sdk", "true"),))
    assert [message.run is not None and message.run.awaits_sdk for message in world.calls] == [True, False]
    assert steps_in(world.calls[1]) == [b"own"]
    assert (world.run().number, world.run().options.max_retries) == (1, 7)
    assert len(world.all(run_facts.RunRewritten)) == 1
    assert world.endings == []


def test_a_handshake_is_answered_once() -> None:
    """D-452. A first call that is made again is answered again, though the run has made progress."""
    own = item(body=b"own", workflow=part(is_init=True, url=FLOW, by_sdk=True))
    world = RunWorld()
    world.acts[1] = lambda world: len(world.calls) == 1 and world.send(own)
    world.begin(forwarded=(("Svc-Workflow-Unknown-Sdk", "true"),))
    world.wait()
    again = world.send(own)
    assert (again.deduplicated, again.message_id) == (True, world.run().steps[0].message_id)
    world.run_for(DAY)
    assert [json.loads(each.body)["stepId"] for each in world.run().steps[1:]] == [1]


def test_what_came_before_the_handshake_is_kept() -> None:
    """D-452. An event for the run, and whatever waits in it."""

    def answer(world: RunWorld) -> None:
        if len(world.calls) == 1:
            world.notify("early", run_id=RUN)
            world.wait()
            world.send(item(body=b"own", workflow=part(is_init=True, url=FLOW, by_sdk=True)))

    world = RunWorld({1: answer})
    world.begin(forwarded=(("Svc-Workflow-Unknown-Sdk", "true"),))
    assert [event.event_id for event in world.run().saved_events] == ["early"]
    assert len(world.notify()) == 1


def test_what_a_handshake_hides_is_hidden_of_the_message_before_it() -> None:
    """D-452, D-513. The failure callback repeats the headers of the first message, which hid nothing itself."""
    hidden = Redaction(body=False, all_headers=True, header_names=())
    sdk = part(is_init=True, url=FLOW, by_sdk=True)
    own = item(body=b"own", workflow=sdk, redaction=hidden, failure_callback=callback("https://fail.test/"))
    world = RunWorld()

    def fails(message: Message, number: int) -> AttemptOutcome:
        if len(world.calls) == 1:
            world.send(own)
        return answered(500)

    world.outcomes[FLOW] = fails
    world.begin(forwarded=(("Svc-Workflow-Unknown-Sdk", "true"),), max_retries=0)
    world.run_for(DAY)
    sent = [each.policy.redaction for each in world.calls]
    assert (sent[0], sent[-1]) == (None, Redaction(body=True, all_headers=True, header_names=()))


def test_an_unanswered_handshake_fails_the_run() -> None:
    world = RunWorld()
    world.begin(forwarded=(("Svc-Workflow-Unknown-Sdk", "true"),))
    assert world.endings == [(RUN, "RUN_FAILED")]
    assert world.all(message_facts.AttemptFinished)[0].outcome.error == (
        "trigger rest api is only usable with sdk versions after v1.0.0 major version"
    )


def test_runs_keep_once_what_they_have_in_common_and_nothing_that_no_call_uses() -> None:
    """Ten thousand sleeping runs of one workflow differ in little but their ids."""
    world = RunWorld()
    incoming = (("User-Agent", "x"),)
    for number in (1, 2):
        # Made anew, as each request is.
        forwarded = (("X-Tenant", "-".join(["a", "b"])),)
        world.begin(RunId(f"wfr_{number}"), forwarded=forwarded, incoming=incoming, delay_ms=DAY)
    one, two = (world.run(RunId(f"wfr_{number}")) for number in (1, 2))
    assert one.options.forwarded is two.options.forwarded
    assert one.options.incoming == ()

    world.begin(RunId("wfr_3"), incoming=incoming, forward_incoming=True, delay_ms=DAY)
    assert world.run(RunId("wfr_3")).options.incoming == incoming
