"""Flow control keys and URL groups by command."""

from __future__ import annotations

import pytest

from emulator.core import commands, resource_facts
from emulator.core.commands import EndpointSelector
from emulator.core.errors import InvalidInput, NotFound
from emulator.core.model.options import MessageOptions
from emulator.core.model.resources import Endpoint, FlowState
from emulator.core.record import FlowKey, GroupName
from tests.harness.simulations import DAY, HOUR, MINUTE, World, answered, callback, flow

# -- flow control keys --------------------------------------------------------------------------

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
    """D-024, D-041."""
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


def test_a_pause_makes_an_unknown_key_and_holds_its_first_message() -> None:
    """D-527."""
    world = World()
    world.pause_key("k")
    message = world.publish(URL, flow_control=flow("k", parallelism=1))
    assert (key_of(world).paused, world.start_times(message)) == (True, [])
    world.pause_key("k", paused=False)
    assert world.start_times(message) == [0]


def test_the_end_of_a_period_is_a_fact_of_its_own() -> None:
    world = World()
    for _ in range(2):
        world.publish(URL, flow_control=flow("a/b c/雨", rate=1, period_ms=MINUTE))
    world.run_until(MINUTE)
    (opened,) = world.all(resource_facts.RateWindowOpened)
    assert (opened.key, opened.at_ms) == ("a/b c/雨", 1_767_225_660_000)
    assert world.start_times() == [0, 60_000]


# -- URL groups ---------------------------------------------------------------------------------

A, B, C = "https://a.test/", "https://b.test/", "https://c.test/"
TEAM = GroupName("team")


def endpoints(world: World) -> list[tuple[str, str | None]]:
    return [(each.url, each.name) for each in world.owner.groups[TEAM].endpoints]


def remove(world: World, *selectors: EndpointSelector) -> None:
    world.do(commands.RemoveEndpoints(account_id=world.account_id, name=TEAM, selectors=selectors))


def by(*, url: str | None = None, name: str | None = None) -> EndpointSelector:
    return EndpointSelector(url=url, name=name)


def delete(world: World, name: str = "team") -> None:
    world.do(commands.DeleteUrlGroup(account_id=world.account_id, name=GroupName(name)))


# -- adding -----------------------------------------------------------------------------------


def test_a_first_endpoint_makes_the_group_and_later_ones_are_added_in_order() -> None:
    world = World()
    world.make_group("team", Endpoint(url=A, name="first one"))
    world.run_until(MINUTE)
    world.make_group("team", B, C)
    assert endpoints(world) == [(A, "first one"), (B, None), (C, None)]
    group = world.owner.groups[TEAM]
    assert (group.created_ms, group.updated_ms) == (1_767_225_600_000, 1_767_225_660_000)


@pytest.mark.parametrize(
    ("present", "added", "expected"),
    [
        pytest.param([(A, "x")], [(B, "x")], [(B, "x")], id="same-name-takes-the-new-url"),
        pytest.param([(A, None)], [(A, "x")], [(A, "x")], id="an-unnamed-endpoint-gets-its-name"),
        pytest.param([(A, "x")], [(A, None)], [(A, "x")], id="a-name-is-not-lost"),
        pytest.param([(A, None)], [(A, None)], [(A, None)], id="the-same-twice"),
        pytest.param([(A, "x")], [(A, "y")], [(A, "x"), (A, "y")], id="one-url-under-two-names"),
        pytest.param([(A, None), (B, "x")], [(A, "x")], [(A, None), (A, "x")], id="a-name-is-given-once"),
        pytest.param([], [(A, "x"), (B, "x")], [(B, "x")], id="within-one-call"),
    ],
)
def test_an_endpoint_that_exists_is_updated(
    present: list[tuple[str, str | None]],
    added: list[tuple[str, str | None]],
    expected: list[tuple[str, str | None]],
) -> None:
    """Decision D-036."""
    world = World()
    for batch in (present, added):
        world.make_group("team", *(Endpoint(url=url, name=name) for url, name in batch))
    assert endpoints(world) == expected


# -- removing ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("selector", "left"),
    [
        pytest.param(by(url=A), [(B, "x"), (B, "y")], id="by-url"),
        pytest.param(by(name="x"), [(A, None), (B, "y")], id="by-name"),
        pytest.param(by(url=B), [(A, None)], id="every-endpoint-of-a-url"),
        pytest.param(by(url=B, name="y"), [(A, None), (B, "x")], id="by-both"),
    ],
)
def test_endpoints_are_removed_by_name_or_url(selector: EndpointSelector, left: list[tuple[str, str | None]]) -> None:
    world = World()
    world.make_group("team", A, Endpoint(url=B, name="x"), Endpoint(url=B, name="y"))
    remove(world, selector)
    assert endpoints(world) == left


def test_an_endpoint_that_is_not_there_is_not_found_and_nothing_is_removed() -> None:
    world = World()
    world.make_group("team", A, B)
    before = world.snapshot()
    with pytest.raises(NotFound) as refusal:
        remove(world, by(url=A), by(name="nobody"))
    assert refusal.value.text == "endpoint nobody not found in topic team"
    assert world.snapshot() == before


def test_the_group_goes_with_its_last_endpoint() -> None:
    world = World()
    world.make_group("team", A, B)
    remove(world, by(url=A), by(url=B))
    assert world.owner.groups == {}


# -- deleting ---------------------------------------------------------------------------------


def test_a_group_that_a_schedule_publishes_to_keeps_its_last_endpoint_and_cannot_be_deleted() -> None:
    """Decision D-035."""
    world = World()
    world.make_group("team", A)
    world.make_group("other", A)
    world.write_schedule("* * * * *", "team", schedule_id="mine")
    before = world.snapshot()
    remove_last = commands.RemoveEndpoints(account_id=world.account_id, name=TEAM, selectors=(by(url=A),))
    remove_all = commands.DeleteUrlGroup(account_id=world.account_id, name=TEAM)
    for command, field in ((remove_last, "endpoints"), (remove_all, "url_group_name")):
        with pytest.raises(InvalidInput) as refusal:
            world.do(command)
        assert refusal.value.text == f"{field}: schedule mine publishes to topic team, delete it first"
    assert world.snapshot() == before
    delete(world, "other")
    assert list(world.owner.groups) == ["team"]


# -- default headers --------------------------------------------------------------------------


def test_default_headers_replace_those_before() -> None:
    world = World()
    world.make_group("team", A)
    for headers, defaults in (
        ((("Svc-Retries", ("1",)),), MessageOptions(max_retries=1)),
        ((("Svc-Forward-X", ("1", "2")),), MessageOptions(forwarded=(("X", "1"), ("X", "2")))),
    ):
        world.do(commands.SetGroupDefaults(account_id=world.account_id, name=TEAM, headers=headers, defaults=defaults))
    group = world.owner.groups[TEAM]
    assert group.headers == (("Svc-Forward-X", ("1", "2")),)
    assert group.defaults == MessageOptions(forwarded=(("X", "1"), ("X", "2")))


def test_default_headers_keep_the_limits_of_a_message() -> None:
    world = World()
    world.make_group("team", A)
    with pytest.raises(InvalidInput) as refusal:
        world.set_group_defaults("team", callback=callback(B, delay_ms=1))
    assert refusal.value.field == "Svc-Callback-Delay"
