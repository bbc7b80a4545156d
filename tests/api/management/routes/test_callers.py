"""Who may call the management API."""

from __future__ import annotations

import base64

from emulator.api.endpoint import Endpoint
from tests.api.management.routes.calls import BODY, CALLS, OPERATIONS, basic, get, manage
from tests.harness.emulators import in_process
from tests.harness.loops import on_loop


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
