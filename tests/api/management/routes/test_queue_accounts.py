"""Queue accounts by HTTP."""

from __future__ import annotations

from tests.api.management.routes.calls import UUID, get, manage, post
from tests.harness.emulators import EPOCH_MS, InProcess, with_emulator


@with_emulator()
async def test_accounts_are_listed_and_read(emulator: InProcess) -> None:
    accounts = await get(emulator, "/v2/queue/users")
    assert [(account["type"], account["reserved_type"], account["region"]) for account in accounts] == [
        ("paid", "queue_fixed_1m", "us-east-1"),
        ("free", "", "eu-central-1"),
    ]
    for account in accounts:
        assert UUID.fullmatch(account["id"])
        assert account["metrics_enabled"] == "false"
        assert await get(emulator, f"/v2/queue/user/{account['id']}") == account
    own = await get(emulator, "/v2/queue/user")
    assert own == accounts[0]
    assert (own["id"], own["token"]) == (emulator.world.account().id, emulator.token)


@with_emulator(plan="free")
async def test_the_plan_of_the_settings_is_that_of_the_first_account(emulator: InProcess) -> None:
    assert [each["type"] for each in await get(emulator, "/v2/queue/users")] == ["free", "free"]


@with_emulator()
async def test_optional_fields_of_an_account_show_only_while_they_apply(emulator: InProcess) -> None:
    """D-031."""
    account_id = emulator.world.account().id
    await emulator.control("PUT", f"/accounts/{account_id}", {"enterprise": {"enabled": True}})
    assert (await get(emulator, "/v2/queue/user"))["enterprise"] == {"enabled": True}
    assert "modifying_state" not in await get(emulator, "/v2/queue/user")


@with_emulator()
async def test_a_rotated_token_works_and_the_old_one_ends_at_once(emulator: InProcess) -> None:
    """D-162."""
    old = await get(emulator, "/v2/queue/user")
    assert (await emulator.get("/v2/queues")).status == 200
    new = await post(emulator, f"/v2/queue/rotate-token/{old['id']}")
    assert new["id"] == old["id"]
    for name in ("token", "read_only_token"):
        assert (await emulator.get("/v2/queues", token=old[name])).status == 401
        assert (await emulator.get("/v2/queues", token=new[name])).status == 200
    assert (await emulator.post("/v2/publish/https://x.test", token=new["token"])).status == 200
    assert (await emulator.post("/v2/publish/https://x.test", token=new["read_only_token"])).status == 403
    assert (await emulator.control("GET", "/credentials")).json["queue"]["token"] == new["token"]
    assert (await emulator.control("POST", "/reset")).json["credentials"]["queue"]["token"] == old["token"]
    assert (await emulator.get("/v2/queues", token=new["token"])).status == 401
    assert (await emulator.get("/v2/queues", token=old["token"])).status == 200


@with_emulator(plan="free")
async def test_the_limits_of_a_new_plan_hold_at_once(emulator: InProcess) -> None:
    """D-160, D-163."""
    account_id = emulator.world.account().id
    too_late = {"Svc-Delay": "8d"}
    assert (await emulator.post("/v2/publish/https://x.test", too_late)).status == 400
    await emulator.advance("1h")
    for plan, retries, reserved in (("paid", 20, ""), ("queue_fixed_10m", 20, "queue_fixed_10m")):
        assert await post(emulator, f"/v2/queue/set-plan/{account_id}", {"plan_name": plan}) == "OK"
        account = await get(emulator, "/v2/queue/user")
        assert (account["type"], account["max_retries"], account["reserved_type"]) == ("paid", retries, reserved)
        assert account["last_plan_upgrade_time"] == EPOCH_MS // 1000 + 3600
        assert (await emulator.post("/v2/publish/https://x.test", too_late)).status == 200


@with_emulator()
async def test_budget_production_pack_and_team_are_recorded(emulator: InProcess) -> None:
    """D-164."""
    account_id = emulator.world.account().id
    answer = await manage(emulator, "PATCH", f"/v2/queue/update-budget/{account_id}", {"budget": 360})
    assert (answer.status, answer.json) == (200, "OK")
    assert await post(emulator, f"/v2/queue/enable-prodpack/{account_id}") == "OK"
    assert await post(emulator, "/v2/queue/move-to-team", {"queue_id": account_id, "target_team_id": "team-7"}) == "OK"
    account = await get(emulator, "/v2/queue/user")
    assert (account["budget"], account["prod_pack_enabled"], account["customer_id"]) == (360, True, "team-7")
    assert await post(emulator, f"/v2/queue/disable-prodpack/{account_id}") == "OK"
    assert (await get(emulator, "/v2/queue/user"))["prod_pack_enabled"] is False


@with_emulator()
async def test_wrong_input_about_an_account_is_named(emulator: InProcess) -> None:
    before = emulator.image()
    for method, target, body, field in (
        ("POST", "set-plan/{id}", {}, "plan_name"),
        ("POST", "set-plan/{id}", {"plan_name": "free"}, "plan_name"),
        ("PATCH", "update-budget/{id}", {}, "budget"),
        ("PATCH", "update-budget/{id}", {"budget": 19}, "budget"),
        ("POST", "move-to-team", {"queue_id": "x"}, "target_team_id"),
        ("POST", "move-to-team", {"target_team_id": "x"}, "queue_id"),
        ("POST", "move-to-team", {"queue_id": "", "target_team_id": "x"}, "queue_id"),
    ):
        path = f"/v2/queue/{target.format(id=emulator.world.account().id)}"
        answer = await manage(emulator, method, path, body)
        assert (answer.status, answer.json["field"]) == (400, field), target
        assert emulator.image() == before, target


@with_emulator()
async def test_the_addresses_of_the_service_need_no_credentials(emulator: InProcess) -> None:
    answer = await emulator.get("/v2/queue/ipv4", token=None)
    assert (answer.status, answer.json) == (200, ["3.125.136.186/32", "18.198.95.233/32"])


@with_emulator()
async def test_a_suspended_account_is_refused_and_shows_its_transition_for_a_minute(emulator: InProcess) -> None:
    """D-029, D-166."""
    account_id = emulator.world.account().id
    answer = await emulator.control("PUT", f"/accounts/{account_id}", {"state": "suspended"})
    assert (answer.json["state"], answer.json["modifying_state"]) == ("suspended", "suspended")
    for method, target in (("POST", "/v2/publish/https://x.test"), ("GET", "/v2/queues")):
        refused = await emulator.call(method, target)
        assert (refused.status, refused.json) == (403, {"error": f"account {account_id} is suspended"})
    assert (await get(emulator, "/v2/queue/user"))["modifying_state"] == "suspended"
    await emulator.advance("59s")
    assert (await get(emulator, "/v2/queue/user"))["modifying_state"] == "suspended"
    await emulator.advance("1s")
    account = await get(emulator, "/v2/queue/user")
    assert account["state"] == "suspended"
    assert "modifying_state" not in account
    await emulator.control("PUT", f"/accounts/{account_id}", {"state": "active"})
    assert (await emulator.get("/v2/queues")).status == 200
    assert (await get(emulator, "/v2/queue/user"))["modifying_state"] == "active"
    await emulator.advance("1m")
    assert "modifying_state" not in await get(emulator, "/v2/queue/user")
