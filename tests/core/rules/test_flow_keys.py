"""Flow control keys under the user's hand."""

from __future__ import annotations

import pytest

from emulator.core import commands, facts
from emulator.core.errors import NotFound
from emulator.core.model.names import FlowKey
from emulator.core.model.resources import FlowState
from tests.harness.simulations import DAY, HOUR, MINUTE, World, answered, flow

URL = "https://api.example.com/hook"


def key_of(world: World) -> FlowState:
    return world.owner.flow_keys[FlowKey("k")]


# -- pausing ----------------------------------------------------------------------------------


def test_a_paused_key_puts_new_messages_in_line() -> None:
    world = World()
    world.publish(URL, flow_control=flow("k", parallelism=1))
    world.pause_key("k")
    waiting = [world.publish(URL, flow_control=flow("k", parallelism=1)) for _ in range(2)]
    world.run_until(DAY)
    assert [world.start_times(each) for each in waiting] == [[], []]
    world.pause_key("k", paused=False)
    assert [world.start_times(each) for each in waiting] == [[DAY], [DAY]]


def test_pausing_again_changes_nothing() -> None:
    world = World()
    world.publish(URL, flow_control=flow("k", parallelism=1))
    world.pause_key("k")
    before = world.snapshot()
    world.pause_key("k")
    assert world.snapshot() == before


def test_the_rate_period_runs_on_in_a_pause_and_the_count_is_kept() -> None:
    """Decision D-041."""
    world = World()
    for _ in range(3):
        world.publish(URL, flow_control=flow("k", rate=2, period_ms=HOUR))
    world.run_until(10 * MINUTE)
    world.pause_key("k")
    assert (key_of(world).rate_count, world.next_due_ms) == (2, None)
    world.run_until(20 * MINUTE)
    world.pause_key("k", paused=False)
    assert world.start_times() == [0, 0]
    world.run_until(DAY)
    assert world.start_times() == [0, 0, 3_600_000]


def test_a_period_that_ended_in_the_pause_lets_the_line_go_on_resume() -> None:
    world = World()
    for _ in range(4):
        world.publish(URL, flow_control=flow("k", rate=1, period_ms=MINUTE))
    world.pause_key("k")
    world.run_until(90_000)
    world.pause_key("k", paused=False)
    world.run_until(DAY)
    assert world.start_times() == [0, 90_000, 150_000, 210_000]


# -- pinning ----------------------------------------------------------------------------------


def test_pinned_values_win_over_those_of_later_messages() -> None:
    """D-025."""
    world = World()
    world.publish(URL, flow_control=flow("k", parallelism=1, rate=1, period_ms=MINUTE))
    world.pin_key("k", parallelism=8, rate=9, period_ms=HOUR)
    world.publish(URL, flow_control=flow("k", parallelism=2, rate=3, period_ms=DAY))
    key = key_of(world)
    assert (key.parallelism, key.rate, key.period_ms) == (8, 9, 3_600_000)
    assert (key.pinned_parallelism, key.pinned_rate) == (True, True)


def test_each_limit_is_pinned_by_itself() -> None:
    world = World()
    world.pin_key("k", parallelism=8)
    world.publish(URL, flow_control=flow("k", parallelism=2, rate=3, period_ms=DAY))
    key = key_of(world)
    assert (key.parallelism, key.rate, key.period_ms) == (8, 3, 86_400_000)
    assert (key.pinned_parallelism, key.pinned_rate) == (True, False)


def test_pinning_makes_a_key_that_no_message_has_named() -> None:
    world = World()
    world.pin_key("k", rate=2, period_ms=MINUTE)
    key = key_of(world)
    assert (key.parallelism, key.rate, key.period_ms, key.pinned_rate) == (None, 2, 60_000, True)


def test_pinning_a_rate_starts_its_period_again() -> None:
    world = World()
    for _ in range(3):
        world.publish(URL, flow_control=flow("k", rate=1, period_ms=DAY))
    world.run_until(HOUR)
    world.pin_key("k", rate=1, period_ms=2 * HOUR)
    assert world.start_times() == [0, 3_600_000]
    world.run_until(DAY)
    assert world.start_times() == [0, 3_600_000, 10_800_000]


def test_pinning_the_parallelism_keeps_the_rate_period() -> None:
    world = World()
    for _ in range(2):
        world.publish(URL, flow_control=flow("k", rate=1, period_ms=DAY))
    world.run_until(HOUR)
    world.pin_key("k", parallelism=5)
    assert key_of(world).rate_count == 1
    world.run_until(2 * DAY)
    assert world.start_times() == [0, 86_400_000]


def test_pinning_a_higher_parallelism_lets_the_waiting_start() -> None:
    world = World(answering=None)
    for _ in range(4):
        world.publish(URL, flow_control=flow("k", parallelism=1))
    world.pin_key("k", parallelism=3)
    assert len(world.starts()) == 3


def test_unpinned_numbers_stay_until_the_next_message_brings_others() -> None:
    """D-025."""
    world = World()
    world.pin_key("k", parallelism=8, rate=9, period_ms=HOUR)
    world.unpin_key("k", parallelism=True)
    key = key_of(world)
    assert (key.parallelism, key.rate, key.pinned_parallelism, key.pinned_rate) == (8, 9, False, True)
    world.publish(URL, flow_control=flow("k", parallelism=2, rate=3, period_ms=DAY))
    key = key_of(world)
    assert (key.parallelism, key.rate, key.period_ms) == (2, 9, 3_600_000)


# -- resetting --------------------------------------------------------------------------------


def test_resetting_the_rate_lets_the_line_go_and_starts_a_period_now() -> None:
    world = World()
    for _ in range(5):
        world.publish(URL, flow_control=flow("k", rate=2, period_ms=DAY))
    world.run_until(HOUR)
    world.reset_key("k", parallelism=False)
    assert world.start_times() == [0, 0, 3_600_000, 3_600_000]
    world.run_until(3 * DAY)
    assert world.start_times()[4:] == [90_000_000]


def test_a_dispatch_before_the_reset_is_not_counted_again_when_it_ends() -> None:
    """D-041."""
    world = World(answering=None)
    message_id = world.publish(URL, flow_control=flow("k", rate=5, period_ms=HOUR))
    world.reset_key("k", parallelism=False)
    assert (key_of(world).rate_count, key_of(world).active) == (0, 1)
    world.finish(message_id)
    assert (key_of(world).rate_count, key_of(world).active) == (0, 0)


def test_resetting_the_parallelism_forgets_what_is_under_way() -> None:
    world = World(answering=None)
    limits = flow("k", parallelism=1)
    ids = [world.publish(URL, flow_control=limits) for _ in range(4)]
    world.reset_key("k")
    assert len(world.starts()) == 2
    assert key_of(world).active == 1
    world.finish(ids[0])
    assert len(world.starts()) == 2, "the end of a forgotten attempt freed the slot of a later one"
    assert key_of(world).active == 1
    world.finish(ids[1])
    assert len(world.starts()) == 3
    world.finish(ids[2])
    world.finish(ids[3])
    assert key_of(world).active == 0


def test_a_forgotten_message_counts_again_when_it_is_retried() -> None:
    world = World(answering=None)
    message_id = world.publish(URL, flow_control=flow("k", parallelism=1), retry_delay="0")
    world.reset_key("k")
    world.finish(message_id, answered(500))
    assert world.start_times(message_id) == [0, 0]
    assert key_of(world).active == 1


def test_a_reset_of_one_key_leaves_the_others_alone() -> None:
    world = World(answering=None)
    world.publish(URL, flow_control=flow("k", parallelism=1))
    world.publish(URL, flow_control=flow("other", parallelism=1))
    world.reset_key("k")
    assert world.owner.flow_keys[FlowKey("other")].active == 1


@pytest.mark.parametrize("command", ["pause", "unpin", "reset"])
def test_a_key_nobody_has_named_is_not_found(command: str) -> None:
    world = World()
    account_id, key = world.account_id, FlowKey("nobody")
    submitted: commands.Command[None] = {
        "pause": commands.SetFlowPaused(account_id=account_id, key=key, paused=True),
        "unpin": commands.UnpinFlow(account_id=account_id, key=key, parallelism=True, rate=True),
        "reset": commands.ResetFlow(account_id=account_id, key=key, parallelism=True),
    }[command]
    with pytest.raises(NotFound) as refusal:
        world.do(submitted)
    assert refusal.value.text == "flow control key nobody not found"
    assert world.facts == []


def test_the_end_of_a_period_is_a_fact_of_its_own() -> None:
    world = World()
    for _ in range(2):
        world.publish(URL, flow_control=flow("k", rate=1, period_ms=MINUTE))
    world.run_until(MINUTE)
    (opened,) = world.all(facts.RateWindowOpened)
    assert (opened.key, opened.at_ms) == ("k", 1_767_225_660_000)


def test_a_key_may_be_any_text() -> None:
    world = World()
    for _ in range(2):
        world.publish(URL, flow_control=flow("a/b c/雨", rate=1, period_ms=MINUTE))
    world.run_until(MINUTE)
    assert world.start_times() == [0, 60_000]
