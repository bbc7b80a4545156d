"""The core's one entry: the clock, refusals, determinism, and facts applied again."""

from __future__ import annotations

import pytest

from emulator.core import commands, message_facts, resource_facts
from emulator.core.checkpoint import restore
from emulator.core.errors import Conflict, Malformed, NotFound, WorldBroken
from emulator.core.language.calendar import check_clock_instant, is_clock_instant
from emulator.core.model.resources import IndexType, ScriptedResponse
from emulator.core.record import world_key
from emulator.core.simulation import DECISIONS, Simulation
from emulator.core.state import Decision, State, StateView
from tests.harness.simulations import (
    DAY,
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
    world.do(commands.RotateToken(account_id=world.account_id))
    create = commands.CreateSearchIndex(customer_id="me", name="mine", region="eu-west-1", type=IndexType.PAYG)
    world.do(commands.ResetSearchIndexPassword(index_id=world.do(create).id))
    world.change_account(state="passive")
    world.pause_key("k")
    world.write_queue("q", paused=True)
    world.cancel_all(count=2)
    world.answering = None
    world.run_until(12 * MINUTE)
    return world


# -- what is due ------------------------------------------------------------------------------


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
    assert len([fact for fact in in_parts if isinstance(fact, message_facts.AttemptStarted)]) <= at_most
    while parted.simulation.is_due:
        more = parted.simulation.continue_instant(at_most)
        assert len([fact for fact in more if isinstance(fact, message_facts.AttemptStarted)]) <= at_most
        in_parts += more

    assert in_parts == at_once


# -- refusing and breaking --------------------------------------------------------------------


def test_a_refusal_after_the_first_fact_breaks_the_world() -> None:
    def refuse_too_late(state: StateView, command: object) -> Decision[None]:
        yield resource_facts.ClockMoved(now_ms=state.now_ms + 1)
        raise NotFound("topic", "nobody")

    state = State(key=world_key(0), now_ms=EPOCH_MS, accounts=[make_account()])
    simulation = Simulation(state, {**DECISIONS, commands.AdvanceClock: refuse_too_late})
    with pytest.raises(WorldBroken):
        simulation.handle(commands.AdvanceClock(to_ms=EPOCH_MS))


def test_a_step_the_table_does_not_have_breaks_the_world() -> None:
    world = World(answering=None)
    message_id = world.publish(URL)
    state = restore(world.snapshot()[0])
    with pytest.raises(WorldBroken):
        state.apply(message_facts.AttemptStarted(message_id=message_id, number=2, at_ms=EPOCH_MS, answer=None))


def test_every_command_has_a_decision() -> None:
    kinds = {each for each in vars(commands).values() if isinstance(each, type) and issubclass(each, commands.Command)}
    assert set(DECISIONS) == {kind for kind in kinds if not kind.__subclasses__()}


# -- determinism ------------------------------------------------------------------------------


def test_applying_the_recorded_facts_again_gives_the_same_state() -> None:
    world = busy_world()
    assert replay(world) == world.snapshot()


def test_the_same_calls_give_the_same_facts() -> None:
    assert busy_world().facts == busy_world().facts


def test_an_image_gives_the_same_state_and_the_same_future() -> None:
    world = busy_world()
    image, _ = world.snapshot()
    restored = restore(image)
    assert dump(restored) == world.snapshot()
    other = Simulation(restored)
    for _ in range(20):
        due_ms = world.simulation.state.timers.next_due_ms()
        assert due_ms is not None
        assert restored.timers.next_due_ms() == due_ms
        step = commands.AdvanceClock(to_ms=due_ms)
        assert other.handle(step).facts == world.simulation.handle(step).facts


# -- the clock ----------------------------------------------------------------------------------


FIRST_MS, LAST_MS = 1, 253_402_300_799_999


@pytest.mark.parametrize("instant_ms", [FIRST_MS, EPOCH_MS, LAST_MS])
def test_a_clock_shows_instants_after_1970_up_to_the_year_9999(instant_ms: int) -> None:
    assert is_clock_instant(instant_ms)
    assert check_clock_instant(instant_ms) == instant_ms


@pytest.mark.parametrize(
    ("instant_ms", "reason"),
    [(FIRST_MS - 1, "after 1970-01-01T00:00:00Z"), (-DAY, "after 1970"), (LAST_MS + 1, "year 9999 at the latest")],
)
def test_a_clock_shows_no_other_instant(instant_ms: int, reason: str) -> None:
    assert not is_clock_instant(instant_ms)
    with pytest.raises(Malformed, match=reason):
        check_clock_instant(instant_ms)


def test_the_clock_refuses_to_pass_what_is_due_and_to_go_back() -> None:
    world = World()
    world.publish(URL, delay_ms=HOUR)
    before, count = world.snapshot(), len(world.facts)
    for instant_ms in (EPOCH_MS + HOUR + 1, EPOCH_MS - 1):
        with pytest.raises(Conflict):
            world.do(commands.AdvanceClock(to_ms=instant_ms))
    world.do(commands.AdvanceClock(to_ms=EPOCH_MS))
    assert (world.snapshot(), len(world.facts)) == (before, count)
    world.do(commands.AdvanceClock(to_ms=EPOCH_MS + HOUR))
    assert world.starts() == [(URL, 1, 3_600_000)]


def test_the_clock_may_be_set_back_only_before_anything_has_happened() -> None:
    world = World()
    world.do(commands.SetBackClock(to_ms=EPOCH_MS - DAY))
    assert world.simulation.state.now_ms == EPOCH_MS - DAY
    scheduled = World()
    scheduled.write_schedule("* * * * *", URL)
    world.publish(URL)
    for used in (world, scheduled):
        with pytest.raises(Conflict, match=r"^the clock cannot go back once something has happened in the world"):
            used.do(commands.SetBackClock(to_ms=EPOCH_MS - 2 * DAY))
