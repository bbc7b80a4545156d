"""The state: records, plans, facts."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import Struct
from msgspec.structs import replace

from emulator.core import message_facts, resource_facts, run_facts
from emulator.core.checkpoint import capture, restore
from emulator.core.errors import WorldBroken
from emulator.core.message_facts import FINAL, MessageStep
from emulator.core.model.messages import (
    AttemptOutcome,
    Dispatch,
    HeldDestination,
    Hold,
    HoldKind,
    HoldReason,
    LoopCause,
    Phase,
    Progress,
    Via,
)
from emulator.core.model.options import FlowControl, MessageOptions, RunOptions
from emulator.core.model.resources import (
    FlowState,
    IndexType,
    ScheduleProgress,
    ScheduleRunState,
    ScriptedAnswer,
    TeamMember,
    TeamRole,
    VectorIndex,
)
from emulator.core.model.workflows import Invoker, RunState, SavedEvent, Waiter, WorkflowRun, WorkflowStep
from emulator.core.record import DeadLetterId, FlowKey, IndexId, MessageId, RuleId, RunId, ScheduleId, world_key
from emulator.core.state import Counters, Fact, State
from tests.harness.simulations import ACCOUNT_ID, EPOCH_MS, World, flow, make_account

# -- applying facts: every fact has its method, and changes the fields it is about and no others ---
URL = "https://api.example.com/hook"
KEY = FlowKey("k")
OUTCOME = AttemptOutcome(response=None, error="refused", via=Via.NETWORK)
ANSWER = ScriptedAnswer(rule_id=RuleId("rule_9"), latency_ms=3)
NOW = EPOCH_MS + 5


def test_a_state_of_before_the_second_key_goes_on_with_the_first() -> None:
    """D-260."""
    before = capture(State(key=world_key(0), event_key=b"e" * 32, now_ms=EPOCH_MS, accounts=[make_account()]))
    assert restore(before).event_key == b"e" * 32
    assert restore(replace(before, event_key=b"")).event_key == world_key(0)


def differing(before: Struct, after: Struct) -> set[str]:
    return {name for name in before.__struct_fields__ if getattr(before, name) != getattr(after, name)}


# -- live messages ----------------------------------------------------------------------------


def progress_with_every_field(phase: Phase) -> Progress:
    """A message whose every field differs from its default; a new field needs a value here."""
    world = World(answering=None)
    message_id = world.publish(URL, flow_control=flow(KEY, parallelism=2))
    values: dict[str, Any] = {
        "retried": 2,
        "ticket": 7,
        "hold": Hold(kind=HoldKind.GLOBAL, name="", reason=HoldReason.PARALLELISM),
        "started_ms": EPOCH_MS + 2,
        "answer": ANSWER,
        "outcome": OUTCOME,
        "cancel_requested": True,
        "holds_key_slot": True,
        "postponed": 3,
    }
    assert set(values) == set(Dispatch.__struct_fields__)
    message = replace(world.messages[message_id], message_id=MESSAGE_ID)
    return Progress(message=message, phase=phase, due_ms=EPOCH_MS + 1, dispatch=Dispatch(**values))


def state_with(progress: Progress) -> State:
    world = World(answering=None)
    world.publish(URL, flow_control=flow(KEY, parallelism=2))
    state = restore(world.snapshot()[0])
    state.messages[progress.message.message_id] = progress
    return state


MESSAGE_ID = MessageId("msg_1")
AT: dict[str, Any] = {"message_id": MESSAGE_ID, "at_ms": NOW}
HELD_BY_KEY = Hold(kind=HoldKind.FLOW_CONTROL, name=KEY, reason=HoldReason.RATE)
LATER = replace(OUTCOME, error="later")


@pytest.mark.parametrize(
    ("phase", "fact", "changed"),
    [
        (
            Phase.HELD,
            message_facts.MessageHeld(**AT, hold=HELD_BY_KEY, ticket=9),
            "ticket hold answer outcome holds_key_slot",
        ),
        (
            Phase.HELD,
            message_facts.AttemptStarted(**AT, number=3, answer=None),
            "phase ticket hold started_ms answer outcome postponed",
        ),
        (Phase.RETRYING, message_facts.DeliveryPostponed(message_id=MESSAGE_ID, due_ms=NOW), "due_ms postponed"),
        (
            Phase.ACTIVE,
            message_facts.ResponseDelayed(message_id=MESSAGE_ID, outcome=LATER, due_ms=NOW),
            "due_ms outcome",
        ),
        (Phase.ACTIVE, message_facts.AttemptFinished(**AT, number=3, started_ms=EPOCH_MS + 2, outcome=OUTCOME), ""),
        (
            Phase.ACTIVE,
            message_facts.RetryScheduled(**AT, due_ms=NOW, reason="default"),
            "phase retried due_ms answer outcome holds_key_slot",
        ),
        (
            Phase.ACTIVE,
            message_facts.AttemptWithdrawn(message_id=MESSAGE_ID),
            "phase answer holds_key_slot",
        ),
        (Phase.HELD, message_facts.CancelRequested(**AT), "cancel_requested"),
        (
            Phase.ACTIVE,
            resource_facts.FlowCountersReset(account_id=ACCOUNT_ID, key=KEY, at_ms=NOW, parallelism=True),
            "holds_key_slot",
        ),
    ],
    ids=lambda given: type(given).__name__ if isinstance(given, Fact) else "",
)
def test_a_fact_of_a_message_changes_its_own_fields_only(phase: Phase, fact: Fact, changed: str) -> None:
    before = progress_with_every_field(phase)
    if isinstance(fact, message_facts.CancelRequested):
        before = replace(before, dispatch=replace(before.dispatch, cancel_requested=False))
    state = state_with(before)
    state.apply(fact)
    after = state.messages[before.message.message_id]
    assert differing(before, after) - {"dispatch"} | differing(before.dispatch, after.dispatch) == set(changed.split())


# -- schedules and flow control keys ----------------------------------------------------------


def test_a_fact_of_a_schedule_changes_its_own_fields_only() -> None:
    world = World()
    schedule_id = ScheduleId(world.write_schedule("0 * * * *", URL))
    values: dict[str, Any] = {
        "schedule": world.owner.schedules[schedule_id].schedule,
        "paused": True,
        "next_ms": EPOCH_MS + 1,
        "last_fired_ms": EPOCH_MS + 2,
        "last_states": ((MessageId("msg_1"), ScheduleRunState.SUCCESS),),
        "error": "refused",
    }
    assert set(values) == set(ScheduleProgress.__struct_fields__)
    before = ScheduleProgress(**values)
    state = restore(world.snapshot()[0])
    schedules = state.accounts[ACCOUNT_ID].schedules
    names: dict[str, Any] = {"account_id": ACCOUNT_ID, "schedule_id": schedule_id, "at_ms": NOW}
    for fact, changed in (
        (
            resource_facts.ScheduleFired(**names, next_ms=NOW, error=None),
            {"next_ms", "last_fired_ms", "last_states", "error"},
        ),
        (resource_facts.SchedulePaused(**names), {"next_ms"}),
        (resource_facts.ScheduleResumed(**names, next_ms=NOW), {"paused", "next_ms"}),
        (resource_facts.ScheduleWritten(schedule=before.schedule, next_ms=NOW), {"next_ms", "error"}),
    ):
        schedules[schedule_id] = before
        state.apply(fact)
        assert differing(before, schedules[schedule_id]) == changed


def flow_state_with_every_field() -> FlowState:
    values: dict[str, Any] = {
        "key": KEY,
        "account_id": ACCOUNT_ID,
        "parallelism": 2,
        "rate": 3,
        "period_ms": 4_000,
        "active": 5,
        "rate_count": 6,
        "window_start_ms": EPOCH_MS,
        "paused": True,
        "pinned_parallelism": True,
        "pinned_rate": True,
    }
    assert set(values) == set(FlowState.__struct_fields__)
    return FlowState(**values)


def test_a_fact_of_a_flow_control_key_changes_its_own_fields_only() -> None:
    before = flow_state_with_every_field()
    progress = progress_with_every_field(Phase.ACTIVE)
    state = state_with(progress)
    keys = state.accounts[ACCOUNT_ID].flow_keys
    limits = resource_facts.FlowKeyChanged(
        account_id=ACCOUNT_ID,
        key=KEY,
        parallelism=9,
        rate=9,
        period_ms=9,
        paused=False,
        pinned_parallelism=False,
        pinned_rate=False,
    )
    finished = message_facts.AttemptFinished(
        message_id=progress.message.message_id, number=3, started_ms=EPOCH_MS, at_ms=NOW, outcome=OUTCOME
    )
    for fact, changed in (
        (limits, {"parallelism", "rate", "period_ms", "paused", "pinned_parallelism", "pinned_rate"}),
        (resource_facts.RateWindowOpened(account_id=ACCOUNT_ID, key=KEY, at_ms=NOW), {"rate_count", "window_start_ms"}),
        (
            resource_facts.FlowCountersReset(account_id=ACCOUNT_ID, key=KEY, at_ms=NOW, parallelism=False),
            {"rate_count", "window_start_ms"},
        ),
        (finished, {"active"}),
    ):
        keys[KEY] = before
        state.apply(fact)
        assert differing(before, keys[KEY]) == changed


def test_every_limit_of_a_key_is_a_field_of_its_state_and_of_the_fact() -> None:
    counted = {"active", "rate_count", "window_start_ms"}
    assert set(resource_facts.FlowKeyChanged.__struct_fields__) == set(FlowState.__struct_fields__) - counted
    assert set(FlowControl.__struct_fields__) == {"key", "parallelism", "rate", "period_ms"}


# -- workflow runs ----------------------------------------------------------------------------


def waiter(number: int) -> Waiter:
    values: dict[str, Any] = {
        "number": number,
        "event_id": "ev",
        "url": URL,
        "headers": (("A", ("1", "2")),),
        "options": MessageOptions(max_retries=1),
        "deadline_ms": NOW,
        "timeout": "5s",
        "timeout_url": URL + "/late",
        "timeout_headers": (("B", ("3",)),),
        "timeout_options": MessageOptions(max_retries=2),
        "step": b"{}",
    }
    assert set(values) == set(Waiter.__struct_fields__)
    return Waiter(**values)


def run_with_every_field() -> WorkflowRun:
    """A run whose every field differs from its default; a new field needs a value here."""
    values: dict[str, Any] = {
        "run_id": RunId("wfr_1"),
        "number": 3,
        "account_id": ACCOUNT_ID,
        "url": URL,
        "created_ms": EPOCH_MS,
        "caller_ip": "203.0.113.7",
        "options": MessageOptions(max_retries=4, workflow=RunOptions(run_id=RunId("wfr_1"))),
        "inherits": True,
        "steps": (WorkflowStep(message_id=MessageId("msg_1"), body=b"payload"),),
        "listed_bytes": 123,
        "depth": 2,
        "awaits_sdk": True,
        "invoker": Invoker(
            run_id=RunId("wfr_0"), run_created_ms=1, url=URL, options=MessageOptions(max_retries=5), step=b"{}"
        ),
        "waiters": (waiter(1), waiter(2)),
        "saved_events": (SavedEvent(event_id="early", body=b"1"), SavedEvent(event_id="early", body=b"2")),
        "from_dead_letter": DeadLetterId("1-1"),
        "traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
    }
    assert set(values) == set(WorkflowRun.__struct_fields__)
    return WorkflowRun(**values)


def state_with_run(run: WorkflowRun) -> State:
    state = State(key=world_key(0), now_ms=EPOCH_MS, accounts=[make_account()])
    state.apply(run_facts.RunStarted(run=replace(run, waiters=())))
    for each in run.waiters:
        state.apply(
            run_facts.WaitBegan(account_id=ACCOUNT_ID, run_id=run.run_id, run_number=run.number, at_ms=NOW, waiter=each)
        )
    return state


def test_a_fact_of_a_run_changes_its_own_fields_only() -> None:
    before = run_with_every_field()
    names: dict[str, Any] = {"account_id": ACCOUNT_ID, "run_id": before.run_id}
    step = WorkflowStep(message_id=MessageId("msg_2"), body=b"2")
    for fact, changed in (
        (run_facts.StepAccepted(**names, run_number=3, step=step, at_ms=NOW), {"steps", "listed_bytes"}),
        (run_facts.WaitBegan(**names, run_number=3, at_ms=NOW, waiter=waiter(3)), {"waiters"}),
        (run_facts.WaitEnded(**names, waiter_number=1), {"waiters"}),
        (run_facts.EventSaved(**names, event=SavedEvent(event_id="e", body=b"")), {"saved_events"}),
        (run_facts.SavedEventTaken(**names, event_id="early"), {"saved_events"}),
    ):
        state = state_with_run(before)
        state.apply(fact)
        after = state.accounts[ACCOUNT_ID].runs[before.run_id]
        assert differing(before, after) == changed
    assert after.saved_events == before.saved_events[1:]


def test_a_checkpoint_keeps_every_field_of_a_run_and_who_waits() -> None:
    before = run_with_every_field()
    state = state_with_run(before)
    again = restore(capture(state)).accounts[ACCOUNT_ID]
    assert again.runs == {before.run_id: before}
    assert again.waiting_runs == state.accounts[ACCOUNT_ID].waiting_runs == {"ev": {1: "wfr_1", 2: "wfr_1"}}


def test_nothing_is_left_of_a_run_that_has_ended() -> None:
    before = run_with_every_field()
    state = state_with_run(before)
    state.apply(
        run_facts.RunEnded(
            account_id=ACCOUNT_ID, run_id=before.run_id, run_number=3, at_ms=NOW, state=RunState.CANCELED
        )
    )
    owner = state.accounts[ACCOUNT_ID]
    assert (owner.runs, owner.ended_runs, owner.waiting_runs, list(state.timers)) == ({}, {}, {}, [])


# -- as a whole -------------------------------------------------------------------------------


def test_a_checkpoint_keeps_every_counter_and_every_field() -> None:
    state = state_with(progress_with_every_field(Phase.HELD))
    owner = state.accounts[ACCOUNT_ID]
    owner.flow_keys[KEY] = flow_state_with_every_field()
    owner.active, owner.usage_day, owner.usage_count = 3, 4, 5
    index, member = IndexId("v"), TeamMember(name="A", email="a@b.test", role=TeamRole.FINANCE)
    state.vector_indexes[index] = VectorIndex(
        id=index, profile_number=9, customer_id="c", name="n", type=IndexType.FREE, region="us-east-1", creation_time=5
    )
    state.team = (member,)
    state.held_destinations = {
        "https://a.test": HeldDestination(
            origin="https://a.test",
            since_ms=NOW,
            limit=7,
            cause=LoopCause.RETRIED,
            message_id=MESSAGE_ID,
        )
    }
    for number, name in enumerate(Counters.__struct_fields__, start=11):
        setattr(state.counters, name, number)

    again = restore(capture(state))

    for name in vars(state).keys() - {"accounts", "timers"}:
        assert getattr(again, name) == getattr(state, name), name
    assert list(again.timers) == list(state.timers)
    wait_lists = {"flow_wait_lists", "queue_wait_lists", "global_wait_list", "destination_wait_lists"}
    for name in set(owner.__struct_fields__) - wait_lists:
        assert getattr(again.accounts[ACCOUNT_ID], name) == getattr(owner, name), name
    # The counters of a checkpoint are its own.
    state.counters.messages += 1
    assert again.counters.messages == 11


# -- the steps of a live message: every one it has, and nothing besides ----------------------------


STARTABLE = {"PENDING", "HELD", "RETRYING"}


LIVE = {*STARTABLE, "ACTIVE"}


# The phases that a step follows on, and where it leads; None is the phase it follows on.
STEPS: dict[type[MessageStep], tuple[set[str], str | None]] = {
    message_facts.MessageHeld: (STARTABLE, "HELD"),
    message_facts.DeliveryPostponed: ({"PENDING", "RETRYING"}, None),
    message_facts.AttemptStarted: (STARTABLE, "ACTIVE"),
    message_facts.AttemptWithdrawn: ({"ACTIVE"}, "PENDING"),
    message_facts.ResponseDelayed: ({"ACTIVE"}, "ACTIVE"),
    message_facts.AttemptFinished: ({"ACTIVE"}, "ACTIVE"),
    message_facts.RetryScheduled: ({"ACTIVE"}, "RETRYING"),
    message_facts.MessageDelivered: ({"ACTIVE"}, "DELIVERED"),
    message_facts.MessageFailed: ({"ACTIVE"}, "FAILED"),
    message_facts.MessageGivenUp: ({"ACTIVE"}, "FAILED"),
    message_facts.CancelRequested: (LIVE, None),
    message_facts.MessageCanceled: (LIVE, "CANCELED"),
}


def test_every_step_is_in_the_table() -> None:
    assert set(STEPS) == set(MessageStep.__subclasses__())


@pytest.mark.parametrize("phase", Phase)
@pytest.mark.parametrize("kind", STEPS)
def test_a_step_leads_where_the_table_says_or_breaks_the_world(kind: type[MessageStep], phase: Phase) -> None:
    sources, target = STEPS[kind]
    # Only the message of the step matters here.
    others: dict[str, Any] = {name: None for name in kind.__struct_fields__ if name != "message_id"}
    step = kind(message_id=MessageId("msg_1"), **others)
    if phase.value in sources:
        assert step.next_phase(phase).value == target or (target is None and step.next_phase(phase) is phase)
    else:
        with pytest.raises(WorldBroken) as broken:
            step.next_phase(phase)
        assert str(broken.value) == f"a message that is {phase.value} cannot take {kind.__name__}"


def test_final_phases_lead_nowhere_and_are_reached() -> None:
    assert {phase.value for phase in FINAL} == {"DELIVERED", "FAILED", "CANCELED"}
    assert not {phase for kind in STEPS for phase in kind.leads} & FINAL
    assert {phase for kind in STEPS for phase in kind.leads.values()} >= FINAL
