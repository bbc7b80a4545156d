"""URL groups: endpoints, default headers, and the life of a group."""

from __future__ import annotations

import pytest

from emulator.core import commands
from emulator.core.commands import EndpointSelector
from emulator.core.errors import Forbidden, InvalidInput, LimitReached, NotFound
from emulator.core.model.accounts import Plan
from emulator.core.model.names import GroupName
from emulator.core.model.options import MessageOptions
from emulator.core.model.resources import Endpoint
from tests.harness.simulations import MINUTE, World, callback, make_account

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


def test_one_endpoint_too_many_is_refused_but_an_existing_one_is_updated() -> None:
    world = World(make_account(max_endpoints_per_topic=2))
    world.make_group("team", A, B)
    with pytest.raises(LimitReached) as refusal:
        world.make_group("team", C)
    assert refusal.value.text == "quota maxEndpointsPerTopic exceeded, current limit: 2"
    world.make_group("team", Endpoint(url=A, name="x"))
    assert endpoints(world) == [(A, "x"), (B, None)]


def test_one_group_too_many_is_refused() -> None:
    world = World(make_account(Plan.FREE))
    world.make_group("team", A)
    with pytest.raises(LimitReached) as refusal:
        world.make_group("other", A)
    assert refusal.value.text == "quota maxTopics exceeded, current limit: 1"
    world.make_group("team", B)
    assert endpoints(world) == [(A, None), (B, None)]


def test_an_inactive_account_makes_no_group() -> None:
    with pytest.raises(Forbidden):
        World(make_account(active=False)).make_group("team", A)


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


def test_removing_from_an_unknown_group_is_not_found() -> None:
    with pytest.raises(NotFound) as refusal:
        remove(World(), by(url=A))
    assert refusal.value.text == "topic team not found"


# -- deleting ---------------------------------------------------------------------------------


def test_deleting_a_group_leaves_its_messages_alone() -> None:
    world = World(answering=None)
    world.make_group("team", A)
    (published,) = world.publish_to_group("team")
    delete(world)
    world.finish(published.message_id)
    assert world.events_of(published.message_id)[-1] == "DELIVERED"


def test_deleting_a_group_that_is_not_there_is_no_error() -> None:
    world = World()
    delete(world)
    assert world.facts == []


def test_a_group_that_a_schedule_publishes_to_keeps_its_last_endpoint() -> None:
    """Decision D-035."""
    world = World()
    world.make_group("team", A)
    world.write_schedule("* * * * *", "team", schedule_id="mine")
    before = world.snapshot()
    with pytest.raises(InvalidInput) as refusal:
        remove(world, by(url=A))
    assert refusal.value.text == "endpoints: schedule mine publishes to topic team, delete it first"
    assert world.snapshot() == before


def test_a_group_that_a_schedule_publishes_to_cannot_be_deleted() -> None:
    """Decision D-035."""
    world = World()
    world.make_group("team", A)
    world.make_group("other", A)
    world.write_schedule("* * * * *", "team", schedule_id="mine")
    with pytest.raises(InvalidInput) as refusal:
        delete(world)
    assert refusal.value.text == "url_group_name: schedule mine publishes to topic team, delete it first"
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


def test_default_headers_outlive_changes_of_the_endpoints() -> None:
    world = World()
    world.make_group("team", A)
    world.set_group_defaults("team", max_retries=1)
    world.make_group("team", B)
    assert world.owner.groups[TEAM].defaults == MessageOptions(max_retries=1)


def test_default_headers_keep_the_limits_of_a_message() -> None:
    world = World()
    world.make_group("team", A)
    with pytest.raises(InvalidInput) as refusal:
        world.set_group_defaults("team", callback=callback(B, delay_ms=1))
    assert refusal.value.field == "Svc-Callback-Delay"


def test_default_headers_of_an_unknown_group_are_not_found() -> None:
    with pytest.raises(NotFound):
        World().set_group_defaults("team", max_retries=1)
