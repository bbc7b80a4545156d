"""The management API in other dialects, and its routes."""

from __future__ import annotations

from tests.api.management.routes.calls import ACCOUNT_FIELDS, get, has_types, manage, post
from tests.harness.emulators import in_process
from tests.harness.loops import on_loop


@on_loop
async def test_the_upstash_dialect_renames_paths_fields_and_values() -> None:
    """D-174."""
    async with in_process(dialect="upstash") as emulator:
        account = await get(emulator, "/v2/qstash/user")
        expected = {
            {"metrics_enabled": "prometheus_enabled"}.get(name, name): kind for name, kind in ACCOUNT_FIELDS.items()
        }
        assert has_types(account, expected)
        assert account["reserved_type"] == "qstash_fixed_1m"
        account_id = account["id"]
        assert await get(emulator, f"/v2/qstash/user/{account_id}") == account
        assert len(await get(emulator, "/v2/qstash/users")) == 2
        statistics = await get(emulator, f"/v2/qstash/stats/{account_id}")
        assert "daily_qstash_messages" in statistics
        assert "daily_queue_messages" not in statistics
        plan = {"plan_name": "qstash_fixed_10m"}
        assert await post(emulator, f"/v2/qstash/set-plan/{account_id}", plan) == "OK"
        assert (await get(emulator, "/v2/qstash/user"))["reserved_type"] == "qstash_fixed_10m"
        move = {"qstash_id": account_id, "target_team_id": "t"}
        assert await post(emulator, "/v2/qstash/move-to-team", move) == "OK"
        index = (await get(emulator, "/v2/search"))[1]
        assert index["vercel_email"] == "integration@emulator.example"
        assert "integration_email" not in index
        assert (await emulator.get("/v2/qstash/ipv4", token=None)).status == 200
        for target in ("/v2/queue/user", f"/v2/queue/stats/{account_id}", "/v2/queue/ipv4"):
            assert (await manage(emulator, "GET", target)).status == 404
        refused = await manage(emulator, "POST", "/v2/qstash/move-to-team", {"target_team_id": "t"})
        assert refused.json["field"] == "qstash_id"


@on_loop
async def test_paths_take_any_case_and_a_slash_at_the_end() -> None:
    async with in_process() as emulator:
        index_id = emulator.world.credentials().search_index_ids[0]
        for target in ("/v2/Search/", "/v2/SEARCH", f"/v2/search/{index_id}/", "/v2/queue/users/", "/v2/Queue/User"):
            assert (await manage(emulator, "GET", target)).status == 200, target


@on_loop
async def test_the_queues_of_the_messaging_api_are_not_in_the_way() -> None:
    async with in_process() as emulator:
        await emulator.post("/v2/queues", {}, {"queueName": "user"})
        assert (await emulator.get("/v2/queues/user")).json["name"] == "user"
        assert (await get(emulator, "/v2/queue/user"))["id"] == emulator.world.account().id
