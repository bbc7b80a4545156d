"""What a world does when its disk is full, its file is gone or damaged, and what its neighbours notice of it."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from emulator.core.model.accounts import Plan
from emulator.core.world_setup import DEFAULT, WorldSetup
from emulator.delivery.egress import CheckedResolver, EgressPolicy, ExternalPolicy
from emulator.delivery.http import HttpClient
from emulator.delivery.transport import DeliveryTransport
from emulator.engine.clock import wall_ms
from emulator.engine.limits import Limits
from emulator.journal import checksums
from emulator.journal.files import UnusableDatabase
from emulator.wire.dialect import SVC
from emulator.worlds.options import WorldOptions
from emulator.worlds.registry import Worlds
from tests.harness.emulators import EPOCH_MS, Answer, InProcess, in_process
from tests.harness.loops import on_loop, turns
from tests.harness.snapshots import HOOK, save
from tests.harness.stores import connection_of

SOON, NEVER = Limits(mend_after_s=0.01), Limits(mend_after_s=3600)


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("CRITICAL", "emulator")


async def fill_the_disk(emulator: InProcess) -> None:
    """Let the connection of the default world find no room any more; one that is opened later finds some."""
    connection = await connection_of(emulator.world._store)
    ((pages,),) = await connection.execute_fetchall("PRAGMA page_count")
    await connection.execute(f"PRAGMA max_page_count = {pages}")


async def publish(emulator: InProcess, size: int = 0) -> Answer:
    return await emulator.post(f"/v2/publish/{HOOK}", (), b"x" * size)


async def mended(emulator: InProcess) -> None:
    while (await emulator.control("GET", "/health")).status != 200:
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
def test_world_without_room_answers_507_and_health_and_the_list_say_so(tmp_path: Path) -> None:
    @on_loop
    async def test() -> None:
        async with with_a_full_disk(tmp_path, NEVER) as emulator:
            for method, target in (
                ("GET", "/clock"),
                ("POST", "/clock/next"),
                ("GET", "/deliveries"),
                ("GET", "/trace"),
            ):
                assert (await emulator.control(method, target)).status == 507, target
            health = await emulator.control("GET", "/health")
            assert health.status == 503
            assert [each["id"] for each in health.json["broken"]] == ["default"]
            listed = (await emulator.control("GET", "/worlds")).json["worlds"]
            assert ["error" in each for each in listed] == [True, False]
            assert "disk is full" in listed[0]["error"]
            # Its neighbour goes on.
            assert (await emulator.control("POST", "/clock/advance?world=other", {"by": "1h"})).status == 200

    test()


@pytest.mark.slow
def test_world_goes_on_once_there_is_room_and_has_all_that_was_acknowledged(tmp_path: Path) -> None:
    @on_loop
    async def test() -> None:
        async with with_a_full_disk(tmp_path, SOON) as emulator:
            await mended(emulator)

            assert len(await emulator.deliveries()) == 1
            assert (await publish(emulator, 300_000)).status == 200
            assert len(await emulator.deliveries()) == 2
            assert list(emulator.emulation.worlds.troubles()) == []
        # The run had a failure all the same.
        assert "disk is full" in emulator.emulation.worlds.failures["default"]

    test()


@pytest.mark.slow
def test_reset_brings_a_stopped_world_back_at_once_if_there_is_room(tmp_path: Path) -> None:
    @on_loop
    async def test() -> None:
        async with with_a_full_disk(tmp_path, NEVER) as emulator:
            assert (await emulator.control("POST", "/reset")).status == 200
            assert await emulator.deliveries() == []
            assert (await publish(emulator)).status == 200

    test()


@pytest.mark.slow
def test_reset_without_room_is_507_and_the_world_is_mended_later(tmp_path: Path) -> None:
    @on_loop
    async def test() -> None:
        async with in_process(db=str(tmp_path / "w.db"), limits=SOON) as emulator:
            await publish(emulator)
            await emulator.world.history.position()
            connection = await connection_of(emulator.world._store)
            execute = connection.execute

            def fail(statement: str, *parameters: Any) -> Any:
                if statement.startswith("DELETE FROM main.attempts"):
                    raise sqlite3.OperationalError("database or disk is full")
                return execute(statement, *parameters)

            connection.execute = fail  # type: ignore[method-assign]  # a fault of this one connection
            assert (await emulator.control("POST", "/reset")).status == 507
            await mended(emulator)
            assert len(await emulator.deliveries()) == 1

    test()


@pytest.mark.slow
def test_world_that_cannot_be_made_for_want_of_room_leaves_nothing(tmp_path: Path) -> None:
    @on_loop
    async def test() -> None:
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

    test()


# -- a file that is gone ----------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("how", ["deleted", "replaced"])
def test_file_that_is_gone_is_noticed_and_nothing_is_acknowledged(tmp_path: Path, how: str) -> None:
    """D-283."""
    path = tmp_path / "w.db"

    @on_loop
    async def test() -> None:
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

    test()


@pytest.mark.slow
def test_file_that_was_deleted_before_the_end_is_a_failure_of_the_run(tmp_path: Path) -> None:
    @on_loop
    async def test() -> None:
        async with in_process(db=str(tmp_path / "w.db")) as emulator:
            await publish(emulator)
            (tmp_path / "w.db").unlink()
        assert "was deleted" in emulator.emulation.worlds.failures["default"]

    test()


@pytest.mark.slow
def test_state_of_a_world_whose_rule_failed_is_not_stored(tmp_path: Path) -> None:
    @on_loop
    async def test() -> None:
        async with in_process(db=str(tmp_path / "w.db")) as emulator:
            await emulator.publish(HOOK, {"Svc-Delay": "1h"})
            state: Any = emulator.world.state
            # Half of a command, as a rule leaves it that fails after its first fact.
            state.messages.clear()
            emulator.world.driver.stop("a rule failed")
        async with in_process(db=str(tmp_path / "w.db")) as again:
            assert len(again.world.state.messages) == 1

    test()


# -- a start (D-280) --------------------------------------------------------------------------


def damage(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[4096:] = b"\x55" * (len(content) - 4096)
    path.write_bytes(content)


@pytest.mark.slow
def test_world_that_cannot_be_opened_is_reported_and_stops_no_other(tmp_path: Path) -> None:
    @on_loop
    async def test() -> None:
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

    test()


@pytest.mark.slow
def test_nothing_is_sent_before_all_worlds_are_opened(tmp_path: Path) -> None:
    @on_loop
    async def test() -> None:
        path = str(tmp_path / "w.db")
        async with in_process(db=path) as emulator:
            await emulator.publish(HOOK, {"Svc-Delay": "1s"})
            await emulator.control("POST", "/worlds", {"id": "b"})
        running: list[bool] = []

        def new_transport() -> DeliveryTransport:
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

    test()


# -- damage (D-284) ---------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("statement", "target"),
    [
        ("UPDATE messages SET url = 'https://api.example.com/other'", "/deliveries"),
        ("UPDATE attempts SET status = 500", "/deliveries"),
        ("UPDATE events SET at_ms = at_ms + 1", "/trace"),
        ("UPDATE attempts SET outcome = x'c1'", "/trace"),
        ("DELETE FROM messages", "/trace"),
        ("UPDATE messages SET definition = substr(definition, 1, 40)", "/trace"),
        ("UPDATE annotations SET name = 'x'", "/messages/{id}/explain"),
    ],
)
def test_changed_history_is_never_shown(tmp_path: Path, statement: str, target: str) -> None:
    path = tmp_path / "w.db"

    @on_loop
    async def test() -> None:
        async with in_process(db=str(path)) as emulator:
            message_id = await emulator.publish(HOOK, {"Svc-Callback": f"{HOOK}/back"})
        with contextlib.closing(sqlite3.connect(path)) as connection, connection:
            checksums.register(connection)
            connection.execute(statement)
        async with in_process(db=str(path)) as again:
            answer = await again.control("GET", target.format(id=message_id))
            assert answer.status == 503
            assert answer.json["error"].startswith(f"{path} is damaged: ")
            assert answer.json["error"].endswith(f"`svc-emulator db check {path}` tells all that is")
            # What is live is not concerned.
            assert (await publish(again)).status == 200

    test()


@pytest.mark.slow
@pytest.mark.parametrize("seq", ["attempt_seq + 100", "x'00'"])
def test_a_dead_letter_whose_attempt_is_another_is_not_left_out(tmp_path: Path, seq: str) -> None:
    path = tmp_path / "w.db"

    @on_loop
    async def test() -> None:
        async with in_process(db=str(path)) as emulator:
            await emulator.rule(HOOK, respond={"status": 500})
            await emulator.publish(HOOK, {"Svc-Retries": "0"})
            assert len((await emulator.control("GET", "/dead-letters")).json["dead_letters"]) == 1
        with contextlib.closing(sqlite3.connect(path)) as connection, connection:
            connection.execute(f"UPDATE dead_letters SET attempt_seq = {seq}")
        async with in_process(db=str(path)) as again:
            assert (await again.control("GET", "/dead-letters")).status == 503

    test()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("UPDATE checkpoint SET covers = covers - 1", "the state of the world is missing, or not what was written"),
        ("UPDATE meta SET value = x'00' WHERE name = 'clock'", "the entry 'clock' of the table meta is not what was"),
        ("DELETE FROM events WHERE seq = (SELECT max(seq) FROM events)", "its history ends with entry"),
        ("CREATE TRIGGER t AFTER DELETE ON meta BEGIN DELETE FROM events; END", "its tables are not those of format 4"),
        ("CREATE VIEW v AS SELECT 1", "its tables are not those of format 4"),
    ],
)
def test_start_refuses_what_an_import_refuses(tmp_path: Path, statement: str, reason: str) -> None:
    path = tmp_path / "w.db"

    @on_loop
    async def test() -> None:
        async with in_process(db=str(path)) as emulator:
            await publish(emulator)
        with contextlib.closing(sqlite3.connect(path)) as connection, connection:
            connection.execute(statement)
        with pytest.raises(UnusableDatabase, match=reason) as refused:
            async with in_process(db=str(path)):
                pass
        assert str(refused.value).startswith(f"{path}: damaged: ")

    test()


@pytest.mark.slow
def test_exported_snapshot_that_was_changed_is_not_served(tmp_path: Path) -> None:
    path = tmp_path / "w.db"

    @on_loop
    async def test() -> None:
        async with in_process(db=str(path)) as emulator:
            await publish(emulator)
            await save(emulator)
        snapshot = tmp_path / "w.db-snapshots" / "default" / "s.db"
        with contextlib.closing(sqlite3.connect(snapshot)) as connection, connection:
            connection.execute("UPDATE usage_minutes SET account_id = 'x'")
        with pytest.raises(UnusableDatabase, match="damaged: its content is not what was saved"):
            async with in_process(db=str(snapshot)):
                pass

    test()


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
def test_hostile_metadata_is_one_line(tmp_path: Path, name: str, value: bytes) -> None:
    path = tmp_path / "w.db"

    @on_loop
    async def test() -> None:
        async with in_process(db=str(path)):
            pass
        with contextlib.closing(sqlite3.connect(path)) as connection, connection:
            checksums.register(connection)
            connection.execute(
                "UPDATE meta SET value = ?1, checksum = row_checksum(name, ?1) WHERE name = ?2", (value, name)
            )
        with pytest.raises(UnusableDatabase) as refused:
            async with in_process(db=str(path)):
                pass
        text = str(refused.value)
        assert text.startswith(f"{path}: damaged: ")
        assert "\n" not in text
        assert len(text) < 400

    test()


# -- readers and resets (D-286) ---------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("is_file", [False, True], ids=["memory", "file"])
@pytest.mark.parametrize("ending", ["reset", "restore", "delete"])
def test_reader_gets_all_it_began_with_or_a_409(tmp_path: Path, ending: str, is_file: bool) -> None:
    @on_loop
    async def test() -> None:
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

    test()
