"""Flow control: how many of a key at a time, and how many in a period."""

from __future__ import annotations

from emulator.core import message_facts, resource_facts
from emulator.core.model.resources import FlowState, ScriptedResponse
from emulator.core.record import FlowKey
from emulator.core.rules.attempts import rate_count
from tests.harness.simulations import DAY, HOUR, MINUTE, World, always, answered, by_url, flow, make_account

URL = "https://api.example.com/hook"


def key_of(world: World, name: str = "k") -> FlowState:
    return world.owner.flow_keys[FlowKey(name)]


# -- parallelism ------------------------------------------------------------------------------


def test_parallelism_2_with_a_latency_of_10_s_starts_pairs_every_10_s() -> None:
    world = World()
    world.add_rule("https://*", responses=(ScriptedResponse(latency_ms=10_000),))
    for _ in range(6):
        world.publish(URL, flow_control=flow("k", parallelism=2))
    world.run_until(DAY)
    assert world.start_times() == [0, 0, 10_000, 10_000, 20_000, 20_000]


def test_a_message_that_waits_for_its_retry_holds_no_slot_of_its_key() -> None:
    world = World(answering=by_url({URL: [answered(500), answered(200)]}))
    limits = flow("k", parallelism=1)
    world.publish(URL, flow_control=limits, retry_delay="60000")
    world.publish("https://next.test/", flow_control=limits)
    assert world.starts() == [(URL, 1, 0), ("https://next.test/", 1, 0)]


def test_canceling_a_waiting_message_lets_nobody_overtake() -> None:
    world = World(answering=None)
    ids = [world.publish(f"https://{n}.test/", flow_control=flow("k", parallelism=1)) for n in range(4)]
    world.cancel(ids[1])
    world.finish(ids[0])
    assert world.urls_started() == ["https://0.test/", "https://2.test/"]


# -- rate -------------------------------------------------------------------------------------


def test_rate_3_with_a_period_of_1_day_takes_four_days_for_10_messages() -> None:
    world = World()
    for number in range(10):
        world.publish(f"https://host-{number}.test/", flow_control=flow("k", rate=3, period_ms=DAY))
    world.run_until(10 * DAY)
    assert world.start_times() == [
        *(0, 0, 0),
        *(86_400_000, 86_400_000, 86_400_000),
        *(172_800_000, 172_800_000, 172_800_000),
        259_200_000,
    ]
    assert world.urls_started() == [f"https://host-{number}.test/" for number in range(10)]


def test_a_period_begins_with_its_first_dispatch() -> None:
    world = World()
    limits = flow("k", rate=2, period_ms=MINUTE)
    world.run_until(5_000)
    world.publish(URL, flow_control=limits)
    world.run_until(40_000)
    world.publish(URL, flow_control=limits)
    world.publish(URL, flow_control=limits)
    world.run_until(DAY)
    assert world.start_times() == [5_000, 40_000, 65_000]


def test_a_period_that_ended_unnoticed_counts_nothing() -> None:
    world = World()
    limits = flow("k", rate=1, period_ms=MINUTE)
    world.publish(URL, flow_control=limits)
    world.run_until(90_000)
    world.publish(URL, flow_control=limits)
    world.publish(URL, flow_control=limits)
    world.run_until(DAY)
    assert world.start_times() == [0, 90_000, 150_000]


def test_a_period_that_ended_unnoticed_gives_the_whole_rate_again() -> None:
    world = World()
    limits = flow("k", rate=2, period_ms=MINUTE)
    world.publish(URL, flow_control=limits)
    world.run_until(90_000)
    for _ in range(3):
        world.publish(URL, flow_control=limits)
    world.run_until(DAY)
    assert world.start_times() == [0, 90_000, 90_000, 150_000]


def test_canceling_one_that_waits_for_the_period_leaves_the_others_their_turn() -> None:
    world = World()
    ids = [world.publish(URL, flow_control=flow("k", rate=1, period_ms=MINUTE)) for _ in range(3)]
    world.cancel(ids[1])
    world.run_until(DAY)
    assert world.start_times(ids[2]) == [60_000]


def test_resetting_a_key_leaves_what_others_have_let_through() -> None:
    world = World(answering=None)
    ids = {key: world.publish(URL, flow_control=flow(key, parallelism=1)) for key in ("k", "l")}
    world.reset_key("k")
    assert (key_of(world, "k").active, key_of(world, "l").active) == (0, 1)
    world.finish(ids["l"])
    assert (key_of(world, "k").active, key_of(world, "l").active) == (0, 0)
    world.finish(ids["k"])
    assert key_of(world, "k").active == 0


def test_resetting_a_key_begins_its_period_and_lets_the_next_through_as_it_ends() -> None:
    world = World()
    for _ in range(3):
        world.publish(URL, flow_control=flow("k", rate=1, period_ms=MINUTE))
    world.run_until(30_000)
    world.reset_key("k")
    world.run_until(DAY)
    assert world.start_times() == [0, 30_000, 90_000]


def test_every_retry_counts_against_the_rate() -> None:
    """Decision D-024."""
    world = World(answering=by_url({URL: [answered(500), answered(500), answered(200)]}))
    message_id = world.publish(URL, flow_control=flow("k", rate=1, period_ms=MINUTE), retry_delay="1000")
    world.run_until(DAY)
    assert world.start_times(message_id) == [0, 60_000, 120_000]


def test_a_message_that_is_due_as_the_period_ends_does_not_overtake_those_that_wait_for_it() -> None:
    world = World()
    limits = flow("k", rate=1, period_ms=10_000)
    world.publish("https://late.test/", delay_ms=10_000, flow_control=limits)
    world.publish("https://first.test/", flow_control=limits)
    world.publish("https://second.test/", flow_control=limits)
    world.run_until(MINUTE)
    assert world.starts() == [
        ("https://first.test/", 1, 0),
        ("https://second.test/", 1, 10_000),
        ("https://late.test/", 1, 20_000),
    ]


def test_a_retry_that_is_due_as_the_period_ends_does_not_overtake_those_that_wait_for_it() -> None:
    world = World(answering=by_url({URL: [answered(500), answered(200)]}))
    limits = flow("k", rate=1, period_ms=10_000)
    world.publish(URL, flow_control=limits, retry_delay="10000")
    world.publish("https://second.test/", flow_control=limits)
    world.run_until(MINUTE)
    assert world.starts() == [(URL, 1, 0), ("https://second.test/", 1, 10_000), (URL, 2, 20_000)]


def test_nothing_waits_for_the_end_of_a_period_that_nobody_needs() -> None:
    world = World()
    world.publish(URL, flow_control=flow("k", rate=1, period_ms=MINUTE))
    assert world.next_due_ms is None
    world.cancel(world.publish(URL, flow_control=flow("k", rate=1, period_ms=MINUTE)))
    assert world.next_due_ms is None


def test_the_count_shown_is_that_of_the_present_period() -> None:
    world = World()
    world.publish(URL, flow_control=flow("k", rate=5, period_ms=MINUTE))
    world.publish(URL, flow_control=flow("k", rate=5, period_ms=MINUTE))
    world.run_until(59_999)
    assert rate_count(key_of(world), 1_767_225_659_999) == 2
    assert rate_count(key_of(world), 1_767_225_660_000) == 0


# -- the newest message's values --------------------------------------------------------------


def test_the_newest_message_sets_the_limits_of_its_key() -> None:
    """Decision D-025."""
    world = World()
    world.publish(URL, flow_control=flow("k", parallelism=2, rate=10, period_ms=MINUTE))
    world.publish(URL, flow_control=flow("k", rate=5, period_ms=HOUR))
    key = key_of(world)
    assert (key.parallelism, key.rate, key.period_ms) == (None, 5, 3_600_000)


def test_a_dead_letter_that_is_retried_brings_its_limits_again() -> None:
    world = World(answering=always(answered(500)))
    world.publish(URL, max_retries=0, flow_control=flow("k", parallelism=1))
    world.pin_key("k", parallelism=7)
    world.unpin_key("k", parallelism=True)
    assert (key_of(world).pinned_parallelism, key_of(world).pinned_rate) == (False, False)
    world.retry_dead_letters(*world.dead_letter_ids())
    assert key_of(world).parallelism == 1


def test_the_same_limits_again_change_nothing() -> None:
    """Decision D-025."""
    world = World(answering=None)
    for _ in range(2):
        world.publish(URL, flow_control=flow("k", parallelism=2, rate=10, period_ms=MINUTE))
    assert len(world.all(resource_facts.FlowKeyChanged)) == 1


def test_a_key_that_may_let_several_through_lets_them_all_through_at_once() -> None:
    world = World(answering=None)
    for number in range(4):
        world.publish(f"https://{number}.test/", flow_control=flow("k", parallelism=1))
    world.pin_key("k", parallelism=3)
    assert world.urls_started() == ["https://0.test/", "https://1.test/", "https://2.test/"]


def test_a_period_that_ends_lets_as_many_through_as_its_rate_though_none_is_answered() -> None:
    world = World(answering=None)
    for _ in range(5):
        world.publish(URL, flow_control=flow("k", rate=2, period_ms=MINUTE))
    world.run_until(MINUTE)
    assert world.start_times() == [0, 0, 60_000, 60_000]


# -- together with the account's global parallelism -------------------------------------------


def test_a_message_moves_from_the_key_to_the_global_line_and_keeps_its_place() -> None:
    world = World(make_account(max_global_parallelism=1), answering=None)
    busy = world.publish("https://busy.test/")
    limits = flow("k", parallelism=1)
    first = world.publish("https://first.test/", flow_control=limits)
    second = world.publish("https://second.test/", flow_control=limits)
    other = world.publish("https://other.test/")
    for message_id in (busy, first, second, other):
        world.finish(message_id)
    assert world.urls_started() == [
        "https://busy.test/",
        "https://first.test/",
        "https://second.test/",
        "https://other.test/",
    ]


def test_who_came_first_to_any_line_is_first_in_the_next() -> None:
    world = World(make_account(max_global_parallelism=2), answering=None)
    limits = flow("k", parallelism=1)
    running = world.publish("https://running.test/", flow_control=limits)
    world.publish("https://busy.test/")
    world.publish("https://waits-for-its-key.test/", flow_control=limits)
    world.publish("https://waits-for-the-account.test/")
    world.finish(running)
    assert world.urls_started()[2:] == ["https://waits-for-its-key.test/"]


def test_a_message_at_the_head_of_the_global_line_waits_when_its_key_is_full() -> None:
    world = World(make_account(max_global_parallelism=2), answering=None)
    limits = flow("k", parallelism=1)
    one = world.publish("https://one.test/", flow_control=limits)
    busy = world.publish("https://busy.test/")
    world.publish("https://two.test/", flow_control=limits)
    world.publish("https://three.test/")
    world.finish(busy)
    assert world.urls_started() == ["https://one.test/", "https://busy.test/", "https://three.test/"]
    world.finish(one)
    assert world.urls_started()[-1] == "https://two.test/"


def test_a_global_line_full_of_one_key_does_not_let_more_of_it_through() -> None:
    world = World(make_account(max_global_parallelism=2), answering=None)
    busy = [world.publish("https://busy.test/") for _ in range(2)]
    for number in range(4):
        world.publish(f"https://{number}.test/", flow_control=flow("k", parallelism=1))
    world.finish(busy[0])
    world.finish(busy[1])
    assert world.urls_started()[2:] == ["https://0.test/"]
    assert key_of(world).active == 1


def test_the_holds_say_what_a_message_waits_for() -> None:
    world = World(make_account(max_global_parallelism=1), answering=None)
    world.publish(URL, flow_control=flow("k", parallelism=5, rate=1, period_ms=DAY))
    world.publish(URL, flow_control=flow("k", parallelism=5, rate=1, period_ms=DAY))
    world.publish(URL)
    holds = [
        (fact.hold.kind.value, fact.hold.name, fact.hold.reason.value) for fact in world.all(message_facts.MessageHeld)
    ]
    assert holds == [("flow_control", "k", "rate"), ("global", "", "parallelism")]


def test_what_still_waits_is_held_no_second_time() -> None:
    world = World(make_account(max_global_parallelism=1), answering=None)
    first, *_ = [world.publish(URL) for _ in range(3)]
    world.run_until(5_000)
    world.finish(first)
    assert [fact.at_ms - world.began_ms for fact in world.all(message_facts.MessageHeld)] == [0, 0]
    assert world.start_times() == [0, 5_000]
