"""The core's one entry: the clock, refusals, determinism, and facts applied again."""

from __future__ import annotations

import pytest

from emulator.core import commands, facts
from emulator.core.checkpoint import restore
from emulator.core.decision import Decision
from emulator.core.errors import NotFound, WorldBroken
from emulator.core.identifiers import world_key
from emulator.core.model.answers import ScriptedResponse
from emulator.core.model.names import MessageId, QueueName
from emulator.core.model.options import Destination, DestinationKind, MessageOptions
from emulator.core.simulation import DECISIONS, Simulation
from emulator.core.state import State
from emulator.core.state_view import StateView
from tests.harness.simulations import (
    EPOCH_MS,
    HOUR,
    MINUTE,
    World,
    answered,
    by_url,
    callback,
    dump,
    flow,
    make_account,
    replay,
)

URL = "https://api.example.com/hook"


def busy_world() -> World:
    """A world in which something of every kind has happened and is still to come."""
    world = World(
        make_account(max_global_parallelism=2),
        answering=by_url({"https://failing.test/": answered(500), "https://back.test/": [answered(500), answered()]}),
    )
    world.make_group("team", "https://a.test/", "https://b.test/")
    world.add_rule("https://a.test/*", responses=(ScriptedResponse(latency_ms=5_000),), times=3)
    world.write_schedule("* * * * *", "team", schedule_id="mine", callback=callback("https://back.test/"))
    world.write_queue("q", parallelism=2)
    for number in range(4):
        world.enqueue("q", "https://failing.test/", max_retries=number, callback=callback("https://back.test/"))
        world.publish(URL, flow_control=flow("k", parallelism=1, rate=2, period_ms=HOUR), delay_ms=number * MINUTE)
        world.publish(URL, deduplication_id="same")
    world.run_until(10 * MINUTE)
    world.do(commands.RotateSigningKeys(account_id=world.account_id))
    world.pause_key("k")
    world.write_queue("q", paused=True)
    world.cancel_all(count=2)
    world.answering = None
    world.run_until(12 * MINUTE)
    return world


# -- what is due ------------------------------------------------------------------------------


def test_a_command_also_does_what_is_due_at_its_instant() -> None:
    world = World(answering=None)
    outcome = world.simulation.handle(
        commands.Publish(
            account_id=world.account_id,
            item=commands.PublishItem(
                destination=Destination(kind=DestinationKind.URL, text=URL),
                body=b"",
                options=MessageOptions(),
                caller_ip="198.51.100.1",
            ),
        )
    )
    assert [type(fact) for fact in outcome.facts] == [facts.MessageCreated, facts.AttemptStarted]
    assert outcome.reply.accepted.messages[0].url == URL


@pytest.mark.parametrize("at_most", [1, 3, 1_000])
def test_an_instant_done_in_parts_is_the_same_as_at_once(at_most: int) -> None:
    whole, parted = World(answering=None), World(answering=None)
    for world in (whole, parted):
        for number in range(10):
            world.publish(f"{URL}/{number}", delay_ms=MINUTE, flow_control=flow("k", parallelism=4))
            world.publish(f"{URL}/free/{number}", delay_ms=MINUTE)
    advance = commands.AdvanceClock(to_ms=EPOCH_MS + MINUTE)
    at_once = whole.simulation.handle(advance).facts

    in_parts = parted.simulation.handle(advance, at_most).facts
    while parted.simulation.is_due:
        more = parted.simulation.go_on(at_most)
        assert len([fact for fact in more if isinstance(fact, facts.AttemptStarted)]) <= at_most
        in_parts += more

    assert in_parts == at_once


# -- refusing and breaking --------------------------------------------------------------------


def test_a_refusal_before_the_first_fact_leaves_the_state_as_it_was() -> None:
    world = busy_world()
    before = world.snapshot()
    for refused in (
        commands.CancelMessage(account_id=world.account_id, message_id=MessageId("msg_nobody")),
        commands.SetQueuePaused(account_id=world.account_id, name=QueueName("nobody"), paused=True),
    ):
        with pytest.raises(NotFound):
            world.do(refused)
    assert world.snapshot() == before


def test_a_refusal_after_the_first_fact_breaks_the_world() -> None:
    def refuse_too_late(state: StateView, command: object) -> Decision[None]:
        yield facts.ClockMoved(now_ms=state.now_ms + 1)
        raise NotFound("nobody")

    state = State(key=world_key(0), now_ms=EPOCH_MS, accounts=[make_account()])
    simulation = Simulation(state, {**DECISIONS, commands.AdvanceClock: refuse_too_late})
    with pytest.raises(WorldBroken):
        simulation.handle(commands.AdvanceClock(to_ms=EPOCH_MS))


def test_a_step_the_table_does_not_have_breaks_the_world() -> None:
    world = World(answering=None)
    message_id = world.publish(URL)
    state = restore(world.snapshot()[0])
    with pytest.raises(WorldBroken):
        state.apply(facts.AttemptStarted(message_id=message_id, number=2, at_ms=EPOCH_MS, answer=None))


def test_every_command_has_a_decision() -> None:
    written = {
        each for each in vars(commands).values() if isinstance(each, type) and issubclass(each, commands.Command)
    }
    assert set(DECISIONS) == written - {commands.Command}


# -- determinism ------------------------------------------------------------------------------


def test_applying_the_recorded_facts_again_gives_the_same_state() -> None:
    world = busy_world()
    assert replay(world) == world.snapshot()


def test_the_same_calls_give_the_same_facts() -> None:
    assert busy_world().facts == busy_world().facts


def test_worlds_share_nothing_but_the_process() -> None:
    first, second = World(), World()
    first.publish(URL, delay_ms=HOUR)
    assert second.next_due_ms is None
    assert second.facts == []


def test_an_image_gives_the_same_state_and_the_same_future() -> None:
    world = busy_world()
    image, _ = world.snapshot()
    restored = restore(image)
    assert dump(restored) == world.snapshot()
    other = Simulation(restored)
    for _ in range(20):
        due_ms = world.simulation.next_due_ms
        assert due_ms is not None
        assert other.next_due_ms == due_ms
        step = commands.AdvanceClock(to_ms=due_ms)
        assert other.handle(step).facts == world.simulation.handle(step).facts


def test_a_fresh_world_has_nothing_to_do() -> None:
    state = State(key=world_key(0), now_ms=EPOCH_MS, accounts=[make_account()])
    simulation = Simulation(state)
    assert simulation.next_due_ms is None
    assert simulation.now_ms == EPOCH_MS
    assert not simulation.state.messages
