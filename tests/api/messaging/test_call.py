"""Mistaken names of headers and parameters are warned of, each once for a world (D-335)."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from emulator.wire.dialect import load
from emulator.wire.messaging.mistakes import mistake
from tests.harness.emulators import InProcess, in_process, with_emulator
from tests.harness.loops import on_loop

URL = "https://api.test/orders"
LOGGER = "emulator.api.messaging"


@with_emulator()
async def test_mistaken_names_are_warned_of_once_for_a_world(
    emulator: InProcess, caplog: pytest.LogCaptureFixture
) -> None:
    other = (await emulator.control("POST", "/worlds", {"id": "w"})).json["credentials"]["queue"]["token"]
    for token in (emulator.token, emulator.token, other):
        headers = {"Svc-Rtries": "1", "Upstash-X": "1s", "X-Request-Id": "7"}
        answer = await emulator.post(f"/v2/publish/{URL}?svc-dealy=1m&page=2", headers, token=token)
        assert answer.status == 200

    texts = [each.getMessage() for each in caplog.records if each.name == LOGGER]
    expected = [
        "Svc-Rtries: unknown, did you mean Svc-Retries?",
        "Upstash-X: is of the dialect upstash, this server speaks svc",
        "Svc-Dealy: unknown, did you mean Svc-Delay?",
    ]
    assert texts == [f"{text} (world {world})" for world in ("default", "w") for text in expected]


@with_emulator()
async def test_names_in_the_items_of_a_batch_are_looked_at(
    emulator: InProcess, caplog: pytest.LogCaptureFixture
) -> None:
    item = {"destination": URL, "headers": {"Svc-Lable": "a", "Scv-Delay": "1s", "X-Tenant": "7"}}
    assert (await emulator.post("/v2/batch", (), [item, item])).status == 200

    texts = [each.getMessage() for each in caplog.records if each.name == LOGGER]
    assert texts == [
        "Svc-Lable: unknown, did you mean Svc-Label? (world default)",
        "Scv-Delay: unknown, did you mean Svc-Delay? (world default)",
    ]


# -- the other dialect ------------------------------------------------------------------------

USERS = {
    "defaultUser": ("defaultPassword", "sig_7kYjw48mhY7kAjqNGcy6cr29RJ6r", "sig_5ZB6DVzB1wjE8S6rZ7eenA8Pdnhs"),
    "testUser1": ("testPassword", "sig_7GVPjvuwsfqF65iC8fSrs1dfYruM", "sig_5NoELc3EFnZn4DVS5bDs2Nk4b7Ua"),
    "testUser2": ("testPassword", "sig_6jWGaWRxHsw4vMSPJprXadyvrybF", "sig_7qHbvhmahe5GwfePDiS5Lg3pi6Qx"),
    "testUser3": ("testPassword", "sig_5T8FcSsynBjn9mMLBsXhpacRovJf", "sig_7GFR4YaDshFcqsxWRZpRB161jguD"),
}


def token_of(user: str) -> str:
    return base64.b64encode(f'{{"UserID":"{user}","Password":"{USERS[user][0]}"}}'.encode()).decode()


@with_emulator(dialect="upstash")
async def test_every_published_user_is_an_account_of_the_default_world(emulator: InProcess) -> None:
    """D-528."""
    for user, (_, current, following) in USERS.items():
        answer = await emulator.get("/v2/keys", token=token_of(user))
        assert (answer.status, answer.json) == (200, {"current": current, "next": following})
    await emulator.publish(URL)
    for user, expected in (("defaultUser", 3), ("testUser1", 0)):
        assert len((await emulator.get("/v2/events", token=token_of(user))).json["events"]) == expected
    other = (await emulator.control("POST", "/worlds", {"id": "w"})).json["credentials"]["queue"]["token"]
    assert other not in {token_of(user) for user in USERS}
    assert len(emulator.emulation.worlds.get("default").state.accounts) == 5
    assert len(emulator.emulation.worlds.get("w").state.accounts) == 2


@pytest.mark.parametrize(
    ("dialect", "name", "header"),
    [
        ("svc", "upstash", "Upstash-Delay"),
        ("svc", "upstash", "Upstash-Callback-Forward-X"),
        ("upstash", "svc", "svc-cron"),
    ],
)
@on_loop
async def test_options_of_another_dialect_are_refused(dialect: str, name: str, header: str) -> None:
    """D-529."""
    async with in_process(dialect=dialect) as emulator:
        item = {"destination": URL, "headers": {header: "1s"}}
        for answer in (
            await emulator.post(f"/v2/publish/{URL}", {header: "1s"}),
            await emulator.post(f"/v2/publish/{URL}?{header.lower()}=1s"),
            await emulator.post(f"/v2/enqueue/q/{URL}", {header: "1s"}),
            await emulator.post(f"/v2/trigger/{URL}", {header: "1s"}),
            # Without a cron expression of its own: what has the other name must not be taken for missing.
            await emulator.post(f"/v2/schedules/{URL}", {header: "1s"}),
        ):
            assert (answer.status, answer.json["field"]) == (400, header)
            assert f"start with --dialect {name}" in answer.json["error"]
        [refused] = (await emulator.post("/v2/batch", (), [item])).json
        assert refused["field"] == header
        assert await emulator.deliveries() == []
        harmless = {"Upstash-Telemetry-Sdk": "x", "Svc-Emulator-X": "1", header: " "}
        assert (await emulator.post(f"/v2/publish/{URL}", harmless)).status == 200
    async with in_process(dialect=dialect, foreign_options="ignore") as emulator:
        assert (await emulator.post(f"/v2/publish/{URL}", {header: "1s"})).status == 200
        assert len(await emulator.deliveries()) == 1


@with_emulator()
async def test_the_published_token_of_another_dialect_says_which_to_start(emulator: InProcess) -> None:
    """D-529."""
    for user in USERS:
        answer = await emulator.get("/v2/keys", token=token_of(user))
        assert answer.status == 401
        assert answer.json["error"].endswith("published by the dialect upstash: start with --dialect upstash")
        path = f"/v2/publish/https://app.test?qstash_token={token_of(user)}"
        answer = await emulator.call("POST", path, token=None)
        assert answer.status == 401
        assert answer.json["error"].endswith(
            "qstash_token is of the dialect upstash, this server speaks svc: start with --dialect upstash"
        )


@with_emulator()
async def test_a_base_url_with_the_path_of_publish_is_told(emulator: InProcess) -> None:
    """D-530."""
    for path in (f"/v2/publish/v2/publish/{URL}", "/v2/publish/v2/queues", "/v2/publish//v2/batch"):
        answer = await emulator.post(path)
        assert (answer.status, answer.json["field"]) == (400, "destination")
        assert "the base URL of the client has /v2/publish in it" in answer.json["error"]


@pytest.mark.parametrize(
    ("key", "variable", "name"),
    [
        pytest.param("sig_7RvLjqfZBvP5KEUimQCE1pvpLuou", "QSTASH_TOKEN", "upstash", id="earlier"),
        pytest.param("sig_7W3ZNbfKWk5NWwEs3U4ixuQ7fxwE", "SVC_TOKEN", "svc", id="earlier-elsewhere"),
        pytest.param("sig_7kYjw48mhY7kAjqNGcy6cr29RJ6r", "QSTASH_TOKEN", "upstash", id="today"),
    ],
)
@on_loop
async def test_a_published_signing_key_in_place_of_the_token_is_told(key: str, variable: str, name: str) -> None:
    """D-804."""
    async with in_process(dialect=name) as emulator:
        answer = await emulator.get("/v2/keys", token=key)
        assert answer.status == 401
        assert answer.json["error"].endswith(
            f"which is a signing key that receivers verify with, expected the token ({variable}): "
            "`svc-emulator env` prints the credentials"
        )
        [call] = (await emulator.control("GET", "/refused")).json["refused"]
        assert call["error"] == answer.json["error"]
        assert call["hint"].startswith("this is a signing key, with which receivers verify")


@on_loop
async def test_the_published_token_where_no_account_has_it_is_told(tmp_path: Path) -> None:
    """D-804."""
    fixtures = tmp_path / "fixtures.yaml"
    fixtures.write_text("accounts: [{token: mine}]", "utf-8")
    async with in_process(dialect="upstash", fixtures=str(fixtures)) as emulator:
        answer = await emulator.get("/v2/keys", token=token_of("defaultUser"))
        assert answer.status == 401
        assert answer.json["error"] == (
            "unable to authenticate: invalid token, which is published for local development, and no account here "
            "has it: `svc-emulator env` prints the credentials"
        )
        assert (await emulator.get("/v2/keys", token="mine")).status == 200


@with_emulator()
async def test_of_many_names_the_first_hundred_are_compared(emulator: InProcess) -> None:
    """D-810: each comparison takes half a millisecond, in which no other call is answered."""
    many = {f"svc-retires-{number}": "1" for number in range(900)}
    assert (await emulator.post(f"/v2/publish/{URL}", many)).status == 200
    assert len(emulator.world.seen_names) == 100

    items = [{"destination": URL, "headers": {f"svc-delai-{number}": "1"}} for number in range(300)]
    assert (await emulator.post("/v2/batch", body=json.dumps(items).encode())).status == 200
    assert len(emulator.world.seen_names) == 200

    query = "&".join(f"svc-mehtod-{number}=1" for number in range(300))
    assert (await emulator.post(f"/v2/publish/{URL}?{query}")).status == 200
    assert len(emulator.world.seen_names) == 300


@with_emulator()
async def test_the_hint_of_a_refused_call_names_a_hundred_mistakes_at_most(emulator: InProcess) -> None:
    """D-810."""
    many = {f"svc-retires-{number}": "1" for number in range(900)}
    assert (await emulator.call("GET", "/v2/messages/x", {**many, "Authorization": "Bearer x"})).status == 401
    [call] = (await emulator.control("GET", "/refused")).json["refused"]
    assert 90 < call["hint"].count("did you mean Svc-Retries?") <= 100


@with_emulator()
async def test_a_call_with_too_many_header_fields_is_refused_before_anything_else(emulator: InProcess) -> None:
    """D-810."""
    for path in ("/v2/messages/x", "/_emulator/clock", "/nowhere"):
        answer = await emulator.call("GET", path, {f"h{number}": "v" for number in range(1_001)})
        assert answer.status == 431
        assert answer.json["error"].startswith("expected at most 1000 header fields, got 1")
    assert len(emulator.world.seen_names) < 10


def test_a_name_that_is_longer_than_any_option_is_not_compared() -> None:
    """D-810."""
    assert mistake("svc-retires", load("svc")) == "Svc-Retires: unknown, did you mean Svc-Retries?"
    assert mistake(f"svc-retires{'s' * 80}", load("svc")) == f"Svc-Retires{'s' * 69}...: unknown"
    assert mistake("retires" * 1_000, load("svc")) is None
