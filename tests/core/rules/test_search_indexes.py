"""Search indexes: their numbers, tokens and changes, and what a checkpoint keeps of them."""

from __future__ import annotations

import base64

import pytest
from msgspec.structs import replace

from emulator.core import commands, facts
from emulator.core.checkpoint import capture, restore
from emulator.core.errors import NotFound
from emulator.core.identifiers import world_key
from emulator.core.model.accounts import IndexType, SearchIndex, TeamMember, TeamRole, VectorIndex
from emulator.core.model.names import AccountId, IndexId
from emulator.core.state import State
from tests.harness.simulations import ACCOUNT_ID, MINUTE, World, make_account, replay


def create(
    world: World, name: str = "mine", *, region: str = "eu-west-1", type_: IndexType = IndexType.PAYG
) -> SearchIndex:
    return world.do(commands.CreateSearchIndex(customer_id="me@example.com", name=name, region=region, type=type_))


# -- search indexes ---------------------------------------------------------------------------


def test_a_created_index_has_the_numbers_of_the_sample() -> None:
    index = create(World())
    assert index == SearchIndex(
        id=index.id,
        profile_number=1,
        customer_id="me@example.com",
        name="mine",
        endpoint=index.endpoint,
        type=IndexType.PAYG,
        region="eu-west-1",
        integration_email="",
        token=index.token,
        read_only_token=index.read_only_token,
        max_vector_count=2_000_000,
        max_monthly_reranks=-1,
        max_daily_updates=-1,
        max_daily_queries=-1,
        max_monthly_bandwidth=-1,
        max_writes_per_second=1_000,
        max_query_per_second=1_000,
        max_reads_per_request=100,
        max_writes_per_request=100,
        creation_time=1_767_225_600,
        input_enrichment_enabled=True,
    )


def test_an_index_of_the_free_plan_has_caps() -> None:
    """D-161."""
    index = create(World(), type_=IndexType.FREE)
    caps = (index.max_vector_count, index.max_monthly_reranks, index.max_daily_updates, index.max_daily_queries)
    assert caps == (200_000, 1_000, 10_000, 10_000)
    assert index.max_monthly_bandwidth == 53_687_091_200


def test_ids_and_tokens_differ_between_indexes_and_between_worlds_of_one_seed() -> None:
    here, there = World(), World(make_account(id=AccountId("another")))
    indexes = [create(here), create(here), create(there)]
    texts = [text for index in indexes for text in (index.id, index.token, index.read_only_token)]
    assert len(set(texts)) == 9
    assert create(World()) == indexes[0]


def test_tokens_of_an_index_are_base64() -> None:
    """D-189."""
    index = create(World())
    assert base64.b64decode(index.token, validate=True).startswith(index.id.encode())


def test_an_endpoint_is_a_host_label_that_ends_in_the_region() -> None:
    """D-165."""
    world = World()
    for region, ending in (("eu-west-1", "eu1"), ("us-central1", "us1")):
        adjective, animal, number, last = create(world, region=region).endpoint.split("-")
        assert adjective.isalpha()
        assert animal.isalpha()
        assert 10_000 <= int(number) <= 99_999
        assert last == ending


def test_an_index_is_renamed_transferred_and_deleted() -> None:
    """D-164."""
    world = World()
    index = create(world)
    world.do(commands.RenameSearchIndex(index_id=index.id, name="yours"))
    world.do(commands.TransferSearchIndex(index_id=index.id, target_account="you@example.com"))
    found = world.simulation.state.search_indexes[index.id]
    assert found == replace(index, name="yours", customer_id="you@example.com")
    world.do(commands.DeleteSearchIndex(index_id=index.id))
    assert not world.simulation.state.search_indexes
    assert [type(fact) for fact in world.facts] == [
        facts.SearchIndexCreated,
        facts.SearchIndexChanged,
        facts.SearchIndexChanged,
        facts.SearchIndexDeleted,
    ]


def test_a_password_reset_gives_new_tokens_every_time() -> None:
    world = World()
    index = create(world)
    first = world.do(commands.ResetSearchIndexPassword(index_id=index.id))
    second = world.do(commands.ResetSearchIndexPassword(index_id=index.id))
    tokens = {each.token for each in (index, first, second)} | {each.read_only_token for each in (index, first, second)}
    assert len(tokens) == 6
    assert replace(second, token="", read_only_token="") == replace(index, token="", read_only_token="")


def test_a_deleted_index_does_not_lend_its_number_to_the_next() -> None:
    world = World()
    first = create(world)
    world.do(commands.DeleteSearchIndex(index_id=first.id))
    second = create(world)
    assert (first.profile_number, second.profile_number) == (1, 2)
    assert first.id != second.id


@pytest.mark.parametrize(
    "command",
    [
        commands.RenameSearchIndex(index_id=IndexId("none"), name="x"),
        commands.ResetSearchIndexPassword(index_id=IndexId("none")),
        commands.TransferSearchIndex(index_id=IndexId("none"), target_account="x"),
        commands.DeleteSearchIndex(index_id=IndexId("none")),
    ],
    ids=lambda command: type(command).__name__,
)
def test_what_is_not_there_is_not_found_and_nothing_changes(command: commands.Command[object]) -> None:
    world = World()
    before = world.snapshot()
    with pytest.raises(NotFound):
        world.do(command)
    assert world.snapshot() == before


# -- as a whole ------------------------------------------------------------------------------


def busy_world() -> World:
    world = World()
    index = create(world)
    create(world, "other")
    world.do(commands.ResetSearchIndexPassword(index_id=index.id))
    world.do(commands.RotateToken(account_id=ACCOUNT_ID))
    world.change_account(state="suspended")
    return world


def test_applying_the_facts_again_gives_the_same_state() -> None:
    world = busy_world()
    assert replay(world) == world.snapshot()
    world.run_for(MINUTE)
    assert replay(world) == world.snapshot()


def test_an_image_holds_everything() -> None:
    index = VectorIndex(
        id=IndexId("v"),
        profile_number=9,
        customer_id="c",
        name="n",
        type=IndexType.FREE,
        region="us-east-1",
        creation_time=5,
    )
    member = TeamMember(name="A", email="a@b.test", role=TeamRole.FINANCE)
    state = State(key=world_key(0), now_ms=0, accounts=[make_account()])
    state.vector_indexes[index.id] = index
    state.team = (member,)
    state.counters.indexes = 9
    again = restore(capture(state))
    assert capture(again) == capture(state)
    assert (again.vector_indexes, again.team, again.counters.indexes) == ({index.id: index}, (member,), 9)
    image, _ = busy_world().snapshot()
    assert capture(restore(image)) == image
    assert (image.counters.indexes, image.counters.index_tokens, image.counters.account_tokens) == (2, 1, 1)
