"""Worlds whose maker chose their token, control calls that name a world by its token, and forks."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec import to_builtins
from msgspec.structs import replace

from emulator.control.worlds import read_reset, read_snapshot_name, read_world, snapshot_view
from emulator.core.errors import InvalidInput
from emulator.core.model.resources import Plan
from emulator.core.world_setup import WorldSetup
from emulator.queries.reports import Snapshot
from emulator.wire.json_reader import Json
from tests.harness.emulators import InProcess, in_process, with_emulator
from tests.harness.loops import on_loop

TOKEN = "token-of-one-test"


def bearer(token: str, **more: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}", **{name.replace("_", "-"): value for name, value in more.items()}}


@with_emulator()
async def test_a_world_has_the_token_that_its_maker_chose(emulator: InProcess) -> None:
    """D-432: everything that opens the account follows from it, whatever the world is called."""
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


@with_emulator()
async def test_a_chosen_token_outlives_a_reset(emulator: InProcess) -> None:
    await emulator.control("POST", "/worlds", {"id": "one", "token": TOKEN})
    for body in ({}, {"fixtures": {"queues": [{"name": "mail"}]}}):
        reset = await emulator.control("POST", "/reset?world=one", body)
        assert reset.json["credentials"]["queue"]["token"] == TOKEN


@pytest.mark.parametrize(
    "token", ["short", "with a blank", "", "ümlaut-token", "a" * 257, "mid=dle-token", "half-\ud800", 7, None]
)
@with_emulator()
async def test_an_ill_formed_token_is_named(emulator: InProcess, token: object) -> None:
    refused = await emulator.control("POST", "/worlds", {"id": "one", "token": token})
    assert (refused.status, refused.json["field"]) == (400, "token")
    assert (await emulator.control("GET", "/worlds/one")).status == 404


@with_emulator()
async def test_a_token_that_is_taken_or_given_twice_makes_no_world(emulator: InProcess) -> None:
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


@with_emulator()
async def test_a_control_call_with_a_worlds_token_is_about_that_world(emulator: InProcess) -> None:
    """D-433: the query precedes the token, and a token of nobody's names none."""
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


@with_emulator(control_token="secret")
async def test_a_control_token_has_its_own_header_beside_a_worlds_token(emulator: InProcess) -> None:
    make = {"id": "one", "token": TOKEN, "epoch": 1_000}
    assert (await emulator.control("POST", "/worlds", make, headers=bearer(TOKEN))).status == 401
    both = bearer(TOKEN, Emulator_Control_Token="secret")
    assert (await emulator.control("POST", "/worlds", make, headers=both)).status == 201
    assert (await emulator.control("GET", "/clock", headers=both)).json["now_ms"] == 1_000
    assert (await emulator.control("GET", "/clock", headers=bearer("secret"))).json["now_ms"] != 1_000
    # The token of a world permits nothing, and neither does a wrong one beside the right one.
    for headers in (bearer(TOKEN), bearer("secret", Emulator_Control_Token="wrong"), {}):
        assert (await emulator.control("GET", "/clock", headers=headers)).status == 401


@with_emulator(strict=True)
async def test_strict_mode_keeps_what_is_wrong_with_the_world_of_the_token(emulator: InProcess) -> None:
    await emulator.control("POST", "/worlds", {"id": "one", "token": TOKEN})
    await emulator.control("GET", "/clock?wrold=one", headers=bearer(TOKEN))
    assert (await emulator.control("GET", "/mismatches?world=one")).json["mismatches"]
    assert not (await emulator.control("GET", "/mismatches")).json["mismatches"]


# -- forks ------------------------------------------------------------------------------------

HOOK = "https://api.example.com/hook"


async def fork(emulator: InProcess, body: object = b"", of: str = "default") -> str:
    made = await emulator.control("POST", f"/worlds/{of}/fork", body)
    assert made.status == 201, made.body
    return str(made.json["id"])


async def trace(emulator: InProcess, world_id: str) -> bytes:
    return (await emulator.control("GET", f"/trace?world={world_id}")).body


@pytest.mark.parametrize("keeps", [False, True])
@on_loop
async def test_a_fork_goes_on_exactly_as_the_original_and_by_itself(keeps: bool, tmp_path: Path) -> None:
    """D-434: state, pending work, history and clock; history that is written already, and history that is not."""
    async with in_process(db=str(tmp_path / "state.db") if keeps else ":memory:") as emulator:
        await emulator.rule(HOOK, sequence=[{"status": 503}, {"status": 200}])
        await emulator.publish(HOOK)
        await emulator.call("POST", f"/v2/schedules/{HOOK}", {"Svc-Cron": "0 9 * * *"})
        assert len(await emulator.deliveries()) == 1
        await emulator.publish(HOOK, {"Svc-Delay": "1h"})

        one = await fork(emulator)
        assert await trace(emulator, one) == await trace(emulator, "default")
        await emulator.control("POST", f"/clock/advance?world={one}", {"by": "2d"})
        assert len(await emulator.deliveries()) == 1
        forked = await trace(emulator, one)
        await emulator.advance("2d")
        assert await trace(emulator, "default") == forked

        # Of a fork, and after a reset of it: it begins as the original began.
        two = await fork(emulator, {"id": "second"}, of=one)
        await emulator.control("POST", f"/reset?world={two}")
        assert (await emulator.control("GET", f"/worlds/{two}")).json["clock"]["pending"] == 0
        assert await trace(emulator, one) == forked
        for world_id in (one, two):
            assert (await emulator.control("DELETE", f"/worlds/{world_id}")).status == 204


@with_emulator()
async def test_a_fork_has_tokens_of_its_own_and_the_same_signing_keys(emulator: InProcess) -> None:
    fixtures = {"accounts": [{"token": "fixed-token"}, {"token": "second-token"}]}
    await emulator.control("POST", "/worlds", {"id": "source", "fixtures": fixtures})
    for wanted in ({}, {"token": TOKEN}):
        world_id = await fork(emulator, wanted, of="source")
        before = (await emulator.control("GET", "/accounts?world=source")).json["accounts"]
        after = (await emulator.control("GET", f"/accounts?world={world_id}")).json["accounts"]
        for old, new in zip(before, after, strict=True):
            assert old["id"] == new["id"]
            assert all(old[name] != new[name] for name in ("token", "read_only_token", "password"))
        assert after[0]["token"] == wanted.get("token", after[0]["token"])
        keys = [(await emulator.control("GET", f"/credentials?world={each}")).json for each in ("source", world_id)]
        assert keys[0]["queue"]["current_signing_key"] == keys[1]["queue"]["current_signing_key"]
        assert keys[0]["management"] != keys[1]["management"]
        sent = await emulator.call("POST", f"/v2/publish/{HOOK}", bearer(after[0]["token"]), token=None)
        assert sent.status == 200
        for each, count in (("source", 0), (world_id, 1)):
            found = (await emulator.control("GET", f"/deliveries?world={each}")).json["deliveries"]
            assert len(found) == count


@pytest.mark.parametrize("keeps", [False, True])
@on_loop
async def test_a_fork_that_cannot_be_made_leaves_nothing(keeps: bool, tmp_path: Path) -> None:
    async with in_process(db=str(tmp_path / "state.db") if keeps else ":memory:") as emulator:
        await emulator.control("POST", "/worlds", {"id": "one", "token": TOKEN})
        for body, status in (
            ({"id": "one"}, 409),
            ({"id": "two", "token": TOKEN}, 409),
            ({"id": "two", "token": "short"}, 400),
            ({"id": "a/b"}, 400),
            ({"seed": 7}, 400),
        ):
            assert (await emulator.control("POST", "/worlds/default/fork", body)).status == status
        assert (await emulator.control("POST", "/worlds/nobody/fork")).status == 404
        assert len((await emulator.control("GET", "/worlds")).json["worlds"]) == 2
        assert await fork(emulator, {"id": "two"}) == "two"


@on_loop
async def test_forks_that_are_kept_are_there_after_a_restart(tmp_path: Path) -> None:
    db = str(tmp_path / "state.db")
    async with in_process(db=db) as emulator:
        await emulator.publish(HOOK, {"Svc-Delay": "1h"})
        await fork(emulator, {"id": "kept", "token": TOKEN})
    async with in_process(db=db) as emulator:
        found = await emulator.control("GET", "/clock", headers=bearer(TOKEN))
        assert found.json["pending"] == 1


@with_emulator(chaos="0.5", seed=7)
async def test_a_world_made_from_the_setup_of_another_repeats_its_chaos(emulator: InProcess) -> None:
    """D-438: the epoch that it was not given, too."""

    async def disturbed(world: str, token: str) -> list[tuple[str, str]]:
        for number in range(10):
            await emulator.publish(f"https://app.test/{number}", token=token)
        await emulator.control("POST", f"/clock/drain?world={world}")
        found = (await emulator.control("GET", f"/deliveries?world={world}")).json["deliveries"]
        return [(each["message_id"], each["chaos"]["did"]) for each in found if "chaos" in each]

    made = (await emulator.control("POST", "/worlds", {"id": "one"})).json
    setup = (await emulator.control("GET", "/worlds/one/setup")).json
    assert (setup["seed"], setup["plan"], setup["chaos"]) == (7, "paid", {"level": 0.5, "except": []})
    again = (await emulator.control("POST", "/worlds", {"id": "two", **setup})).json
    assert (await emulator.control("GET", "/worlds/two/setup")).json == setup
    first, second = [await disturbed(each["id"], each["credentials"]["queue"]["token"]) for each in (made, again)]
    assert first == second != []
    assert (await emulator.control("GET", "/worlds/nobody/setup")).status == 404


# -- how much history ---------------------------------------------------------------------------


async def kept(emulator: InProcess, world: str) -> int:
    """How many of 20 more deliveries are shown."""
    await emulator.control("DELETE", f"/deliveries?world={world}")
    token = (await emulator.control("GET", f"/credentials?world={world}")).json["queue"]["token"]
    for _ in range(20):
        await emulator.call("POST", "/v2/publish/https://app.test", bearer(token), token=None)
    return len((await emulator.control("GET", f"/deliveries?world={world}")).json["deliveries"])


@pytest.mark.parametrize("keeps", [False, True], ids=["in memory", "in a file"])
@on_loop
async def test_a_world_keeps_as_much_history_as_its_maker_says(keeps: bool, tmp_path: Path) -> None:
    """D-480."""
    db = str(tmp_path / "state.db") if keeps else ":memory:"
    async with in_process(db=db, keep_history="all") as emulator:
        for world_id, keep in {"few": 8, "all": "all", "old": "30d", "server": None}.items():
            body = {"id": world_id} if keep is None else {"id": world_id, "keep_history": keep}
            assert (await emulator.control("POST", "/worlds", body)).status == 201
        found = {each: await kept(emulator, each) for each in ("few", "all", "old", "server", "default")}
        assert found == {"few": 2, "all": 20, "old": 20, "server": 20, "default": 20}
        await emulator.control("POST", "/worlds/few/fork", {"id": "fork"})
        await emulator.control("POST", "/reset?world=few")
        assert [await kept(emulator, each) for each in ("fork", "few")] == [2, 2]
    if keeps:
        async with in_process(db=db, keep_history="all") as emulator:
            assert [await kept(emulator, each) for each in ("few", "all")] == [2, 20]


@pytest.mark.parametrize("keep", [0, -1, True, 1.5, None, "some", "0", "0d", "1,2", [8]])
@with_emulator()
async def test_history_cannot_be_kept_by_anything_else(emulator: InProcess, keep: object) -> None:
    refused = await emulator.control("POST", "/worlds", {"id": "one", "keep_history": keep})
    assert (refused.status, refused.json["field"]) == (400, "keep_history")


DEFAULTS = WorldSetup(id="", seed=3, epoch_ms=1_767_225_600_000, rate=0.0, plan=Plan.PAID, epoch_is_given=False)


def _read_world(document: Json) -> WorldSetup:
    return read_world(document, DEFAULTS)


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        pytest.param(None, DEFAULTS, id="no-body"),
        pytest.param({"id": "w-1"}, replace(DEFAULTS, id="w-1"), id="no-epoch"),
        pytest.param(
            {"id": "w-1", "seed": 7, "epoch": "1970-01-02", "rate": 60, "fixtures": {"queues": []}, "plan": "free"},
            WorldSetup(id="w-1", seed=7, epoch_ms=86_400_000, rate=60.0, fixtures={"queues": []}, plan=Plan.FREE),
            id="everything",
        ),
    ],
)
def test_world_is_read(document: Json, expected: WorldSetup) -> None:
    assert read_world(document, DEFAULTS) == expected


def test_reset_and_snapshot_are_read() -> None:
    assert read_reset(None) is None
    assert read_reset({"fixtures": {"queues": []}}) == {"queues": []}
    assert read_snapshot_name({"name": "before-test.1"}) == "before-test.1"


@pytest.mark.parametrize(
    ("reader", "document", "field"),
    [
        pytest.param(_read_world, {"id": ""}, "id", id="world-id-empty"),
        pytest.param(_read_world, {"id": ".."}, "id", id="world-id-dots"),
        pytest.param(_read_world, {"id": "a/b"}, "id", id="world-id-slash"),
        pytest.param(_read_world, {"id": "a" * 65}, "id", id="world-id-long"),
        pytest.param(_read_world, {"seed": "7"}, "seed", id="seed"),
        pytest.param(_read_world, {"seed": 2**60}, "seed", id="seed-not-exact"),
        pytest.param(_read_world, {"epoch": {}}, "epoch", id="epoch"),
        pytest.param(_read_world, {"rate": None}, "rate", id="world-rate"),
        pytest.param(_read_world, {"fixtures": "a.yaml"}, "fixtures", id="fixtures"),
        pytest.param(_read_world, {"plan": "gold"}, "plan", id="plan"),
        pytest.param(_read_world, {"token": "a b"}, "token", id="token"),
        pytest.param(_read_world, {"clock": 0}, "clock", id="world-unknown"),
        pytest.param(read_reset, {"fixtures": []}, "fixtures", id="reset-fixtures"),
        pytest.param(read_reset, {"seed": 1}, "seed", id="reset-unknown"),
        pytest.param(read_snapshot_name, None, "body", id="snapshot-null"),
        pytest.param(read_snapshot_name, {}, "name", id="snapshot-without-name"),
        pytest.param(read_snapshot_name, {"name": "../up"}, "name", id="snapshot-name"),
    ],
)
def test_body_that_is_wrong_names_the_field(reader: object, document: Json, field: str) -> None:
    """D-127, D-128."""
    assert callable(reader)
    with pytest.raises(InvalidInput) as caught:
        reader(document)
    assert caught.value.field == field


@with_emulator()
async def test_a_world_shows_its_credentials_and_its_clock(emulator: InProcess) -> None:
    known = emulator.world.credentials()
    assert (await emulator.control("GET", "/worlds/default")).json == {
        "id": "default",
        "credentials": {
            "queue": {
                "account_id": known.account_id,
                "token": known.token,
                "read_only_token": known.read_only_token,
                "current_signing_key": known.current_signing_key,
                "next_signing_key": known.next_signing_key,
            },
            "management": {"username": known.username, "password": known.password},
            "search_index_ids": list(known.search_index_ids),
            "vector_index_ids": list(known.vector_index_ids),
        },
        "clock": (await emulator.control("GET", "/clock")).json,
    }


def test_snapshot_is_shown_with_both_forms_of_its_instant() -> None:
    snapshot = Snapshot(name="before", now_ms=1_767_225_600_001, pending=3, size_bytes=77_824)

    expected = {
        "name": "before",
        "created": "2026-01-01T00:00:00.001Z",
        "created_ms": 1_767_225_600_001,
        "pending": 3,
        "size_bytes": 77_824,
    }
    assert to_builtins(snapshot_view(snapshot)) == expected
