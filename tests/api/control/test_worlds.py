"""Worlds whose maker chose their token, and control calls that name a world by its token."""

from __future__ import annotations

import pytest

from tests.harness.emulators import in_process
from tests.harness.loops import on_loop

TOKEN = "token-of-one-test"


def bearer(token: str, **more: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}", **{name.replace("_", "-"): value for name, value in more.items()}}


@on_loop
async def test_a_world_has_the_token_that_its_maker_chose() -> None:
    """D-432: everything that opens the account follows from it, whatever the world is called."""
    async with in_process() as emulator:
        credentials = []
        for world_id in ("one", "two"):
            made = await emulator.control("POST", "/worlds", {"id": world_id, "token": TOKEN})
            assert made.status == 201, made.body
            credentials.append(made.json["credentials"]["queue"])
            await emulator.control("DELETE", f"/worlds/{world_id}")
        assert credentials[0] == credentials[1]
        other = (await emulator.control("POST", "/worlds", {"token": f"{TOKEN}-2"})).json["credentials"]["queue"]
        assert (credentials[0]["token"], other["token"]) == (TOKEN, f"{TOKEN}-2")
        assert all(credentials[0][name] != other[name] for name in other)
        sent = await emulator.call("GET", "/v2/keys", bearer(f"{TOKEN}-2"), token=None)
        assert sent.json["current"] == other["current_signing_key"]


@on_loop
async def test_a_chosen_token_outlives_a_reset() -> None:
    async with in_process() as emulator:
        await emulator.control("POST", "/worlds", {"id": "one", "token": TOKEN})
        for body in ({}, {"fixtures": {"queues": [{"name": "mail"}]}}):
            reset = await emulator.control("POST", "/reset?world=one", body)
            assert reset.json["credentials"]["queue"]["token"] == TOKEN


@pytest.mark.parametrize("token", ["short", "with a blank", "", "ümlaut-token", "a" * 257, "mid=dle-token", 7, None])
@on_loop
async def test_an_ill_formed_token_is_named(token: object) -> None:
    async with in_process() as emulator:
        refused = await emulator.control("POST", "/worlds", {"id": "one", "token": token})
        assert (refused.status, refused.json["field"]) == (400, "token")
        assert (await emulator.control("GET", "/worlds/one")).status == 404


@on_loop
async def test_a_token_that_is_taken_or_given_twice_makes_no_world() -> None:
    async with in_process() as emulator:
        made = await emulator.control("POST", "/worlds", {"id": "one", "token": TOKEN})
        for taken in (TOKEN, emulator.world.account().token.rstrip("=")):
            refused = await emulator.control("POST", "/worlds", {"id": "two", "token": taken})
            assert refused.status == (409 if taken == TOKEN else 201), refused.body
        # Its read-only token is in use still, although its token is another one.
        account = made.json["credentials"]["queue"]["account_id"]
        await emulator.control("PUT", f"/accounts/{account}?world=one", {"token": "another-token"})
        refused = await emulator.control("POST", "/worlds", {"id": "three", "token": TOKEN})
        assert refused.status == 409
        assert refused.json["error"].startswith("token: the world one has this token, or what follows from it")
        twice = {"token": "free-token", "fixtures": {"accounts": [{"token": "fixed-token"}]}}
        refused = await emulator.control("POST", "/worlds", twice)
        assert (refused.status, refused.json["field"]) == (400, "token")


@on_loop
async def test_a_control_call_with_a_worlds_token_is_about_that_world() -> None:
    """D-433: the query precedes the token, and a token of nobody's names none."""
    async with in_process() as emulator:
        made = (await emulator.control("POST", "/worlds", {"id": "one", "token": TOKEN, "epoch": 1_000})).json
        await emulator.control("POST", "/worlds", {"id": "two", "epoch": 2_000})
        read_only = made["credentials"]["queue"]["read_only_token"]
        default_ms = (await emulator.control("GET", "/clock")).json["now_ms"]
        for token, query, expected in (
            (TOKEN, "", 1_000),
            (read_only, "", 1_000),
            (TOKEN, "?world=two", 2_000),
            (TOKEN, "?world=default", default_ms),
            ("nobody-has-this", "", default_ms),
        ):
            found = await emulator.control("GET", f"/clock{query}", headers=bearer(token))
            assert found.json["now_ms"] == expected, (token, query)
        await emulator.control("POST", "/clock/advance", {"by": 500}, headers=bearer(TOKEN))
        assert (await emulator.control("GET", "/worlds/one")).json["clock"]["now_ms"] == 1_500


@on_loop
async def test_a_control_token_has_its_own_header_beside_a_worlds_token() -> None:
    async with in_process(control_token="secret") as emulator:
        make = {"id": "one", "token": TOKEN, "epoch": 1_000}
        assert (await emulator.control("POST", "/worlds", make, headers=bearer(TOKEN))).status == 401
        both = bearer(TOKEN, Emulator_Control_Token="secret")
        assert (await emulator.control("POST", "/worlds", make, headers=both)).status == 201
        assert (await emulator.control("GET", "/clock", headers=both)).json["now_ms"] == 1_000
        assert (await emulator.control("GET", "/clock", headers=bearer("secret"))).json["now_ms"] != 1_000
        # The token of a world permits nothing, and neither does a wrong one beside the right one.
        for headers in (bearer(TOKEN), bearer("secret", Emulator_Control_Token="wrong"), {}):
            assert (await emulator.control("GET", "/clock", headers=headers)).status == 401


@on_loop
async def test_strict_mode_keeps_what_is_wrong_with_the_world_of_the_token() -> None:
    async with in_process(strict=True) as emulator:
        await emulator.control("POST", "/worlds", {"id": "one", "token": TOKEN})
        await emulator.control("GET", "/clock?wrold=one", headers=bearer(TOKEN))
        assert (await emulator.control("GET", "/mismatches?world=one")).json["mismatches"]
        assert not (await emulator.control("GET", "/mismatches")).json["mismatches"]
