"""Accounts: credentials, signing keys, plans, states, and limits that change while the world goes on."""

from __future__ import annotations

import base64
import json

import pytest
from msgspec.structs import replace

from emulator.core import commands
from emulator.core.errors import Forbidden, NotFound
from emulator.core.model.accounts import Plan, SigningKeys
from emulator.core.model.names import AccountId
from emulator.core.plans import PlanName
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


def test_rotated_keys_are_the_same_in_every_run() -> None:
    replies = {World().do(commands.RotateSigningKeys(account_id=World().account_id)).next for _ in range(2)}
    assert len(replies) == 1


def test_a_changed_record_counts_from_this_instant_on() -> None:
    world = World()
    world.change_account(max_retries=1, signing_keys=SigningKeys(current="a", next="b"))
    assert world.owner.account.max_retries == 1
    assert world.owner.account.signing_keys.current == "a"


def test_an_account_nobody_has_is_not_found() -> None:
    world = World()
    stranger = replace(make_account(), id=AccountId("nobody"))
    for command in (
        commands.ChangeAccount(account=stranger),
        commands.RotateSigningKeys(account_id=stranger.id),
        commands.RotateToken(account_id=stranger.id),
        commands.SetPlan(account_id=stranger.id, plan=PlanName.PAYG),
        commands.SetBudget(account_id=stranger.id, budget=20),
        commands.SetProductionPack(account_id=stranger.id, enabled=True),
        commands.MoveToTeam(account_id=stranger.id, team_id="t"),
    ):
        with pytest.raises(NotFound) as refusal:
            world.do(command)
        assert refusal.value.text == "account nobody not found"
    assert world.facts == []


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
    world.do(commands.SetBudget(account_id=ACCOUNT_ID, budget=360))
    world.do(commands.SetProductionPack(account_id=ACCOUNT_ID, enabled=True))
    world.do(commands.MoveToTeam(account_id=ACCOUNT_ID, team_id="team-7"))
    account = world.owner.account
    assert (account.budget, account.prod_pack_enabled, account.customer_id) == (360, True, "team-7")
    world.do(commands.SetProductionPack(account_id=ACCOUNT_ID, enabled=False))
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
