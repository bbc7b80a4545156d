"""Databases of older formats: opened as they are, imported, and refused where they are damaged."""

from __future__ import annotations

import contextlib
import sqlite3
import tarfile
from pathlib import Path

import msgspec
import pytest

from emulator.core import facts
from emulator.core.errors import Conflict, InvalidInput
from emulator.core.model import AttemptOutcome, MessageId, Via
from emulator.journal import checksums, codec, files, integrity, migrations, schema
from emulator.journal.history import History
from emulator.journal.snapshots import Snapshots
from emulator.journal.store import open_store
from tests.harness.loops import on_loop
from tests.harness.snapshots import pieces
from tests.harness.stores import kept

FORMAT_1 = Path(__file__).parent.parent / "golden"


@pytest.fixture(params=["stopped", "crashed"])
def old(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A database of format 1 with its snapshots, as the code of that format left it."""
    with tarfile.open(FORMAT_1 / f"format-1-{request.param}.tar.xz") as packed:
        packed.extractall(tmp_path, filter="data")
    return tmp_path / "state.db"


def connected(path: Path) -> contextlib.closing[sqlite3.Connection]:
    connection = sqlite3.connect(path, isolation_level=None)
    checksums.register(connection)
    return contextlib.closing(connection)


def counted(path: Path, *names: str) -> list[int]:
    with connected(path) as connection:
        return [connection.execute(f"SELECT count(*) FROM {name}").fetchone()[0] for name in names]


def test_a_file_of_format_1_gets_the_tables_of_the_present_format_and_loses_no_row(old: Path) -> None:
    same = ("facts", "checkpoint", "messages", "events", "attempts", "dead_letters", "usage_minutes", "usage_days")
    before = counted(old, *same, "remarks")
    with connected(old) as connection:
        assert migrations.format_of(connection) == 1
        assert migrations.schema_digest(connection) == migrations.rules_of(1).tables

    migrations.migrate(old)

    assert counted(old, *same, "annotations") == before
    with connected(old) as connection:
        assert migrations.format_of(connection) == schema.FORMAT
        assert migrations.schema_digest(connection) == migrations.rules_of(schema.FORMAT).tables
        names = set(codec.whole_meta(connection.execute(schema.SELECT_META)))
        assert list(integrity.find_damage(connection)) == []
    assert names & {"origin", "life", "seal"} == set()
    assert schema.BASE_CHECKPOINT in names


@pytest.mark.slow
def test_a_world_of_format_1_goes_on_with_its_work_and_its_history(old: Path) -> None:
    entries = sum(counted(old, "events", "attempts"))

    @on_loop
    async def test() -> None:
        store, has_world = await open_store(str(old))
        try:
            assert has_world
            state = await store.resume()
            assert state.messages
            assert list(state.timers)
            # A crash may leave facts that history does not show yet.
            assert len([entry async for entry in History(store).trace()]) >= entries > 0
        finally:
            await store.close()

    test()


@pytest.mark.slow
def test_a_snapshot_of_format_1_is_read_and_keeps_a_right_checksum(old: Path) -> None:
    folder = old.parent / "state.db-snapshots" / "default"
    (name,) = (path.stem for path in folder.iterdir())
    before = counted(folder / f"{name}.db", "events", "attempts", "remarks")

    @on_loop
    async def test() -> None:
        snapshots = Snapshots(folder)
        (shown,) = await snapshots.all()
        async with snapshots.read(name) as saved:
            assert (saved.state.now_ms, len(saved.state.messages)) == (shown.now_ms, shown.pending)
            assert saved.base.accounts
        assert counted(folder / f"{name}.db", "events", "attempts", "annotations") == before
        # An import verifies the checksum.
        with snapshots.open(name) as file:
            await snapshots.put("copy", pieces(file.read()), lambda _: None)

    test()


@pytest.mark.slow
def test_an_exported_file_of_format_1_is_imported_and_one_that_was_changed_is_refused(old: Path) -> None:
    folder = old.parent / "state.db-snapshots" / "default"
    (path,) = folder.iterdir()
    content = path.read_bytes()
    with connected(path) as connection:
        connection.execute("UPDATE messages SET caller_ip = '203.0.113.8' WHERE number = 1")
    changed = path.read_bytes()
    with connected(path) as connection:
        connection.execute("CREATE TRIGGER t AFTER DELETE ON meta BEGIN DELETE FROM events; END")
    other_tables = path.read_bytes()
    path.unlink()

    @on_loop
    async def test() -> None:
        snapshots = Snapshots(folder)
        shown, is_new = await snapshots.put("old", pieces(content), lambda _: None)
        assert is_new
        assert shown.pending > 0
        for spoilt, reason in (
            (changed, "its content is not what was saved"),
            (other_tables, "its tables are not those of format 1"),
        ):
            with pytest.raises(InvalidInput, match=f"damaged: {reason}; nothing was changed"):
                await snapshots.put("spoilt", pieces(spoilt), lambda _: None)
        assert [each.name for each in await snapshots.all()] == ["old"]

    test()


@pytest.mark.slow
def test_a_snapshot_of_format_1_that_is_damaged_is_refused_under_its_own_name_and_stays(old: Path) -> None:
    folder = old.parent / "state.db-snapshots" / "default"
    (path,) = folder.iterdir()
    with connected(path) as connection:
        connection.execute("UPDATE checkpoint SET image = x'c1'")
    content = path.read_bytes()

    @on_loop
    async def test() -> None:
        with pytest.raises(Conflict) as refused:
            async with Snapshots(folder).read(path.stem):
                pass
        assert refused.value.text.startswith(f"the snapshot {path.stem} cannot be read: cannot be brought to format 3")
        assert str(folder) not in refused.value.text
        assert list(folder.iterdir()) == [path]
        assert path.read_bytes() == content

    test()


def test_a_step_that_fails_changes_nothing(old: Path) -> None:
    with connected(old) as connection:
        connection.execute("UPDATE checkpoint SET image = x'c1'")
        before = list(connection.iterdump())
    with pytest.raises(files.UnusableDatabase, match="cannot be brought to format 3"):
        migrations.migrate(old)
    with connected(old) as connection:
        assert list(connection.iterdump()) == before
        assert migrations.format_of(connection) == 1


def test_a_fact_that_was_renamed_is_applied_again(tmp_path: Path) -> None:
    path = tmp_path / "w.db"

    @on_loop
    async def test() -> None:
        async with kept(path) as world:
            world.publish("https://a.example.com/", delay_ms=1_000)

    test()
    delayed = facts.ResponseDelayed(
        message_id=MessageId("msg_1"), outcome=AttemptOutcome(response=None, error="x", via=Via.RULE), due_ms=5
    )
    (encoded,) = msgspec.msgpack.decode(codec.encode_facts([delayed]))
    payload = msgspec.msgpack.encode([("AnswerPromised", encoded[1])])
    with connected(path) as connection:
        # The file as format 1 would have had it.
        for table in schema.WORKFLOWS:
            connection.execute(f"DROP TABLE {table.name}")
        for table in schema.TABLES[: -len(schema.WORKFLOWS)]:
            connection.execute(f"ALTER TABLE {table.name} DROP COLUMN checksum")
        connection.execute("INSERT INTO facts (last_seq, count, payload) VALUES (100, 1, ?)", (payload,))
        state, base = (
            connection.execute(statement).fetchone()[0]
            for statement in (
                "SELECT state FROM checkpoint",
                "SELECT value FROM meta WHERE name = 'base_checkpoint'",
            )
        )
        for statement in (
            "ALTER TABLE annotations RENAME TO remarks",
            "ALTER TABLE checkpoint RENAME COLUMN state TO image",
            "DROP INDEX annotations_of_message",
            "CREATE INDEX remarks_of_message ON remarks (message_id)",
            "UPDATE meta SET name = 'origin' WHERE name = 'base_checkpoint'",
            "PRAGMA user_version = 1",
        ):
            connection.execute(statement)
        connection.execute("UPDATE checkpoint SET image = ?", (of_format_1(state),))
        connection.execute("UPDATE meta SET value = ? WHERE name = 'origin'", (of_format_1(base),))
        assert migrations.schema_digest(connection) == migrations.rules_of(1).tables

    migrations.migrate(path)

    with connected(path) as connection:
        assert [is_whole for *_, is_whole in connection.execute(schema.SELECT_FACTS, (0,))] == [1]
        ((read,),) = connection.execute("SELECT payload FROM facts")
        assert list(codec.decode_facts(read)) == [delayed]
        for statement, before in (
            ("SELECT state FROM checkpoint", state),
            ("SELECT value FROM meta WHERE name = 'base_checkpoint'", base),
        ):
            ((after,),) = connection.execute(statement)
            assert msgspec.msgpack.decode(after) == msgspec.msgpack.decode(before)


def of_format_1(checkpoint: bytes) -> bytes:
    decoded = msgspec.msgpack.decode(checkpoint)
    decoded["accounts"] = [
        {("queue_books" if name == "queue_loads" else name): value for name, value in account.items()}
        for account in decoded["accounts"]
    ]
    return msgspec.msgpack.encode(decoded)
