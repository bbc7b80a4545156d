"""Search indexes by HTTP."""

from __future__ import annotations

from tests.api.management.routes.calls import GOOD, POINT, UUID, get, manage, post
from tests.harness.emulators import EPOCH_MS, InProcess, with_emulator


@with_emulator()
async def test_search_indexes_are_listed_and_read(emulator: InProcess) -> None:
    indexes = await get(emulator, "/v2/search")
    assert [(index["name"], index["type"], index["region"]) for index in indexes] == [
        ("product-search", "payg", "eu-west-1"),
        ("docs-search", "payg", "us-central1"),
        ("blog-search", "free", "us-central1"),
        ("prototype-search", "free", "eu-west-1"),
    ]
    for index in indexes:
        assert UUID.fullmatch(index["id"])
        assert await get(emulator, f"/v2/search/{index['id']}") == index
        assert len(index["throughput_vector"]) == 60
        assert all(POINT.fullmatch(point["x"]) and point["y"] >= 0 for point in index["throughput_vector"])
    assert [index["id"] for index in indexes] == list(emulator.world.credentials().search_index_ids)


@with_emulator()
async def test_a_search_index_is_created(emulator: InProcess) -> None:
    await emulator.advance("1h")
    created = await post(emulator, "/v2/search", {**GOOD, "color": "red"})
    assert {key: created[key] for key in GOOD} == GOOD
    assert created["creation_time"] == EPOCH_MS // 1000 + 3600
    assert created["customer_id"] == "default@emulator.example"
    assert created["integration_email"] == ""
    assert all(point["y"] == 0 for point in created["throughput_vector"])
    assert (await get(emulator, "/v2/search"))[-1] == created
    assert await get(emulator, f"/v2/search/{created['id']}") == created
    assert created["id"] in emulator.world.credentials().search_index_ids


@with_emulator()
async def test_two_indexes_may_have_one_name(emulator: InProcess) -> None:
    """D-187."""
    first, second = await post(emulator, "/v2/search", GOOD), await post(emulator, "/v2/search", GOOD)
    assert first["name"] == second["name"]
    assert first["id"] != second["id"]


@with_emulator()
async def test_wrong_input_on_create_is_400_and_names_the_field(emulator: InProcess) -> None:
    before = emulator.image()
    for body, field in (
        *(({key: value for key, value in GOOD.items() if key != name}, name) for name in GOOD),
        (GOOD | {"name": "x" * 257}, "name"),
        (GOOD | {"type": "fixed"}, "type"),
        (b"{", "body"),
        (b'{"name": "\xff"}', "body"),
    ):
        answer = await manage(emulator, "POST", "/v2/search", body)
        assert (answer.status, answer.json["field"]) == (400, field), body
        assert answer.json["error"].startswith(f"{field}: "), body
        assert answer.json.keys() == {"error", "field"}, body
        assert emulator.image() == before, body


@with_emulator()
async def test_a_body_of_another_content_type_is_400(emulator: InProcess) -> None:
    """D-175."""
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


@with_emulator()
async def test_an_index_is_renamed_transferred_given_new_tokens_and_deleted(emulator: InProcess) -> None:
    """D-167."""
    index = (await get(emulator, "/v2/search"))[0]
    path = f"/v2/search/{index['id']}"
    assert await post(emulator, f"{path}/rename", {"name": "new name"}) == "OK"
    assert await post(emulator, f"{path}/transfer", {"target_account": "you@example.com"}) == "OK"
    changed = await post(emulator, f"{path}/reset-password")
    assert (changed["name"], changed["customer_id"]) == ("new name", "you@example.com")
    assert len({index["token"], index["read_only_token"], changed["token"], changed["read_only_token"]}) == 4
    assert await get(emulator, path) == changed
    deleted = await manage(emulator, "DELETE", path)
    assert (deleted.status, deleted.body) == (200, b'"OK"')
    assert (await manage(emulator, "GET", path)).status == 404
    assert (await manage(emulator, "DELETE", path)).status == 404
    assert len(await get(emulator, "/v2/search")) == 3
    assert index["id"] not in emulator.world.credentials().search_index_ids


@with_emulator()
async def test_wrong_input_on_rename_and_transfer_is_named(emulator: InProcess) -> None:
    index_id = emulator.world.credentials().search_index_ids[0]
    for action, body, field in (
        ("rename", {}, "name"),
        ("rename", {"name": ""}, "name"),
        ("rename", {"name": 7}, "name"),
        ("rename", {"name": "x" * 257}, "name"),
        ("transfer", {}, "target_account"),
        ("transfer", {"target_account": None}, "target_account"),
        ("transfer", b"nope", "body"),
    ):
        answer = await manage(emulator, "POST", f"/v2/search/{index_id}/{action}", body)
        assert (answer.status, answer.json["field"]) == (400, field), action
