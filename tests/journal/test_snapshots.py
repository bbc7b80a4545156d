"""Snapshots as files: exported and imported, how long they last, and what a failure or a kill leaves of them."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import sqlite3
import tempfile
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from emulator.journal import codec, schema
from emulator.journal.schema import FORMAT
from tests.contracts.hostile import PYTHON
from tests.harness.emulators import EPOCH_MS, InProcess, in_process
from tests.harness.loops import on_loop
from tests.harness.snapshots import (
    HOOK,
    and_so_on,
    db_of,
    each_store,
    export,
    import_snapshot,
    much_of_everything,
    names,
    pieces,
    restore,
    save,
    send,
    told,
)
from tests.harness.stores import connection_of, crash, watch_statements
from tests.worlds.registry.callers import create

# -- import (D-204) ---------------------------------------------------------------------------


@on_loop
async def test_import_takes_the_place_of_the_snapshot_of_that_name() -> None:
    async with in_process() as emulator:
        await save(emulator, "early")
        early = await export(emulator, "early")
        await emulator.advance("1d")
        await save(emulator, "late")

        new, replaced = await import_snapshot(emulator, early, "copy"), await import_snapshot(emulator, early, "late")

        assert (new.status, replaced.status) == (201, 200)
        assert replaced.json["created_ms"] == EPOCH_MS
        assert await names(emulator) == ["copy", "early", "late"]
        assert (await restore(emulator, "late"))["clock"]["now_ms"] == EPOCH_MS


@pytest.mark.slow
@pytest.mark.parametrize("strict", [False, True])
@on_loop
async def test_a_file_larger_than_any_other_request_is_imported(strict: bool, tmp_path: Path) -> None:
    """D-204: whatever can be exported."""
    async with in_process(strict=strict, db=str(tmp_path / "state.db")) as emulator:
        await save(emulator)
        path = tmp_path / "large.db"
        path.write_bytes(await export(emulator))
        with contextlib.closing(sqlite3.connect(path)) as connection:
            connection.execute("CREATE TABLE room (content BLOB)")
            connection.executemany("INSERT INTO room VALUES (zeroblob(?))", [(1_000_000,)] * 106)
            connection.commit()
            # The pages stay in the file, and hold nothing.
            connection.execute("DROP TABLE room")
        assert path.stat().st_size > 100 * 1024 * 1024
        with path.open("rb") as file:

            async def content() -> AsyncIterator[bytes]:
                while piece := file.read(65_536):
                    yield piece

            answer = await send(emulator, content(), "large")
        assert answer.status == 201, answer.body
        assert await names(emulator) == ["large", "s"]


@on_loop
async def test_an_import_that_breaks_off_leaves_nothing() -> None:
    """D-204, D-230."""
    async with in_process() as emulator:
        await save(emulator)
        content = await export(emulator)
        answer = await send(emulator, pieces(content[: len(content) // 2], 1000), is_whole=False)
        assert (answer.status, answer.json["field"]) == (400, "body")
        assert await names(emulator) == ["s"]
        assert (await restore(emulator))["clock"]["now_ms"] == EPOCH_MS


@pytest.mark.slow
@on_loop
async def test_exported_file_is_what_was_saved_and_can_be_served(tmp_path: Path) -> None:
    async with in_process() as emulator:
        await much_of_everything(emulator)
        await save(emulator)
        expected = await told(emulator)
        file = await export(emulator)
        (tmp_path / "served.db").write_bytes(file)
        await import_snapshot(emulator, file, "copy")
        await emulator.control("POST", "/reset")

        await restore(emulator, "copy")

        assert await told(emulator) == expected
        assert len(await export(emulator, "copy")) == len(file)
        later = await and_so_on(emulator)
    async with in_process(db=str(tmp_path / "served.db")) as served:
        assert await and_so_on(served) == later


@on_loop
async def test_exported_file_that_was_served_can_be_imported(tmp_path: Path) -> None:
    """Its content is not what was saved any more, and that is no damage. Its clock goes at the rate of the save."""
    async with in_process(clock="realtime") as emulator:
        await emulator.control("PUT", "/clock", {"rate": 0})
        await save(emulator)
        (tmp_path / "served.db").write_bytes(await export(emulator))
    async with in_process(clock="realtime", db=str(tmp_path / "served.db")) as served:
        assert (await served.control("GET", "/clock")).json["rate"] == 0
        await served.publish(HOOK, {"Svc-Delay": "1h"})
    async with in_process() as emulator:
        assert (await import_snapshot(emulator, (tmp_path / "served.db").read_bytes())).json["pending"] == 1


@pytest.mark.slow
@pytest.mark.parametrize("how", ["stopped", "killed"])
@on_loop
async def test_database_of_a_stopped_world_can_be_imported(tmp_path: Path, how: str) -> None:
    db = tmp_path / "w.db"
    async with in_process(db=str(db)) as emulator:
        await much_of_everything(emulator)
        expected = await told(emulator)
        if how == "killed":
            # The facts are there, and no checkpoint of them; a copy has what is in the log beside it.
            copied = sqlite3.connect(tmp_path / "copy.db")
            (await connection_of(emulator.world._store)).backup(copied)
            copied.close()
    file = (tmp_path / "copy.db" if how == "killed" else db).read_bytes()
    async with in_process() as fresh:
        assert (await import_snapshot(fresh, file)).status == 201
        await restore(fresh)
        assert await told(fresh) == expected


def _database(change: Callable[[sqlite3.Connection], object] | None = None, *, content: bytes = b"") -> bytes:
    """The bytes of a SQLite file: a snapshot that was changed by somebody, or a new one."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.db"
        path.write_bytes(content)
        with contextlib.closing(sqlite3.connect(path)) as connection:
            if change is not None:
                change(connection)
            connection.commit()
        return path.read_bytes()


def _with_meta(name: str, value: bytes) -> Callable[[bytes], bytes]:
    return lambda good: _database(lambda c: c.execute(schema.WRITE_META, (name, value)), content=good)


def _with(statement: str, *parameters: object) -> Callable[[bytes], bytes]:
    return lambda good: _database(lambda c: c.execute(statement, parameters), content=good)


def _with_fact(payload: bytes) -> Callable[[bytes], bytes]:
    return _with("INSERT INTO facts SELECT covers + 1, 1, ? FROM checkpoint", payload)


OTHER_TABLES = f"damaged: its tables are not those of format {FORMAT}"
BAD: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "empty": (lambda good: b"", "empty, expected a snapshot's file"),
    "text": (lambda good: b"no database at all" * 20, "not a database of svc-emulator (nor any SQLite file)"),
    "short": (lambda good: good[:50], "not a database of svc-emulator (nor any SQLite file)"),
    "another program's": (
        lambda good: _database(lambda c: c.execute("CREATE TABLE t (a)")),
        "a SQLite file of another program",
    ),
    "newer": (lambda good: good[:60] + (FORMAT + 1).to_bytes(4, "big") + good[64:], f"format {FORMAT + 1}, and this"),
    "cut off": (lambda good: good[:-8192], "damaged: "),
    "header only": (lambda good: good[:4096], "damaged: "),
    "a page overwritten": (lambda good: good[:8192] + b"\x55" * 4096 + good[12288:], "damaged: "),
    "a table missing": (_with("DROP TABLE usage_minutes"), OTHER_TABLES),
    "a table too many": (_with("CREATE TABLE t (a)"), OTHER_TABLES),
    "a trigger": (_with("CREATE TRIGGER t AFTER DELETE ON meta BEGIN DELETE FROM events; END"), OTHER_TABLES),
    "no state": (_with("DELETE FROM checkpoint"), "damaged: "),
    "a broken state": (_with("UPDATE checkpoint SET state = ?", b"\xff\x00"), "damaged: "),
    "no base": (_with("DELETE FROM meta WHERE name = 'base_checkpoint'"), "damaged: "),
    "a broken base": (_with_meta("base_checkpoint", b"\x80"), "damaged: "),
    "no setup": (_with("DELETE FROM meta WHERE name = 'world'"), "damaged: "),
    "a broken setup": (_with_meta("world", b"[1]"), "damaged: "),
    "an epoch of no calendar": (
        _with_meta("world", b'{"id": "default", "seed": 0, "epoch_ms": %d, "rate": 0, "plan": "paid"}' % 10**18),
        "damaged: ",
    ),
    "a broken clock": (_with_meta("clock", b'{"rate": 1}'), "damaged: "),
    "a broken fact": (_with_fact(b"\x93\x01"), "damaged: "),
    "an unknown fact": (_with_fact(codec.encode([("Unheard", {})])), "damaged: "),
    "a fact about nothing": (
        _with_fact(codec.encode([("MessageDelivered", {"message_id": "msg_0", "at_ms": EPOCH_MS})])),
        "damaged: ",
    ),
    "a broken message": (_with("UPDATE messages SET definition = ?", b"\x00"), "damaged: "),
    "a broken attempt": (_with("UPDATE attempts SET outcome = ?", b"\xa1x"), "damaged: "),
    "an instant that is none": (
        _with("UPDATE attempts SET at_ms = ?", b""),
        "damaged: table attempts, row 4, column at_ms: expected an instant from 1970 to 9999",
    ),
    "an unknown event": (_with("UPDATE events SET state = 'LOST'"), "damaged: "),
    # A reader that counts through history would never reach the end.
    "an event far ahead": (
        _with("UPDATE events SET seq = ? WHERE seq = 1", 2**40),
        "damaged: its history ends with entry",
    ),
    "numbers to come far ahead": (_with_meta("history_seq", b"%d" % 2**62), "damaged: its history ends with"),
    "an event of no message": (_with("UPDATE events SET number = 999"), "damaged: "),
}


@pytest.fixture(scope="module")
def good() -> bytes:
    """The file of a world with history and pending work."""
    found: list[bytes] = []

    @on_loop
    async def make() -> None:
        async with in_process() as emulator:
            await much_of_everything(emulator)
            await save(emulator)
            found.append(await export(emulator))

    make()
    return found[0]


@pytest.mark.slow
@each_store
@on_loop
async def test_file_that_cannot_be_used_changes_nothing_and_says_why(
    tmp_path: Path, is_file: bool, good: bytes
) -> None:
    async with in_process(db=db_of(tmp_path, is_file=is_file)) as emulator:
        await emulator.publish(HOOK, {"Svc-Delay": "1h"})
        await save(emulator)
        before, file = await told(emulator), await export(emulator)
        for what, (spoil, reason) in BAD.items():
            for name in ("s", "new"):
                answer = await import_snapshot(emulator, spoil(good), name)
                assert (answer.status, answer.json.get("field")) == (400, "body"), what
                error = answer.json["error"]
                assert error.startswith(f"body: {reason}"), what
                assert what == "empty" or error.endswith("; nothing was changed"), (what, error)
                assert "\n" not in error
                assert PYTHON.search(error) is None, (what, error)
                assert str(tmp_path) not in error
                assert "svc-emulator-" not in error
        assert await names(emulator) == ["s"]
        assert await export(emulator) == file
        assert await told(emulator) == before
        # Nor is anything left of them.
        assert emulator.world.snapshots._folder is not None
        assert os.listdir(emulator.world.snapshots._folder) == ["s.db"]
        assert (await import_snapshot(emulator, good, "new")).status == 201


@pytest.mark.slow
@on_loop
async def test_import_of_a_file_with_a_flipped_bit_is_done_or_refused_in_one_line(good: bytes) -> None:
    """D-284: what is inside a value SQLite cannot know."""
    chance = random.Random(0)

    async with in_process() as emulator:
        refused = 0
        for _ in range(40):
            spoilt = bytearray(good)
            spoilt[chance.randrange(len(good))] ^= 1 << chance.randrange(8)
            answer = await import_snapshot(emulator, bytes(spoilt))
            assert answer.status in (200, 201, 400)
            if answer.status == 400:
                refused += 1
                assert "\n" not in answer.json["error"]
        assert 0 < refused < 40


# -- what lasts (D-205) -----------------------------------------------------------------------


@pytest.mark.slow
@on_loop
async def test_snapshots_survive_a_restart_and_a_reset(tmp_path: Path) -> None:
    db = str(tmp_path / "w.db")

    async with in_process(db=db) as emulator:
        await create(emulator.emulation.worlds, "other")
        await emulator.publish(HOOK, {"Svc-Delay": "1h"})
        await save(emulator, "a.b")
        await save(emulator, "c", "other")
        listed = (await emulator.control("GET", "/snapshots")).json
        await emulator.control("POST", "/reset")
        assert (await emulator.control("GET", "/snapshots")).json == listed
    async with in_process(db=db) as again:
        assert (await again.control("GET", "/snapshots")).json == listed
        assert await names(again, "other") == ["c"]
        assert (await restore(again, "a.b"))["clock"]["pending"] == 1
        assert (tmp_path / "w.db-snapshots" / "default" / "a.b.db").is_file()
    # What was restored is what the next start finds.
    async with in_process(db=db) as last:
        assert len(last.world.state.messages) == 1


@on_loop
async def test_snapshots_go_with_their_world(tmp_path: Path) -> None:
    async with in_process(db=str(tmp_path / "w.db")) as emulator:
        worlds = emulator.emulation.worlds
        for _ in range(2):
            await create(worlds, "other")
            assert await names(emulator, "other") == []
            await save(emulator, "s", "other")
            await worlds.delete("other")
        assert not (tmp_path / "w.db-snapshots" / "other").exists()


@on_loop
async def test_snapshots_of_a_world_in_memory_end_with_it() -> None:
    async with in_process() as emulator:
        other = await create(emulator.emulation.worlds, "other")
        assert await names(emulator) == []
        assert emulator.world.snapshots._folder is None
        await save(emulator)
        await save(emulator, "s", "other")
        own, others = emulator.world.snapshots._folder, other.snapshots._folder
        assert own is not None
        assert others is not None
        assert os.listdir(own) == os.listdir(others) == ["s.db"]
        await emulator.emulation.worlds.delete("other")
        assert not others.exists()
        assert own.exists()
    assert not own.exists()


# -- when something fails ---------------------------------------------------------------------


@contextlib.asynccontextmanager
async def with_a_snapshot(tmp_path: Path, *, is_file: bool) -> AsyncIterator[InProcess]:
    """A world that has gone on since its snapshot was saved."""
    async with in_process(db=db_of(tmp_path, is_file=is_file)) as emulator:
        await emulator.publish(HOOK)
        await save(emulator)
        await much_of_everything(emulator)
        yield emulator


async def assert_goes_on(emulator: InProcess, before: list[bytes]) -> None:
    assert await told(emulator) == before
    await emulator.publish(HOOK)
    await emulator.advance("1h")
    assert (await restore(emulator))["clock"]["pending"] == 0


@pytest.mark.slow
@each_store
@on_loop
async def test_restore_that_fails_leaves_the_world_as_it_was(tmp_path: Path, is_file: bool) -> None:
    async with with_a_snapshot(tmp_path, is_file=is_file) as emulator:
        before = await told(emulator)
        failures = ["a fault of this one connection"]

        def fail_half_way(statement: str) -> None:
            # As a disk that is full would end it, in the middle.
            if failures and statement == schema.TAKE_COPY[len(schema.TAKE_COPY) // 2]:
                raise sqlite3.OperationalError(failures.pop())

        await watch_statements(emulator.world._store, fail_half_way)
        refused = await emulator.control("POST", "/snapshots/s/restore")
        assert refused.status == 409
        assert "cannot be restored" in refused.json["error"]
        await assert_goes_on(emulator, before)


@pytest.mark.slow
@each_store
@on_loop
async def test_snapshot_that_was_damaged_since_is_refused(tmp_path: Path, is_file: bool) -> None:
    async with with_a_snapshot(tmp_path, is_file=is_file) as emulator:
        before, file = await told(emulator), await export(emulator)
        assert emulator.world.snapshots._folder is not None
        path = emulator.world.snapshots._folder / "s.db"
        path.write_bytes(file[:4096])

        refused = await emulator.control("POST", "/snapshots/s/restore")

        assert refused.status == 409
        assert "the snapshot s cannot be read: damaged" in refused.json["error"]
        assert await names(emulator) == []
        path.write_bytes(file)
        await assert_goes_on(emulator, before)


@on_loop
async def test_save_that_fails_is_a_conflict_and_the_world_goes_on() -> None:
    async with in_process() as emulator:
        await save(emulator)
        await emulator.publish(HOOK)
        before = await told(emulator)
        folder = emulator.world.snapshots._folder
        assert folder is not None
        emulator.world.snapshots._folder = folder / "s.db"

        refused = await emulator.control("POST", "/snapshots", {"name": "t"})

        assert refused.status == 409
        assert refused.json["error"].startswith("the snapshot t cannot be written: ")
        emulator.world.snapshots._folder = folder
        await assert_goes_on(emulator, before)


@on_loop
async def test_a_snapshot_gets_its_name_when_it_is_whole(tmp_path: Path) -> None:
    folder = tmp_path / "w.db-snapshots" / "default"
    seen: dict[str, set[bytes]] = {}

    async def look() -> None:
        while True:
            for path in folder.glob("[!.]*"):
                seen.setdefault(path.name, set()).add(path.read_bytes())
            await asyncio.sleep(0)

    async with in_process(db=str(tmp_path / "w.db")) as emulator:
        looking = asyncio.get_running_loop().create_task(look())
        await save(emulator, "saved")
        await import_snapshot(emulator, await export(emulator, "saved"), "brought")
        looking.cancel()
    assert seen == {path.name: {path.read_bytes()} for path in folder.iterdir()}
    assert seen.keys() == {"saved.db", "brought.db"}


@pytest.mark.slow
@on_loop
async def test_what_a_kill_during_a_save_or_an_import_leaves_is_removed(tmp_path: Path) -> None:
    folder = tmp_path / "w.db-snapshots" / "default"
    async with in_process(db=str(tmp_path / "w.db")) as emulator:
        await save(emulator)
        file = await export(emulator)
    # Until a file is whole it has a hidden name, beside those of SQLite.
    for name, content in ((".s.new", file), (".t.new", file[:5_000]), (".t.new-journal", b"x"), (".t.given", file)):
        (folder / name).write_bytes(content)
    (folder / ".t.given-wal").write_bytes(b"x")
    (folder / ".kept").mkdir()
    async with in_process(db=str(tmp_path / "w.db")) as again:
        assert sorted(path.name for path in folder.iterdir()) == [".kept", "s.db"]
        await restore(again)


@pytest.mark.slow
@on_loop
async def test_kill_during_a_restore_leaves_one_world_or_the_other(tmp_path: Path) -> None:
    db = tmp_path / "w.db"
    copies: dict[Path, dict[str, bytes]] = {}
    statements: list[str] = []

    def copy_files(statement: str) -> None:
        statements.append(statement)
        copy = crash(db, tmp_path / f"copy{len(statements)}")
        content = {each.name: each.read_bytes() for each in copy.parent.iterdir()}
        # Most statements change no file.
        if [content] != [*copies.values()][-1:]:
            copies[copy] = content

    async with in_process(db=str(db)) as emulator:
        await emulator.publish(HOOK)
        await save(emulator)
        saved = (await emulator.control("GET", "/trace")).body
        await much_of_everything(emulator)
        later = (await emulator.control("GET", "/trace")).body
        await watch_statements(emulator.world._store, copy_files)
        await restore(emulator)
        copy_files("the last")

    found = []
    for copy in copies:
        async with in_process(db=str(copy)) as again:
            found.append((await again.control("GET", "/trace")).body)
            assert found[-1] in (saved, later)
            await again.publish(HOOK)
    assert found[0] == later
    assert found[-1] == saved
    # Once it is the other, it stays the other.
    assert found == sorted(found, key=lambda trace: trace == saved)
    assert len(statements) > len(schema.TAKE_COPY)
