"""Accounts: credentials, signing keys, plans, states, and limits that change while the world runs."""

from __future__ import annotations

import base64
import json

import pytest
from msgspec.structs import replace

from emulator.core import commands, resource_facts
from emulator.core.checkpoint import capture, restore
from emulator.core.errors import Forbidden
from emulator.core.model.resources import IndexType, Plan, SearchIndex, SigningKeys, TeamMember, TeamRole, VectorIndex
from emulator.core.plans import PlanName
from emulator.core.record import AccountId, IndexId, world_key
from emulator.core.state import State
from tests.harness.simulations import ACCOUNT_ID, DAY, MINUTE, World, make_account, replay


def test_rotating_makes_the_next_key_the_current_one_and_a_fresh_one_the_next() -> None:
    world = World()
    first = world.do(commands.RotateSigningKeys(account_id=world.account_id))
    assert first.current == "sig_next"
    assert first.next.startswith("sig_")
    assert len(first.next) == 32
    second = world.do(commands.RotateSigningKeys(account_id=world.account_id))
    assert second.current == first.next
    assert second.next not in (first.current, first.next)
    assert world.owner.account.signing_keys == second


def test_rotated_keys_are_the_same_in_every_run() -> None:
    replies = {World().do(commands.RotateSigningKeys(account_id=World().account_id)).next for _ in range(2)}
    assert len(replies) == 1


def test_a_changed_record_counts_from_this_instant_on() -> None:
    world = World()
    world.change_account(max_retries=1, signing_keys=SigningKeys(current="a", next="b"))
    assert world.owner.account.max_retries == 1
    assert world.owner.account.signing_keys.current == "a"


# -- tokens -----------------------------------------------------------------------------------


def test_rotation_gives_new_credentials_that_name_the_account() -> None:
    """D-162."""
    world = World()
    old = world.owner.account
    new = world.do(commands.RotateToken(account_id=ACCOUNT_ID))
    assert new == world.owner.account
    texts = {old.token, old.read_only_token, old.password, new.token, new.read_only_token, new.password}
    assert len(texts) == 6
    assert json.loads(base64.b64decode(new.token)) == {"UserID": ACCOUNT_ID, "Password": new.password}
    assert replace(new, password="", token="", read_only_token="") == replace(
        old, password="", token="", read_only_token=""
    )
    assert world.do(commands.RotateToken(account_id=ACCOUNT_ID)).token not in texts


# -- plans ------------------------------------------------------------------------------------

PLANS = {
    PlanName.FREE: (Plan.FREE, "", 0, 1_048_576, 1_000, 100, 5, 1, 10, 604_800, 2, 10, 900),
    PlanName.PAYG: (Plan.PAID, "", 0, 10_485_760, 2_147_483_647, 100, 20, 100, 1_000, 31_536_000, 10, 100, 7_200),
    PlanName.QUEUE_FIXED_1M: (
        Plan.PAID, "queue_fixed_1m", 180, 52_428_800, 10_000_000, 500, 20, 1_000, 1_000_000, 2_147_483_647, 10, 200,
        21_600,
    ),
    PlanName.QUEUE_FIXED_10M: (
        Plan.PAID, "queue_fixed_10m", 420, 52_428_800, 100_000_000, 500, 20, 1_000, 1_000_000, 2_147_483_647, 10, 1_000,
        21_600,
    ),
    PlanName.QUEUE_FIXED_100M: (
        Plan.PAID, "queue_fixed_100m", 1_200, 52_428_800, 1_000_000_000, 500, 20, 1_000, 1_000_000, 2_147_483_647, 10,
        1_000, 21_600,
    ),
}  # fmt: skip


@pytest.mark.parametrize("plan", PlanName)
def test_a_plan_brings_its_limits_and_leaves_the_rest(plan: PlanName) -> None:
    """D-160."""
    world = World(make_account(budget=50, created_by="somebody"))
    world.run_for(DAY)
    world.do(commands.SetPlan(account_id=ACCOUNT_ID, plan=plan))
    account = world.owner.account
    assert PLANS[plan] == (
        account.type,
        account.reserved_type,
        account.reserved_price,
        account.max_message_size,
        account.max_requests_per_day_hard,
        account.max_requests_per_second,
        account.max_retries,
        account.max_topics,
        account.max_schedules,
        account.max_delay,
        account.max_parallelism,
        account.max_global_parallelism,
        account.timeout,
    )
    assert (account.budget, account.created_by, account.id) == (50, "somebody", ACCOUNT_ID)
    assert account.last_plan_upgrade_time == 1_767_225_600 + 86_400


def test_the_limits_of_a_new_plan_hold_at_once() -> None:
    """D-163."""
    world = World(make_account(max_global_parallelism=1), answering=None)
    for number in range(3):
        world.publish(f"https://x.test/{number}")
    assert len(world.starts()) == 1
    world.do(commands.SetPlan(account_id=ACCOUNT_ID, plan=PlanName.PAYG))
    assert len(world.starts()) == 3


def test_budget_production_pack_and_team_are_recorded() -> None:
    """D-164."""
    world = World()
    world.do(commands.AmendAccount(account_id=ACCOUNT_ID, budget=360))
    world.do(commands.AmendAccount(account_id=ACCOUNT_ID, prod_pack_enabled=True))
    world.do(commands.AmendAccount(account_id=ACCOUNT_ID, customer_id="team-7"))
    account = world.owner.account
    assert (account.budget, account.prod_pack_enabled, account.customer_id) == (360, True, "team-7")
    world.do(commands.AmendAccount(account_id=ACCOUNT_ID, prod_pack_enabled=False))
    assert not world.owner.account.prod_pack_enabled


# -- the state of an account ------------------------------------------------------------------


def test_a_change_of_state_shows_for_a_minute() -> None:
    """D-166."""
    world = World()
    world.change_account(state="suspended")
    assert (world.owner.account.state, world.owner.account.modifying_state) == ("suspended", "suspended")
    with pytest.raises(Forbidden, match="is suspended"):
        world.publish("https://x.test")
    world.run_for(MINUTE - 1)
    assert world.owner.account.modifying_state == "suspended"
    world.run_for(1)
    assert (world.owner.account.state, world.owner.account.modifying_state) == ("suspended", "")
    world.change_account(state="active")
    assert (world.owner.account.state, world.owner.account.modifying_state) == ("active", "active")
    world.publish("https://x.test")
    world.run_for(MINUTE)
    assert world.owner.account.modifying_state == ""


def test_a_second_change_of_state_starts_the_minute_again() -> None:
    """D-166."""
    world = World()
    world.change_account(state="suspended")
    world.run_for(MINUTE // 2)
    world.change_account(state="active")
    world.run_for(MINUTE // 2)
    assert world.owner.account.modifying_state == "active"
    world.run_for(MINUTE // 2)
    assert world.owner.account.modifying_state == ""


def test_another_change_leaves_a_transition_alone() -> None:
    world = World()
    world.change_account(state="suspended")
    world.run_for(MINUTE // 2)
    world.change_account(budget=100)
    assert world.owner.account.modifying_state == "suspended"
    world.run_for(MINUTE // 2)
    assert (world.owner.account.modifying_state, world.owner.account.budget) == ("", 100)


def test_a_transition_never_draws_the_clock_to_itself() -> None:
    world = World()
    world.change_account(state="suspended")
    assert world.simulation.state.timers.next_work_ms() is None
    assert world.next_due_ms == MINUTE


# -- search indexes -----------------------------------------------------------------------------


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
    world.do(commands.ChangeSearchIndex(index_id=index.id, name="yours"))
    world.do(commands.ChangeSearchIndex(index_id=index.id, customer_id="you@example.com"))
    found = world.simulation.state.search_indexes[index.id]
    assert found == replace(index, name="yours", customer_id="you@example.com")
    world.do(commands.DeleteSearchIndex(index_id=index.id))
    assert not world.simulation.state.search_indexes
    assert [type(fact) for fact in world.facts] == [
        resource_facts.SearchIndexCreated,
        resource_facts.SearchIndexChanged,
        resource_facts.SearchIndexChanged,
        resource_facts.SearchIndexDeleted,
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
