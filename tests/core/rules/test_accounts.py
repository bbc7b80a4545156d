"""Accounts: credentials, signing keys, plans, states, and limits that change while the world runs."""

from __future__ import annotations

import base64
import json

import pytest
from msgspec.structs import replace

from emulator.core import commands, resource_facts
from emulator.core.errors import Forbidden
from emulator.core.model.resources import IndexType, Plan, SearchIndex
from emulator.core.plans import PLAN_OF_TYPE, PlanName, PlanTerms
from emulator.core.record import AccountId
from tests.harness.simulations import ACCOUNT_ID, DAY, MINUTE, World, make_account


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
    read_only = json.loads(base64.b64decode(new.read_only_token))
    assert (read_only["UserID"], len(read_only["Password"])) == (ACCOUNT_ID, 40)
    assert replace(new, password="", token="", read_only_token="") == replace(
        old, password="", token="", read_only_token=""
    )
    again = world.do(commands.RotateToken(account_id=ACCOUNT_ID))
    assert {again.token, again.read_only_token, again.password}.isdisjoint(texts)


# -- plans ------------------------------------------------------------------------------------

NONE = 2_147_483_647
# The terms of each plan, in the order of their record (D-030, D-160).
PLANS = {
    PlanName.FREE: (
        Plan.FREE, "", 0, 1_048_576, 1_000, 1_000, 100, 100, 1_000_000, 5, 1, 10, 10_000, 259_200_000, 3, 604_800, 2,
        10, 10, 900,
    ),
    PlanName.PAYG: (
        Plan.PAID, "", 0, 10_485_760, NONE, NONE, 100, 100, 1_000_000, 20, 100, 1_000, 10_000, 604_800_000, 7,
        31_536_000, 10, 100, 100, 7_200,
    ),
    PlanName.QUEUE_FIXED_1M: (
        Plan.PAID, "queue_fixed_1m", 180, 52_428_800, 1_000_000, 10_000_000, 1_000, 500, NONE, 20, 1_000, 1_000_000,
        100_000, 2_592_000_000, 7, NONE, 10, 200, 1_000, 21_600,
    ),
    PlanName.QUEUE_FIXED_10M: (
        Plan.PAID, "queue_fixed_10m", 420, 52_428_800, 10_000_000, 100_000_000, 1_000, 500, NONE, 20, 1_000, 1_000_000,
        100_000, 7_776_000_000, 7, NONE, 10, 1_000, 1_000, 21_600,
    ),
    PlanName.QUEUE_FIXED_100M: (
        Plan.PAID, "queue_fixed_100m", 1_200, 52_428_800, 100_000_000, 1_000_000_000, 1_000, 500, NONE, 20, 1_000,
        1_000_000, 100_000, 7_776_000_000, 7, NONE, 10, 1_000, 1_000, 21_600,
    ),
}  # fmt: skip


@pytest.mark.parametrize("plan", PlanName)
def test_a_plan_brings_its_limits_and_leaves_the_rest(plan: PlanName) -> None:
    """D-030, D-160."""
    world = World(make_account(budget=50, created_by="somebody"))
    world.run_for(DAY)
    world.do(commands.SetPlan(account_id=ACCOUNT_ID, plan=plan))
    account = world.owner.account
    assert tuple(getattr(account, name) for name in PlanTerms.__struct_fields__) == PLANS[plan]
    assert (account.budget, account.created_by, account.id) == (50, "somebody", ACCOUNT_ID)
    assert account.last_plan_upgrade_time == 1_767_225_600 + 86_400


def test_a_plan_takes_a_burst_limit_that_was_set_away() -> None:
    world = World(make_account(burst_limit_is_set=True))
    world.do(commands.SetPlan(account_id=ACCOUNT_ID, plan=PlanName.PAYG))
    assert world.owner.account.burst_limit_is_set is False


def test_an_account_starts_on_the_published_samples() -> None:
    """D-030."""
    assert PLAN_OF_TYPE == {Plan.FREE: PlanName.FREE, Plan.PAID: PlanName.QUEUE_FIXED_1M}


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
    for given in ({"budget": 360}, {"prod_pack_enabled": True}, {"customer_id": "team-7"}):
        before = world.owner.account
        world.do(commands.AmendAccount(account_id=ACCOUNT_ID, **given))
        assert world.owner.account == replace(before, **given)
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


def test_a_second_change_of_state_starts_the_minute_again_and_another_change_does_not() -> None:
    """D-166."""
    world = World()
    world.change_account(state="suspended")
    # No work that a clock would wait for.
    assert (world.next_due_ms, world.simulation.state.timers.next_work_ms()) == (MINUTE, None)
    world.run_for(MINUTE // 2)
    world.change_account(budget=100)
    assert (world.owner.account.modifying_state, world.next_due_ms) == ("suspended", MINUTE)
    world.change_account(state="active")
    world.run_for(MINUTE // 2)
    assert world.owner.account.modifying_state == "active"
    world.run_for(MINUTE // 2)
    assert (world.owner.account.modifying_state, world.owner.account.budget) == ("", 100)


# -- search indexes -----------------------------------------------------------------------------


def create(
    world: World, name: str = "mine", *, region: str = "eu-west-1", type_: IndexType = IndexType.PAYG
) -> SearchIndex:
    return world.do(commands.CreateSearchIndex(customer_id="me@example.com", name=name, region=region, type=type_))


# -- search indexes ---------------------------------------------------------------------------


def test_a_created_index_has_the_numbers_of_the_sample() -> None:
    """D-189: its token is base64."""
    index = create(World())
    assert base64.b64decode(index.token, validate=True).startswith(index.id.encode())
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


def test_an_index_is_what_its_seed_has_always_made_of_it() -> None:
    """D-165, D-189: the same in every version."""
    index = create(World())
    texts = [base64.b64decode(token).decode().partition(":") for token in (index.token, index.read_only_token)]
    assert texts == [
        (index.id, ":", "MdEy9roxmJdQUn7r6ttwja6aMHx7udx7evcypHNc"),
        (index.id, ":", "epKVgwo8AMPdNtXn3DofTVC4GTrT2whoLPJjijF7"),
    ]
    assert (index.id, index.endpoint) == ("316c0d68-a69b-4e13-bd63-c666193ef6ca", "mighty-lynx-43689-eu1")


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
