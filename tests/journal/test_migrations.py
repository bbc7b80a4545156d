"""Databases of older formats: opened as they are, imported, and refused where they are damaged."""

from __future__ import annotations

import contextlib
import sqlite3
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from emulator.core import facts
from emulator.core.errors import Conflict, InvalidInput
from emulator.core.model.answers import AttemptOutcome, Via
from emulator.core.model.messages import Message
from emulator.core.model.names import MessageId
from emulator.core.timers import Timer
from emulator.journal import checksums, codec, files, integrity, migrations, schema, tables
from emulator.journal.history import History
from emulator.journal.snapshots import Snapshots
from emulator.journal.store import open_store
from tests.harness.loops import on_loop
from tests.harness.snapshots import pieces

GOLDEN = Path(__file__).parent.parent / "golden"


@pytest.fixture(params=["stopped", "crashed"])
def old(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A database of format 1 with its snapshots, as the code of that format left it."""
    with tarfile.open(GOLDEN / f"format-1-{request.param}.tar.xz") as packed:
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
    same = ("facts", "checkpoint", "messages", "events", "attempts", "dead_letters", "usage_minutes")
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
        assert refused.value.text.startswith(f"the snapshot {path.stem} cannot be read: cannot be brought to format 4")
        assert str(folder) not in refused.value.text
        assert list(folder.iterdir()) == [path]
        assert path.read_bytes() == content

    test()


def test_a_step_that_fails_changes_nothing(old: Path) -> None:
    with connected(old) as connection:
        connection.execute("UPDATE checkpoint SET image = x'c1'")
        before = list(connection.iterdump())
    with pytest.raises(files.UnusableDatabase, match="cannot be brought to format 4"):
        migrations.migrate(old)
    with connected(old) as connection:
        assert list(connection.iterdump()) == before
        assert migrations.format_of(connection) == 1


def test_a_fact_that_was_renamed_is_applied_again(old: Path) -> None:
    delayed = facts.ResponseDelayed(
        message_id=MessageId("msg_1"), outcome=AttemptOutcome(response=None, error="x", via=Via.RULE), due_ms=5
    )
    (encoded,) = msgspec.msgpack.decode(codec.encode_facts([delayed]))
    payload = msgspec.msgpack.encode([("AnswerPromised", encoded[1])])
    with connected(old) as connection:
        connection.execute("INSERT INTO facts (last_seq, count, payload) VALUES (1000000, 1, ?)", (payload,))

    migrations.migrate(old)

    with connected(old) as connection:
        *_, (_, _, read, _) = found = connection.execute(schema.SELECT_FACTS, (0,)).fetchall()
    assert {is_whole for *_, is_whole in found} == {1}
    assert list(codec.decode_facts(read)) == [delayed]


def test_a_field_of_a_state_that_was_renamed_keeps_its_value(old: Path) -> None:
    def states(*statements: str) -> list[bytes]:
        with connected(old) as connection:
            return [connection.execute(statement).fetchone()[0] for statement in statements]

    before = states("SELECT image FROM checkpoint", "SELECT value FROM meta WHERE name = 'origin'")

    migrations.migrate(old)

    after = states("SELECT state FROM checkpoint", "SELECT value FROM meta WHERE name = 'base_checkpoint'")
    assert [accounts_of_format_1(each) for each in after] == [
        msgspec.msgpack.decode(each)["accounts"] for each in before
    ]


@pytest.fixture(params=["stopped", "crashed"])
def of_format_3(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A database of format 3: its counts are of single minutes, and it names each field of a message."""
    with tarfile.open(GOLDEN / f"format-3-{request.param}.tar.xz") as packed:
        packed.extractall(tmp_path, filter="data")
    return tmp_path / "state.db"


def test_counts_of_format_3_are_summed_up(of_format_3: Path) -> None:
    """D-401."""
    with connected(of_format_3) as connection:
        assert migrations.schema_digest(connection) == migrations.rules_of(3).tables
        assert list(integrity.find_damage(connection)) == []
        counts = connection.execute("SELECT * FROM usage_minutes ORDER BY account_id, minute").fetchall()

    migrations.migrate(of_format_3)

    expected: list[list[object]] = []
    so_far: dict[str, list[int]] = {}
    for account_id, minute, *row, _ in counts:
        so_far[account_id] = [sum(each) for each in zip(so_far.get(account_id, [0] * len(row)), row, strict=True)]
        expected.append([account_id, minute, *so_far[account_id]])
    with connected(of_format_3) as connection:
        assert [list(row[:-1]) for row in connection.execute(tables.USAGE_MINUTES.contents)] == expected
        assert list(integrity.find_damage(connection)) == []


def test_a_damaged_count_of_format_3_is_told_and_nothing_changes(of_format_3: Path) -> None:
    """D-401: it would be part of all counts after it."""
    with connected(of_format_3) as connection:
        connection.execute(
            "UPDATE usage_minutes SET delivered = delivered + 1 WHERE (account_id, minute) = "
            "(SELECT account_id, minute FROM usage_minutes LIMIT 1)"
        )
        before = list(connection.iterdump())
    with pytest.raises(files.UnusableDatabase, match=r"usage_minutes: 1 of .* rows are not what was written"):
        migrations.migrate(of_format_3)
    with connected(of_format_3) as connection:
        assert list(connection.iterdump()) == before


def accounts_of_format_1(checkpoint: bytes) -> object:
    return [
        {("queue_books" if name == "queue_loads" else name): value for name, value in account.items()}
        for account in msgspec.msgpack.decode(checkpoint)["accounts"]
    ]


def test_messages_of_format_3_keep_every_field(of_format_3: Path) -> None:
    """D-403."""

    def read(read_message: Callable[[bytes], object]) -> tuple[list[Any], list[Any], dict[str, Any]]:
        with connected(of_format_3) as connection:
            definitions = connection.execute("SELECT definition FROM messages ORDER BY number").fetchall()
            groups = connection.execute("SELECT payload FROM facts ORDER BY last_seq").fetchall()
            ((checkpoint,),) = connection.execute("SELECT state FROM checkpoint").fetchall()
        made = [
            fact["message"]
            for (payload,) in groups
            for name, fact in msgspec.msgpack.decode(payload)
            if name == "MessageCreated"
        ]
        return [read_message(each) for (each,) in definitions], made, msgspec.msgpack.decode(checkpoint)

    def named(message: list[Any]) -> dict[str, Any]:
        return without_defaults(dict(zip(Message.__struct_fields__, message, strict=True)))

    old, old_made, before = read(lambda encoded: without_defaults(msgspec.msgpack.decode(encoded)))

    migrations.migrate(of_format_3)

    new, new_made, after = read(lambda encoded: named(msgspec.msgpack.decode(encoded)))
    assert new == old
    assert old
    assert list(map(named, new_made)) == list(map(without_defaults, old_made))
    for name in ("messages", "duplicates"):
        assert [{**each, "message": named(each["message"])} for each in after.get(name, ())] == [
            {**each, "message": without_defaults(each["message"])} for each in before.get(name, ())
        ]
    assert after["timers"] == [[each[name] for name in Timer.__struct_fields__] for each in before["timers"]]
    # The records of today read all of it.
    codec.decode_checkpoint(msgspec.msgpack.encode(after))


def without_defaults(message: dict[str, Any]) -> dict[str, Any]:
    """Whether a field that has its default is stored makes no difference."""
    return {name: value for name, value in message.items() if value not in (None, [], "publish")}


def test_a_damaged_message_of_format_3_is_told_and_nothing_changes(of_format_3: Path) -> None:
    """D-403: it would get a right checksum."""
    with connected(of_format_3) as connection:
        connection.execute("UPDATE messages SET caller_ip = '203.0.113.8' WHERE number = 1")
        (damage,) = integrity.find_damage(connection)
        assert damage.startswith("messages: 1 of ")
        before = list(connection.iterdump())
    with pytest.raises(files.UnusableDatabase, match=r"messages: 1 of .* rows are not what was written"):
        migrations.migrate(of_format_3)
    with connected(of_format_3) as connection:
        assert list(connection.iterdump()) == before
