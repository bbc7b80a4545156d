"""The management API: its callers, dialects, statistics."""

from __future__ import annotations

import base64

from emulator.api.endpoint import PathEndpoint
from tests.api.management.routes.calls import BODY, CALLS, OPERATIONS, POINT, basic, get, manage, post
from tests.harness.emulators import InProcess, with_emulator

# -- who may call the management API ---------------------------------------------------------------


@with_emulator()
async def test_the_table_holds_every_operation(emulator: InProcess) -> None:
    found = {
        getattr(route, "path", ""): endpoint.methods
        for route in emulator.emulation.app.routes
        if isinstance(endpoint := getattr(route, "endpoint", None), PathEndpoint)
        and getattr(route, "path", "").startswith(("/v2/search", "/v2/vector", "/v2/queue/"))
    }
    assert found.pop("/v2/queue/ipv4") == ("GET",)
    assert found == {path: methods for path, (methods, _) in OPERATIONS.items()}


@with_emulator()
async def test_without_the_right_credentials_every_call_is_401_with_a_challenge(emulator: InProcess) -> None:
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


@with_emulator()
async def test_the_messaging_api_does_not_take_management_credentials(emulator: InProcess) -> None:
    answer = await manage(emulator, "GET", "/v2/queues")
    assert (answer.status, answer.headers["www-authenticate"]) == (401, "Bearer")


@with_emulator()
async def test_credentials_find_their_world_by_themselves(emulator: InProcess) -> None:
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


@with_emulator()
async def test_the_management_api_counts_no_calls(emulator: InProcess) -> None:
    """D-188."""
    account_id = emulator.world.account().id
    await emulator.control("PUT", f"/accounts/{account_id}", {"max_requests_per_second": 1})
    for _ in range(3):
        assert (await get(emulator, "/v2/queue/user"))["max_requests_per_second"] == 1


@with_emulator()
async def test_what_no_world_has_is_404_and_nothing_changes(emulator: InProcess) -> None:
    before = emulator.image()
    for method, target in CALLS:
        if "nope" in target or target.endswith("move-to-team"):
            answer = await manage(emulator, method, target, BODY)
            assert answer.status == 404, (method, target, answer.body)
            assert "nope not found" in answer.json["error"]
    assert emulator.image() == before


@with_emulator()
async def test_another_method_is_405(emulator: InProcess) -> None:
    for methods, target in OPERATIONS.values():
        answer = await manage(emulator, "PUT", target, BODY)
        assert (answer.status, answer.headers["allow"]) == (405, ", ".join(methods))


@with_emulator()
async def test_a_client_that_excludes_json_is_406(emulator: InProcess) -> None:
    """D-175."""
    for method, target in [*CALLS, ("GET", "/v2/queue/ipv4")]:
        answer = await manage(emulator, method, target, BODY, [("Accept", "application/xml")])
        assert (answer.status, answer.json.keys()) == (406, {"error"}), (method, target)
    assert len(await get(emulator, "/v2/search")) == 4
    assert (await manage(emulator, "GET", "/v2/search", b"", [("Accept", "text/*, */*;q=0.1")])).status == 200


# -- the management API in other dialects, and its routes ------------------------------------------


@with_emulator(dialect="upstash")
async def test_the_upstash_dialect_renames_paths_fields_and_values(emulator: InProcess) -> None:
    """D-174."""
    account = await get(emulator, "/v2/qstash/user")
    assert account["prometheus_enabled"] == "false"
    assert "metrics_enabled" not in account
    assert account["reserved_type"] == "qstash_fixed_1m"
    account_id = account["id"]
    assert await get(emulator, f"/v2/qstash/user/{account_id}") == account
    # Two of the built-in fixtures, and three more published users of the dialect (D-528).
    assert len(await get(emulator, "/v2/qstash/users")) == 5
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


@with_emulator()
async def test_paths_take_any_case_and_a_slash_at_the_end(emulator: InProcess) -> None:
    index_id = emulator.world.credentials().search_index_ids[0]
    for target in ("/v2/Search/", "/v2/SEARCH", f"/v2/search/{index_id}/", "/v2/queue/users/", "/v2/Queue/User"):
        assert (await manage(emulator, "GET", target)).status == 200, target


@with_emulator()
async def test_the_queues_of_the_messaging_api_are_not_in_the_way(emulator: InProcess) -> None:
    await emulator.post("/v2/queues", {}, {"queueName": "user"})
    assert (await emulator.get("/v2/queues/user")).json["name"] == "user"
    assert (await get(emulator, "/v2/queue/user"))["id"] == emulator.world.account().id


# -- statistics by HTTP ----------------------------------------------------------------------------


@with_emulator()
async def test_statistics_answer_for_every_period_and_name_a_wrong_one(emulator: InProcess) -> None:
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


@with_emulator()
async def test_summaries_of_all_indexes(emulator: InProcess) -> None:
    fields = {"record_count", "request", "bandwidth", "storage", "billing", "rerank_count"}
    for path in ("/v2/search/stats", "/v2/vector/index/stats"):
        found = await get(emulator, path)
        assert found.keys() == fields
        assert all(isinstance(value, int | float) and value >= 0 for value in found.values()), found
        assert found["record_count"] > 0
