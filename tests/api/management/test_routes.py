"""The management API: every operation, its fields and enums, who may call it, and what is wrong input."""

from __future__ import annotations

import base64
import re
from pathlib import Path
from typing import Any

import pytest

from emulator.api.endpoint import Endpoint
from tests.harness.emulators import EPOCH_MS, Answer, Headers, InProcess, in_process
from tests.harness.loops import on_loop

GOOD = {"name": "mySearchIndex", "region": "eu-west-1", "type": "payg"}
NO_TEXTS: tuple[object, ...] = (None, 7, True, ["x"], {}, "")
SEARCH_FIELDS = {
    "customer_id": str,
    "id": str,
    "name": str,
    "endpoint": str,
    "type": str,
    "region": str,
    "integration_email": str,
    "token": str,
    "read_only_token": str,
    "max_vector_count": int,
    "max_monthly_reranks": int,
    "max_daily_updates": int,
    "max_daily_queries": int,
    "max_monthly_bandwidth": int,
    "max_writes_per_second": int,
    "max_query_per_second": int,
    "max_reads_per_request": int,
    "max_writes_per_request": int,
    "creation_time": int,
    "input_enrichment_enabled": bool,
    "throughput_vector": list,
}
ACCOUNT_FIELDS = {
    "customer_id": str,
    "id": str,
    "password": str,
    "token": str,
    "read_only_token": str,
    "active": bool,
    "state": str,
    "last_plan_upgrade_time": int,
    "max_message_size": int,
    "max_requests_per_day": int,
    "max_requests_per_day_hard": int,
    "max_endpoints_per_topic": int,
    "max_requests_per_second": int,
    "max_dlq_size": int,
    "max_completion_tokens_per_day": int,
    "max_completion_tokens_per_minute": int,
    "max_completions_per_day": int,
    "max_completions_per_minute": int,
    "max_retries": int,
    "max_topics": int,
    "max_schedules": int,
    "max_events_size": int,
    "max_dlq_retention_time_milis": int,
    "max_delay": int,
    "max_parallelism": int,
    "max_global_parallelism": int,
    "max_queues": int,
    "retention": int,
    "timeout": int,
    "rate_limit": int,
    "type": str,
    "reserved_type": str,
    "reserved_price": (int, float),
    "prod_pack_enabled": bool,
    "metrics_enabled": str,
    "region": str,
    "budget": int,
    "created_by": str,
    "creation_time": int,
}
UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
POINT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3,9} \+0000 UTC")

# Every operation: route, methods, and a target whose subject does not exist where it names one.
OPERATIONS = {
    "/v2/search": (("GET", "POST"), "/v2/search"),
    "/v2/search/stats": (("GET",), "/v2/search/stats"),
    "/v2/search/{name}": (("GET", "DELETE"), "/v2/search/nope"),
    "/v2/search/{name}/stats": (("GET",), "/v2/search/nope/stats"),
    "/v2/search/{name}/reset-password": (("POST",), "/v2/search/nope/reset-password"),
    "/v2/search/{name}/transfer": (("POST",), "/v2/search/nope/transfer"),
    "/v2/search/{name}/rename": (("POST",), "/v2/search/nope/rename"),
    "/v2/vector/index/stats": (("GET",), "/v2/vector/index/stats"),
    "/v2/vector/index/{name}/stats": (("GET",), "/v2/vector/index/nope/stats"),
    "/v2/queue/user": (("GET",), "/v2/queue/user"),
    "/v2/queue/users": (("GET",), "/v2/queue/users"),
    "/v2/queue/user/{name}": (("GET",), "/v2/queue/user/nope"),
    "/v2/queue/stats/{name}": (("GET",), "/v2/queue/stats/nope"),
    "/v2/queue/rotate-token/{name}": (("POST",), "/v2/queue/rotate-token/nope"),
    "/v2/queue/set-plan/{name}": (("POST",), "/v2/queue/set-plan/nope"),
    "/v2/queue/update-budget/{name}": (("PATCH",), "/v2/queue/update-budget/nope"),
    "/v2/queue/move-to-team": (("POST",), "/v2/queue/move-to-team"),
    "/v2/queue/enable-prodpack/{name}": (("POST",), "/v2/queue/enable-prodpack/nope"),
    "/v2/queue/disable-prodpack/{name}": (("POST",), "/v2/queue/disable-prodpack/nope"),
}
CALLS = [(method, target) for methods, target in OPERATIONS.values() for method in methods]
# A body that is right for every operation at once.
BODY = {**GOOD, "target_account": "x", "plan_name": "paid", "budget": 20, "queue_id": "nope", "target_team_id": "t"}


def basic(login: tuple[str, str]) -> tuple[str, str]:
    return ("Authorization", "Basic " + base64.b64encode(":".join(login).encode()).decode())


async def manage(
    emulator: InProcess,
    method: str,
    target: str,
    body: object = b"",
    headers: Headers = (),
    *,
    world: str = "default",
) -> Answer:
    """A management call of the owner of a world."""
    login = emulator.emulation.worlds.get(world).login
    pairs = [*(headers.items() if isinstance(headers, dict) else headers), basic(login)]
    return await emulator.call(method, target, pairs, body, token=None)


async def get(emulator: InProcess, target: str) -> Any:
    answer = await manage(emulator, "GET", target)
    assert answer.status == 200, answer.body
    assert answer.headers["content-type"] == "application/json"
    return answer.json


async def post(emulator: InProcess, target: str, body: object = b"") -> Any:
    answer = await manage(emulator, "POST", target, body)
    assert answer.status == 200, answer.body
    return answer.json


def has_types(record: dict[str, Any], fields: dict[str, Any]) -> bool:
    """Whether a record has exactly these fields, with a boolean where and only where one is expected."""
    return record.keys() == fields.keys() and all(
        isinstance(record[name], kind) and isinstance(record[name], bool) == (kind is bool)
        for name, kind in fields.items()
    )


# -- who may call -----------------------------------------------------------------------------


@on_loop
async def test_the_table_holds_every_operation() -> None:
    async with in_process() as emulator:
        found = {
            getattr(route, "path", ""): endpoint.methods
            for route in emulator.emulation.app.routes
            if isinstance(endpoint := getattr(route, "endpoint", None), Endpoint)
            and getattr(route, "path", "").startswith(("/v2/search", "/v2/vector", "/v2/queue/"))
        }
    assert found.pop("/v2/queue/ipv4") == ("GET",)
    assert found == {path: methods for path, (methods, _) in OPERATIONS.items()}


@on_loop
async def test_without_the_right_credentials_every_call_is_401_with_a_challenge() -> None:
    async with in_process() as emulator:
        before = emulator.image()
        username, password = emulator.world.login
        wrong: list[list[tuple[str, str]]] = [
            [],
            [basic((username, "wrong"))],
            [basic(("nobody@emulator.example", password))],
            [basic((password, username))],
            [("Authorization", "Basic !!!")],
            [("Authorization", f"Basic {base64.b64encode(b'no colon').decode()}")],
            [("Authorization", f"Bearer {emulator.token}")],
            [("Authorization", f"Bearer {basic(emulator.world.login)[1]}")],
            [basic((emulator.token, ""))],
        ]
        for method, target in CALLS:
            for headers in wrong:
                answer = await emulator.call(method, target, headers, BODY, token=None)
                assert answer.status == 401, (method, target, headers)
                assert answer.headers["www-authenticate"].startswith('Basic realm="')
                assert answer.json.keys() == {"error"}
        assert emulator.image() == before


@on_loop
async def test_the_messaging_api_does_not_take_management_credentials() -> None:
    async with in_process() as emulator:
        answer = await manage(emulator, "GET", "/v2/queues")
        assert (answer.status, answer.headers["www-authenticate"]) == (401, "Bearer")


@on_loop
async def test_credentials_find_their_world_by_themselves() -> None:
    async with in_process() as emulator:
        created = (await emulator.control("POST", "/worlds", {"id": "other"})).json
        login = created["credentials"]["management"]
        assert (login["username"], login["password"]) == emulator.emulation.worlds.get("other").login
        theirs = (await manage(emulator, "GET", "/v2/search", world="other")).json
        assert [index["id"] for index in theirs] == created["credentials"]["search_index_ids"]
        account_id = created["credentials"]["queue"]["account_id"]
        vector_id = created["credentials"]["vector_index_ids"][0]
        for target in (
            f"/v2/search/{theirs[0]['id']}",
            f"/v2/search/{theirs[0]['id']}/stats",
            f"/v2/vector/index/{vector_id}/stats",
            f"/v2/queue/user/{account_id}",
            f"/v2/queue/stats/{account_id}",
        ):
            assert (await manage(emulator, "GET", target, world="other")).status == 200, target
            answer = await manage(emulator, "GET", target)
            assert (answer.status, answer.json.keys()) == (404, {"error"}), target


@on_loop
async def test_the_management_api_counts_no_calls() -> None:
    """D-188."""
    async with in_process() as emulator:
        account_id = emulator.world.account().id
        await emulator.control("PUT", f"/accounts/{account_id}", {"max_requests_per_second": 1})
        for _ in range(3):
            assert (await get(emulator, "/v2/queue/user"))["max_requests_per_second"] == 1


@on_loop
async def test_what_no_world_has_is_404_and_nothing_changes() -> None:
    async with in_process() as emulator:
        before = emulator.image()
        for method, target in CALLS:
            if "nope" in target or target.endswith("move-to-team"):
                answer = await manage(emulator, method, target, BODY)
                assert answer.status == 404, (method, target, answer.body)
                assert "nope not found" in answer.json["error"]
        assert emulator.image() == before


@on_loop
async def test_another_method_is_405() -> None:
    async with in_process() as emulator:
        for methods, target in OPERATIONS.values():
            answer = await manage(emulator, "PUT", target, BODY)
            assert (answer.status, answer.headers["allow"]) == (405, ", ".join(methods))


@on_loop
async def test_a_client_that_excludes_json_is_406() -> None:
    """D-175."""
    async with in_process() as emulator:
        for method, target in [*CALLS, ("GET", "/v2/queue/ipv4")]:
            answer = await manage(emulator, method, target, BODY, [("Accept", "application/xml")])
            assert (answer.status, answer.json.keys()) == (406, {"error"}), (method, target)
        assert len(await get(emulator, "/v2/search")) == 4
        assert (await manage(emulator, "GET", "/v2/search", b"", [("Accept", "text/*, */*;q=0.1")])).status == 200


# -- search indexes ---------------------------------------------------------------------------


@on_loop
async def test_a_search_index_has_every_field_in_its_type() -> None:
    async with in_process() as emulator:
        indexes = await get(emulator, "/v2/search")
        assert [(index["name"], index["type"], index["region"]) for index in indexes] == [
            ("product-search", "payg", "eu-west-1"),
            ("docs-search", "payg", "us-central1"),
            ("blog-search", "free", "us-central1"),
            ("prototype-search", "free", "eu-west-1"),
        ]
        for index in indexes:
            assert has_types(index, SEARCH_FIELDS), index
            assert UUID.fullmatch(index["id"])
            assert await get(emulator, f"/v2/search/{index['id']}") == index
            assert len(index["throughput_vector"]) == 60
            assert all(POINT.fullmatch(point["x"]) and point["y"] >= 0 for point in index["throughput_vector"])
        assert [index["id"] for index in indexes] == list(emulator.world.credentials().search_index_ids)


@on_loop
async def test_a_search_index_is_created() -> None:
    async with in_process() as emulator:
        await emulator.advance("1h")
        created = await post(emulator, "/v2/search", {**GOOD, "color": "red"})
        assert has_types(created, SEARCH_FIELDS)
        assert {key: created[key] for key in GOOD} == GOOD
        assert created["creation_time"] == EPOCH_MS // 1000 + 3600
        assert created["customer_id"] == "default@emulator.example"
        assert created["integration_email"] == ""
        assert all(point["y"] == 0 for point in created["throughput_vector"])
        assert (await get(emulator, "/v2/search"))[-1] == created
        assert await get(emulator, f"/v2/search/{created['id']}") == created
        assert created["id"] in emulator.world.credentials().search_index_ids


@pytest.mark.parametrize("region", ["eu-west-1", "us-central1"])
@pytest.mark.parametrize("type_", ["free", "payg"])
@on_loop
async def test_every_available_type_and_region_can_be_created(type_: str, region: str) -> None:
    async with in_process() as emulator:
        created = await post(emulator, "/v2/search", {"name": "n", "region": region, "type": type_})
        assert (created["type"], created["region"]) == (type_, region)


@on_loop
async def test_two_indexes_may_have_one_name() -> None:
    """D-187."""
    async with in_process() as emulator:
        first, second = await post(emulator, "/v2/search", GOOD), await post(emulator, "/v2/search", GOOD)
        assert first["name"] == second["name"]
        assert first["id"] != second["id"]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        *(({key: value for key, value in GOOD.items() if key != name}, name) for name in GOOD),
        *(({**GOOD, name: value}, name) for name in GOOD for value in NO_TEXTS),
        ({**GOOD, "name": "x" * 257}, "name"),
        ({**GOOD, "region": "us-east-1"}, "region"),
        ({**GOOD, "type": "fixed"}, "type"),
        ({**GOOD, "type": "pro"}, "type"),
        (b"", "body"),
        (b"{", "body"),
        (b"[]", "body"),
        (b'{"name": "\xff"}', "body"),
    ],
)
@on_loop
async def test_wrong_input_on_create_is_400_and_names_the_field(body: object, field: str) -> None:
    async with in_process() as emulator:
        before = emulator.image()
        answer = await manage(emulator, "POST", "/v2/search", body)
        assert (answer.status, answer.json["field"]) == (400, field)
        assert answer.json["error"].startswith(f"{field}: ")
        assert answer.json.keys() == {"error", "field"}
        assert emulator.image() == before


@on_loop
async def test_a_body_of_another_content_type_is_400() -> None:
    """D-175."""
    async with in_process() as emulator:
        for content_type, status in (
            ("text/plain", 400),
            ("application/x-www-form-urlencoded", 400),
            ("application/json; charset=utf-8", 200),
            ("", 200),
        ):
            answer = await manage(emulator, "POST", "/v2/search", GOOD, [("Content-Type", content_type)])
            assert answer.status == status, content_type
            if status == 400:
                assert answer.json["field"] == "Content-Type"
        # Clients send the header with every call, and a call without a body says nothing with it.
        assert (await manage(emulator, "GET", "/v2/search", b"", [("Content-Type", "text/plain")])).status == 200


@on_loop
async def test_an_index_is_renamed_transferred_given_new_tokens_and_deleted() -> None:
    """D-167."""
    async with in_process() as emulator:
        index = (await get(emulator, "/v2/search"))[0]
        path = f"/v2/search/{index['id']}"
        assert await post(emulator, f"{path}/rename", {"name": "new name"}) == "OK"
        assert await post(emulator, f"{path}/transfer", {"target_account": "you@example.com"}) == "OK"
        changed = await post(emulator, f"{path}/reset-password")
        assert has_types(changed, SEARCH_FIELDS)
        assert (changed["name"], changed["customer_id"]) == ("new name", "you@example.com")
        assert len({index["token"], index["read_only_token"], changed["token"], changed["read_only_token"]}) == 4
        assert await get(emulator, path) == changed
        deleted = await manage(emulator, "DELETE", path)
        assert (deleted.status, deleted.body) == (200, b'"OK"')
        assert (await manage(emulator, "GET", path)).status == 404
        assert (await manage(emulator, "DELETE", path)).status == 404
        assert len(await get(emulator, "/v2/search")) == 3
        assert index["id"] not in emulator.world.credentials().search_index_ids


@pytest.mark.parametrize(
    ("action", "body", "field"),
    [
        ("rename", {}, "name"),
        ("rename", {"name": ""}, "name"),
        ("rename", {"name": "x" * 257}, "name"),
        ("rename", {"name": 7}, "name"),
        ("transfer", {}, "target_account"),
        ("transfer", {"target_account": None}, "target_account"),
        ("transfer", b"nope", "body"),
    ],
)
@on_loop
async def test_wrong_input_on_rename_and_transfer_is_named(action: str, body: object, field: str) -> None:
    async with in_process() as emulator:
        index_id = emulator.world.credentials().search_index_ids[0]
        answer = await manage(emulator, "POST", f"/v2/search/{index_id}/{action}", body)
        assert (answer.status, answer.json["field"]) == (400, field)


# -- queue accounts ---------------------------------------------------------------------------


@on_loop
async def test_an_account_has_every_field_in_its_type() -> None:
    async with in_process() as emulator:
        accounts = await get(emulator, "/v2/queue/users")
        assert [(account["type"], account["reserved_type"], account["region"]) for account in accounts] == [
            ("paid", "queue_fixed_1m", "us-east-1"),
            ("free", "", "eu-central-1"),
        ]
        for account in accounts:
            assert has_types(account, ACCOUNT_FIELDS), account
            assert UUID.fullmatch(account["id"])
            assert account["metrics_enabled"] == "false"
            assert await get(emulator, f"/v2/queue/user/{account['id']}") == account
        own = await get(emulator, "/v2/queue/user")
        assert own == accounts[0]
        assert (own["id"], own["token"]) == (emulator.world.account().id, emulator.token)


@on_loop
async def test_the_plan_of_the_settings_is_that_of_the_first_account() -> None:
    async with in_process(plan="free") as emulator:
        assert [each["type"] for each in await get(emulator, "/v2/queue/users")] == ["free", "free"]


@on_loop
async def test_optional_fields_of_an_account_show_only_while_they_apply() -> None:
    """D-031."""
    async with in_process() as emulator:
        account_id = emulator.world.account().id
        await emulator.control("PUT", f"/accounts/{account_id}", {"enterprise": {"enabled": True}})
        assert (await get(emulator, "/v2/queue/user"))["enterprise"] == {"enabled": True}
        assert "modifying_state" not in await get(emulator, "/v2/queue/user")


@on_loop
async def test_a_rotated_token_works_and_the_old_one_ends_at_once() -> None:
    """D-162."""
    async with in_process() as emulator:
        old = await get(emulator, "/v2/queue/user")
        assert (await emulator.get("/v2/queues")).status == 200
        new = await post(emulator, f"/v2/queue/rotate-token/{old['id']}")
        assert has_types(new, ACCOUNT_FIELDS)
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


@on_loop
async def test_the_limits_of_a_new_plan_hold_at_once() -> None:
    """D-160, D-163."""
    async with in_process(plan="free") as emulator:
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


@on_loop
async def test_budget_production_pack_and_team_are_recorded() -> None:
    """D-164."""
    async with in_process() as emulator:
        account_id = emulator.world.account().id
        answer = await manage(emulator, "PATCH", f"/v2/queue/update-budget/{account_id}", {"budget": 360})
        assert (answer.status, answer.json) == (200, "OK")
        assert await post(emulator, f"/v2/queue/enable-prodpack/{account_id}") == "OK"
        assert (
            await post(emulator, "/v2/queue/move-to-team", {"queue_id": account_id, "target_team_id": "team-7"}) == "OK"
        )
        account = await get(emulator, "/v2/queue/user")
        assert (account["budget"], account["prod_pack_enabled"], account["customer_id"]) == (360, True, "team-7")
        assert await post(emulator, f"/v2/queue/disable-prodpack/{account_id}") == "OK"
        assert (await get(emulator, "/v2/queue/user"))["prod_pack_enabled"] is False


@pytest.mark.parametrize(
    ("method", "target", "body", "field"),
    [
        ("POST", "set-plan/{id}", {}, "plan_name"),
        ("POST", "set-plan/{id}", {"plan_name": "free"}, "plan_name"),
        ("POST", "set-plan/{id}", {"plan_name": 1}, "plan_name"),
        ("PATCH", "update-budget/{id}", {}, "budget"),
        ("PATCH", "update-budget/{id}", {"budget": 19}, "budget"),
        ("PATCH", "update-budget/{id}", {"budget": 10_001}, "budget"),
        ("PATCH", "update-budget/{id}", {"budget": "20"}, "budget"),
        ("POST", "move-to-team", {"queue_id": "x"}, "target_team_id"),
        ("POST", "move-to-team", {"target_team_id": "x"}, "queue_id"),
        ("POST", "move-to-team", {"queue_id": "", "target_team_id": "x"}, "queue_id"),
    ],
)
@on_loop
async def test_wrong_input_about_an_account_is_named(method: str, target: str, body: object, field: str) -> None:
    async with in_process() as emulator:
        before = emulator.image()
        path = f"/v2/queue/{target.format(id=emulator.world.account().id)}"
        answer = await manage(emulator, method, path, body)
        assert (answer.status, answer.json["field"]) == (400, field)
        assert emulator.image() == before


@on_loop
async def test_the_addresses_of_the_service_need_no_credentials() -> None:
    async with in_process() as emulator:
        answer = await emulator.get("/v2/queue/ipv4", token=None)
        assert (answer.status, answer.json) == (200, ["3.125.136.186/32", "18.198.95.233/32"])


@on_loop
async def test_a_suspended_account_is_refused_and_shows_its_transition_for_a_minute() -> None:
    """D-029, D-166."""
    async with in_process() as emulator:
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


@on_loop
async def test_what_was_changed_outlives_a_restart(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"db": str(tmp_path / "state.db")}
    async with in_process(**settings) as emulator:
        account_id = emulator.world.account().id
        created = await post(emulator, "/v2/search", GOOD)
        rotated = await post(emulator, f"/v2/queue/rotate-token/{account_id}")
        await emulator.control("PUT", f"/accounts/{account_id}", {"state": "suspended"})
        image = emulator.image()
    async with in_process(**settings) as emulator:
        assert emulator.image() == image
        assert await get(emulator, f"/v2/search/{created['id']}") == created
        assert (await emulator.get("/v2/queues", token=rotated["token"])).status == 403
        await emulator.advance("1m")
        assert "modifying_state" not in await get(emulator, "/v2/queue/user")


# -- statistics -------------------------------------------------------------------------------


@on_loop
async def test_statistics_answer_for_every_period_and_name_a_wrong_one() -> None:
    async with in_process() as emulator:
        credentials = emulator.world.credentials()
        for path, series in (
            (f"/v2/queue/stats/{credentials.account_id}", "daily_used"),
            (f"/v2/vector/index/{credentials.vector_index_ids[0]}/stats", "vector_count"),
            (f"/v2/search/{credentials.search_index_ids[0]}/stats", "vector_count"),
        ):
            default = await get(emulator, path)
            assert default == await get(emulator, f"{path}?period=1h")
            for period in ("1h", "3h", "12h", "1d", "3d", "7d", "30d"):
                points = (await get(emulator, f"{path}?period={period}"))[series]
                assert len(points) == (240 if period == "30d" else 60)
                assert all(POINT.fullmatch(point["x"]) for point in points)
            for wrong in ("2h", "1H", "60", "1h "):
                answer = await manage(emulator, "GET", f"{path}?period={wrong.replace(' ', '%20')}")
                assert (answer.status, answer.json["field"]) == (400, "period"), wrong


@on_loop
async def test_summaries_of_all_indexes() -> None:
    async with in_process() as emulator:
        fields = {"record_count", "request", "bandwidth", "storage", "billing", "rerank_count"}
        for path in ("/v2/search/stats", "/v2/vector/index/stats"):
            found = await get(emulator, path)
            assert found.keys() == fields
            assert all(isinstance(value, int | float) and value >= 0 for value in found.values()), found
            assert found["record_count"] > 0


# -- dialects and routes ----------------------------------------------------------------------


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
