"""What a world does when its disk is full, its file is gone or damaged, and what its neighbours notice of it."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from emulator.core.model.resources import Plan
from emulator.core.world_setup import DEFAULT, WorldSetup
from emulator.delivery.egress import CheckedResolver, EgressPolicy, ExternalPolicy
from emulator.delivery.http import HttpClient
from emulator.delivery.transport import DeliveryTransport
from emulator.engine.clock import wall_ms
from emulator.engine.limits import Limits
from emulator.journal.files import UnusableDatabase
from emulator.journal.schema import FORMAT
from emulator.wire.dialect import SVC
from emulator.worlds.registry import Worlds
from emulator.worlds.setup import WorldOptions
from tests.harness.emulators import EPOCH_MS, Answer, InProcess, in_process
from tests.harness.loops import on_loop, turns
from tests.harness.snapshots import HOOK
from tests.harness.stores import connection_of, watch_statements

SOON, NEVER = Limits(mend_after_s=0.01), Limits(mend_after_s=3600)


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("CRITICAL", "emulator")


async def fill_the_disk(emulator: InProcess) -> None:
    """Let the connection of the default world find no room any more; one that is opened later finds some."""
    connection = await connection_of(emulator.world._store)
    ((pages,),) = connection.execute("PRAGMA page_count")
    connection.execute(f"PRAGMA max_page_count = {pages}")


async def publish(emulator: InProcess, size: int = 0) -> Answer:
    return await emulator.post(f"/v2/publish/{HOOK}", (), b"x" * size)


async def mended(emulator: InProcess) -> None:
    while (await emulator.control("GET", "/health")).json["status"] != "ok":
        await turns(1)


# -- a full disk (D-282) ----------------------------------------------------------------------


@contextlib.asynccontextmanager
async def with_a_full_disk(tmp_path: Path, limits: Limits) -> AsyncIterator[InProcess]:
    async with in_process(db=str(tmp_path / "w.db"), limits=limits) as emulator:
        await emulator.control("POST", "/worlds", {"id": "other"})
        assert (await publish(emulator)).status == 200
        await fill_the_disk(emulator)
        refused = await publish(emulator, 300_000)
        assert refused.status == 507
        assert refused.json["error"] == "the database cannot be written: database or disk is full"
        yield emulator


@pytest.mark.slow
@on_loop
async def test_world_without_room_answers_507_and_health_and_the_list_say_so(tmp_path: Path) -> None:
    async with with_a_full_disk(tmp_path, NEVER) as emulator:
        for method, target in (("GET", "/clock"), ("POST", "/clock/next"), ("GET", "/deliveries"), ("GET", "/trace")):
            assert (await emulator.control(method, target)).status == 507, target
        health = await emulator.control("GET", "/health")
        # It continues by itself, and a restart would not help.
        assert (health.status, health.json["status"]) == (200, "degraded")
        assert [each["id"] for each in health.json["problems"]] == ["default"]
        assert "broken" not in health.json
        listed = (await emulator.control("GET", "/worlds")).json["worlds"]
        assert ["error" in each for each in listed] == [True, False]
        assert "disk is full" in listed[0]["error"]
        # Its neighbour keeps working.
        assert (await emulator.control("POST", "/clock/advance?world=other", {"by": "1h"})).status == 200
        # After a reset it works at once, as there is room.
        assert (await emulator.control("POST", "/reset")).status == 200
        assert await emulator.deliveries() == []
        assert (await publish(emulator)).status == 200


@pytest.mark.slow
@on_loop
async def test_a_file_that_is_gone_is_no_full_disk(tmp_path: Path) -> None:
    """D-282, D-283: the world needs help, whatever had stopped it before."""
    async with with_a_full_disk(tmp_path, NEVER) as emulator:
        (tmp_path / "w.db").rename(tmp_path / "away.db")
        health = await emulator.control("GET", "/health")
        assert (health.status, health.json["status"]) == (503, "broken")
        assert "problems" not in health.json
        (tmp_path / "away.db").rename(tmp_path / "w.db")


@pytest.mark.slow
@on_loop
async def test_world_goes_on_once_there_is_room_and_has_all_that_was_acknowledged(tmp_path: Path) -> None:
    async with with_a_full_disk(tmp_path, SOON) as emulator:
        await mended(emulator)

        assert len(await emulator.deliveries()) == 1
        assert (await publish(emulator, 300_000)).status == 200
        assert len(await emulator.deliveries()) == 2
        assert list(emulator.emulation.worlds.troubles()) == []
    # The run had a failure all the same.
    assert "disk is full" in emulator.emulation.worlds.failures["default"]


@pytest.mark.slow
@on_loop
async def test_reset_without_room_is_507_and_the_world_is_mended_later(tmp_path: Path) -> None:
    async with in_process(db=str(tmp_path / "w.db"), limits=SOON) as emulator:
        await publish(emulator)
        await emulator.world.history.position()

        def fail(statement: str) -> None:
            if statement.startswith("DELETE FROM main.attempts"):
                raise sqlite3.OperationalError("database or disk is full")

        # A fault of this one connection.
        await watch_statements(emulator.world._store, fail)
        assert (await emulator.control("POST", "/reset")).status == 507
        await mended(emulator)
        assert len(await emulator.deliveries()) == 1


@pytest.mark.slow
@on_loop
async def test_world_that_cannot_be_made_for_want_of_room_leaves_nothing(tmp_path: Path) -> None:
    async with in_process(db=str(tmp_path / "w.db")) as emulator:
        (tmp_path / "w.db-worlds").mkdir()
        folder = tmp_path / "w.db-worlds" / "new.db"
        # As good as a disk that is full: what is to be written cannot be.
        folder.mkdir()
        refused = await emulator.control("POST", "/worlds", {"id": "new"})
        assert refused.status == 503
        assert refused.json["error"].startswith("the world new cannot be made: ")
        folder.rmdir()
        assert (await emulator.control("POST", "/worlds", {"id": "new"})).status == 201
        assert [each.name for each in folder.parent.iterdir() if each.name.startswith(".")] == []


# -- a file that is gone ----------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("how", ["deleted", "replaced"])
@on_loop
async def test_file_that_is_gone_is_noticed_and_nothing_is_acknowledged(tmp_path: Path, how: str) -> None:
    """D-283."""
    path = tmp_path / "w.db"

    async with in_process(db=str(path), limits=SOON) as emulator:
        await publish(emulator)
        path.rename(tmp_path / "away.db")
        if how == "replaced":
            path.write_bytes(b"something else")
        assert (await emulator.control("GET", "/health")).status == 503

        refused = await publish(emulator)

        assert refused.status == 503
        assert "was deleted or replaced while the server uses it" in refused.json["error"]
        assert (await emulator.control("POST", "/reset")).status == 503
        (tmp_path / "away.db").replace(path)
        await mended(emulator)
        assert (await publish(emulator)).status == 200


@pytest.mark.slow
@on_loop
async def test_file_that_was_deleted_before_the_end_is_a_failure_of_the_run(tmp_path: Path) -> None:
    async with in_process(db=str(tmp_path / "w.db")) as emulator:
        await publish(emulator)
        (tmp_path / "w.db").unlink()
    assert "was deleted" in emulator.emulation.worlds.failures["default"]


@pytest.mark.slow
@on_loop
async def test_state_of_a_world_whose_rule_failed_is_not_stored(tmp_path: Path) -> None:
    async with in_process(db=str(tmp_path / "w.db")) as emulator:
        await emulator.publish(HOOK, {"Svc-Delay": "1h"})
        state: Any = emulator.world.state
        # Half of a command, as a rule leaves it that fails after its first fact.
        state.messages.clear()
        emulator.world.driver.stop("a rule failed")
    async with in_process(db=str(tmp_path / "w.db")) as again:
        assert len(again.world.state.messages) == 1


# -- a start (D-280) --------------------------------------------------------------------------


def damage(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[4096:] = b"\x55" * (len(content) - 4096)
    path.write_bytes(content)


@pytest.mark.slow
@on_loop
async def test_world_that_cannot_be_opened_is_reported_and_stops_no_other(tmp_path: Path) -> None:
    async with in_process(db=str(tmp_path / "w.db")) as emulator:
        for name in ("a", "b"):
            await emulator.control("POST", "/worlds", {"id": name})
    damage(tmp_path / "w.db-worlds" / "a.db")
    (tmp_path / "w.db-worlds" / "c.db").write_bytes(b"")
    async with in_process(db=str(tmp_path / "w.db")) as again:
        listed = (await again.control("GET", "/worlds")).json
        assert [each["id"] for each in listed["worlds"]] == ["default", "b"]
        assert [each["id"] for each in listed["unusable"]] == ["a"]
        assert "a.db: " in listed["unusable"][0]["error"]
        assert (await again.control("GET", "/health")).status == 503
        assert (await again.control("GET", "/clock?world=a")).status == 503
        assert (await again.control("POST", "/worlds", {"id": "a"})).status == 409
        assert (await again.control("DELETE", "/worlds/a")).status == 204
        assert (await again.control("POST", "/worlds", {"id": "a"})).status == 201
        assert (await again.control("GET", "/health")).status == 200


@pytest.mark.slow
@on_loop
async def test_nothing_is_sent_before_all_worlds_are_opened(tmp_path: Path) -> None:
    path = str(tmp_path / "w.db")
    async with in_process(db=path) as emulator:
        await emulator.publish(HOOK, {"Svc-Delay": "1s"})
        await emulator.control("POST", "/worlds", {"id": "b"})
    running: list[bool] = []

    def new_transport(world: str) -> DeliveryTransport:
        running.append(any(task.get_name().startswith("clock of") for task in asyncio.all_tasks()))
        egress = EgressPolicy(external=ExternalPolicy.CAPTURE, allow_hosts=())
        return DeliveryTransport(
            dialect=SVC, egress=egress, wall_ms=wall_ms, client=HttpClient(CheckedResolver(egress))
        )

    setup = WorldSetup(id=DEFAULT, seed=0, epoch_ms=EPOCH_MS, rate=100_000.0, plan=Plan.PAID)
    worlds = Worlds(setup, options=WorldOptions(dialect=SVC, db=path), new_transport=new_transport)
    await worlds.start()
    await worlds.close()
    assert running == [False, False]


# -- damage (D-284) ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The file of a world with a delivery."""
    path = tmp_path_factory.mktemp("good") / "w.db"

    @on_loop
    async def make() -> None:
        async with in_process(db=str(path)) as emulator:
            await publish(emulator)

    make()
    return path.read_bytes()


@pytest.mark.slow
@on_loop
async def test_what_sqlite_calls_damaged_is_said_where_it_is_read(tmp_path: Path, good: bytes) -> None:
    path = tmp_path / "w.db"
    path.write_bytes(good)
    with contextlib.closing(sqlite3.connect(path)) as connection:
        ((page,),) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'messages'")
    path.write_bytes(good[: (page - 1) * 4096] + b"\x55" * 4096 + good[page * 4096 :])
    async with in_process(db=str(path)) as again:
        answer = await again.control("GET", "/deliveries")
        assert answer.status == 503
        assert answer.json["error"].startswith(f"{path} is damaged: ")
        assert answer.json["error"].endswith(f"`svc-emulator db check {path}` tells all that is")


def refusal(path: Path, good: bytes, statement: str, *parameters: object) -> str:
    """Why a start refuses the file after a statement, in one line."""
    path.write_bytes(good)
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(statement, parameters)

    @on_loop
    async def start() -> None:
        async with in_process(db=str(path)):
            pass

    with pytest.raises(UnusableDatabase) as refused:
        start()
    text = str(refused.value)
    assert text.startswith(f"{path}: damaged: ")
    assert "\n" not in text
    assert len(text) < 400
    return text


@pytest.mark.slow
@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("DELETE FROM checkpoint", "the state of the world is missing"),
        ("DELETE FROM meta WHERE name = 'clock'", "'clock' is missing"),
        ("DELETE FROM events WHERE seq = (SELECT max(seq) FROM events)", "its history ends with entry"),
        ("CREATE TRIGGER t AFTER DELETE ON meta BEGIN DELETE FROM events; END", f"not those of format {FORMAT}"),
        ("CREATE VIEW v AS SELECT 1", f"not those of format {FORMAT}"),
    ],
)
def test_start_refuses_what_an_import_refuses(tmp_path: Path, good: bytes, statement: str, reason: str) -> None:
    assert reason in refusal(tmp_path / "w.db", good, statement)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["world", "clock"])
@pytest.mark.parametrize(
    "value",
    [
        b"[" * 1_000_000,
        b"{" * 1_000_000,
        b'{"rate": NaN}',
        b'{"virtual_ms": 0, "wall_ms": 0, "rate": NaN}',
        b'{"virtual_ms": 0, "wall_ms": 0, "rate": 1e300}',
        b'{"virtual_ms": 0, "wall_ms": 0, "rate": -1}',
        b'{"virtual_ms": 99999999999999999999, "wall_ms": 0, "rate": 0}',
        b'{"virtual_ms": 0, "wall_ms": -9999999999999999, "rate": 1}',
        b'{"id": "../x", "seed": 0, "epoch_ms": 0, "rate": 0, "plan": "paid"}',
        b'{"id": "x", "seed": 0, "epoch_ms": 0, "rate": 1e300, "plan": "paid"}',
        b"\xff",
        b"",
    ],
    ids=range(12),
)
def test_hostile_metadata_is_one_line(tmp_path: Path, good: bytes, name: str, value: bytes) -> None:
    refusal(tmp_path / "w.db", good, "UPDATE meta SET value = ? WHERE name = ?", value, name)


# -- readers and resets (D-286) ---------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("is_file", [False, True], ids=["memory", "file"])
@pytest.mark.parametrize("ending", ["reset", "restore", "delete"])
@on_loop
async def test_reader_gets_all_it_began_with_or_a_409(tmp_path: Path, ending: str, is_file: bool) -> None:
    async with in_process(db=str(tmp_path / "w.db") if is_file else ":memory:") as emulator:
        await emulator.control("POST", "/worlds", {"id": "w"})
        await emulator.control("POST", "/snapshots?world=w", {"name": "s"})
        targets = ("/trace", "/deliveries", "/upcoming", "/clock", "/snapshots", "/worlds", "/health")

        async def read(target: str) -> None:
            for _ in range(6):
                of_world = "" if target in ("/worlds", "/health") else "?world=w"
                answer = await emulator.control("GET", target + of_world)
                assert answer.status in (200, 409) or (answer.status == 404 and ending == "delete"), answer.body
                if target == "/trace" and answer.status == 200:
                    assert answer.body.splitlines()[-1].startswith(b'{"sha256"')

        async def end() -> None:
            for _ in range(3):
                await asyncio.sleep(0.001)
                if ending == "reset":
                    await emulator.control("POST", "/reset?world=w")
                elif ending == "restore":
                    await emulator.control("POST", "/snapshots/s/restore?world=w")
                else:
                    await emulator.control("DELETE", "/worlds/w")

        await asyncio.gather(*(read(target) for target in targets for _ in range(2)), end())
