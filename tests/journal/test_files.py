"""Files that are not ours are refused in one line, and not touched."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from emulator.core.checkpoint import capture
from emulator.journal import schema
from emulator.journal.files import UnusableDatabase
from emulator.journal.schema import APPLICATION_ID, FORMAT
from emulator.journal.store import open_store
from tests.harness.loops import on_loop
from tests.harness.simulations import World, make_account
from tests.harness.stores import connection_of, copied_at_every_step, crash, kept

APPLICATION_OFFSET, VERSION_OFFSET = 68, 60


def refusal(path: Path) -> str:
    """The one line with which a file is refused."""

    async def open_it() -> None:
        store, has_world = await open_store(str(path))
        try:
            if has_world:
                await store.resume()
        finally:
            await store.close()

    with pytest.raises(UnusableDatabase) as refused:
        asyncio.run(open_it())
    text = str(refused.value)
    assert "\n" not in text
    assert text.startswith(f"{path}: ")
    return text.removeprefix(f"{path}: ")


def assert_untouched(path: Path, expected: str) -> None:
    content, neighbours, changed_ns = path.read_bytes(), sorted(path.parent.iterdir()), path.stat().st_mtime_ns

    assert expected in refusal(path)

    assert path.read_bytes() == content
    assert path.stat().st_mtime_ns == changed_ns
    assert sorted(path.parent.iterdir()) == neighbours


def make_database(path: Path) -> None:
    @on_loop
    async def make() -> None:
        async with kept(path) as world:
            world.publish("https://a.example.com/")

    make()


@pytest.mark.parametrize("mode", ["DELETE", "WAL"])
def test_sqlite_file_of_another_program(tmp_path: Path, mode: str) -> None:
    connection = sqlite3.connect(tmp_path / "other.db", isolation_level=None)
    connection.execute(f"PRAGMA journal_mode = {mode}")
    connection.execute("CREATE TABLE theirs (x)")
    connection.execute("INSERT INTO theirs VALUES (1)")
    copy = crash(tmp_path / "other.db", tmp_path / "copy")
    connection.close()

    assert_untouched(copy, "a SQLite file of another program; nothing was changed")


@pytest.mark.parametrize(
    "content",
    [b"just some text, " * 20, b"x", b"SQLite format 3\x00", b"\x00" * 5000],
    ids=["text", "one byte", "cut short", "zeros"],
)
def test_file_that_is_no_database(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "notes.txt"
    path.write_bytes(content)

    assert_untouched(path, "not a database of svc-emulator")


@pytest.mark.parametrize(
    ("step", "remedy"), [(1, "update svc-emulator"), (-1, "open it with the version that wrote it")]
)
def test_another_format_is_refused_with_what_to_do(tmp_path: Path, step: int, remedy: str) -> None:
    """D-551."""
    path = tmp_path / "w.db"
    make_database(path)
    content = bytearray(path.read_bytes())
    assert int.from_bytes(content[VERSION_OFFSET : VERSION_OFFSET + 4], "big") == FORMAT
    content[VERSION_OFFSET : VERSION_OFFSET + 4] = (FORMAT + step).to_bytes(4, "big")
    path.write_bytes(content)

    assert_untouched(
        path,
        f"format {FORMAT + step}, and this version of svc-emulator reads format {FORMAT} only: {remedy}, "
        "or begin with a new file; nothing was changed",
    )


def test_directories(tmp_path: Path) -> None:
    assert refusal(tmp_path) == "is a directory, expected a file"
    path = tmp_path / "none" / "w.db"
    assert refusal(path) == f"the directory {path.parent} does not exist"
    assert not path.parent.exists()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")
def test_pipe(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)

    assert refusal(path) == "is no ordinary file"


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="no directory here that nobody can write to")
def test_directory_that_cannot_be_written() -> None:
    assert refusal(Path("/proc/svc-emulator.db")) == "No such file or directory"


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="the superuser may read and write anything")
@pytest.mark.parametrize("mode", [0o000, 0o444], ids=["not readable", "not writable"])
def test_file_without_permission(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "w.db"
    make_database(path)
    path.chmod(mode)

    assert refusal(path) == "Permission denied"


HOLD = """
import asyncio, sys
from pathlib import Path
from tests.harness.stores import kept

async def main():
    async with kept(Path(sys.argv[1])) as world:
        world.publish("https://a.example.com/")
        await world.store.writer.commit()
        print("open", flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)

asyncio.run(main())
"""


@pytest.mark.slow
def test_file_in_use_by_another_process(tmp_path: Path) -> None:
    path = tmp_path / "w.db"
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdin is not None
        assert holder.stdout is not None
        assert holder.stdout.readline() == "open\n"
        wal = path.with_name("w.db-wal")
        before = wal.read_bytes()

        assert_untouched(path, "in use by another process")

        assert wal.read_bytes() == before
        holder.stdin.close()
    assert holder.returncode == 0
    assert_holds_messages(path, 1)


def assert_holds_messages(path: Path, count: int) -> None:
    @on_loop
    async def check() -> None:
        async with kept(path) as world:
            assert world.simulation.state.counters.messages == count

    check()


@on_loop
async def test_kill_right_after_the_creation_leaves_a_whole_world(tmp_path: Path) -> None:
    async with kept(tmp_path / "w.db") as world:
        copy = crash(tmp_path / "w.db", tmp_path / "copy")
        header = copy.read_bytes()[:100]
        assert int.from_bytes(header[APPLICATION_OFFSET : APPLICATION_OFFSET + 4], "big") == APPLICATION_ID
        first = world.snapshot()
    async with kept(copy) as again:
        assert again.snapshot() == first


def _first_page_alone(path: Path) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.executescript("PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE; COMMIT;")
    connection.close()
    assert path.stat().st_size == 4096


def _killed_while_tables_were_made(path: Path) -> None:
    first = path.with_name("first.db")
    connection = sqlite3.connect(first, isolation_level=None)
    connection.execute("PRAGMA cache_size = 1")
    connection.executescript("CREATE TABLE t (x); DROP TABLE t;")
    connection.executescript(schema.CREATE)
    connection.execute("INSERT INTO facts VALUES (1, 1, randomblob(100000))")
    crash(first, path.parent / "copy").replace(path)
    path.with_name("copy").joinpath("first.db-journal").replace(path.with_name("w.db-journal"))
    connection.close()


@on_loop
async def _log_alone(path: Path) -> None:
    async with kept(path.with_name("first.db")) as world:
        world.publish("https://a.example.com/")
        await world.store.writer.commit()
        path.with_name("w.db-wal").write_bytes(path.with_name("first.db-wal").read_bytes())


@pytest.mark.parametrize(
    "leave", [lambda path: None, Path.touch, _first_page_alone, _killed_while_tables_were_made, _log_alone]
)
def test_half_made_file_of_an_earlier_version_becomes_a_database(
    tmp_path: Path, leave: Callable[[Path], object]
) -> None:
    """D-280: an earlier one left a first page without tables when its process was killed.

    So does no file, an empty one, and one of which a log alone is left.
    """
    path = tmp_path / "w.db"
    leave(path)

    make_database(path)

    assert_holds_messages(path, 1)


def test_database_has_its_name_only_when_it_is_whole(tmp_path: Path) -> None:
    """D-280."""
    live, whole = tmp_path / "live", list[bool]()
    live.mkdir()

    @on_loop
    async def test() -> None:
        store, _ = await open_store(str(live / "w.db"))
        with copied_at_every_step(live, tmp_path / "copies") as copies:
            await store.begin(capture(World(make_account())._state), {})
        whole.extend((each / "w.db").exists() for each in copies)
        await store.close()

    test()

    assert {False, True} == set(whole)
    assert whole == sorted(whole)
    for path in (tmp_path / "copies").glob("*/w.db"):
        assert_holds_messages(path, 0)
    assert [path.name for path in live.iterdir()] == ["w.db"]
    assert_holds_messages(live / "w.db", 0)


def test_log_with_rewritten_pages_of_an_unfinished_transaction_is_no_damage(tmp_path: Path) -> None:
    """D-285: a transaction larger than SQLite's cache writes its pages to the log, some of them twice."""
    path, copy = tmp_path / "w.db", tmp_path / "copy" / "w.db"
    log = path.with_name("w.db-wal")

    @on_loop
    async def leave_a_transaction_half_done() -> None:
        async with kept(path) as world:
            for number in range(3):
                world.publish(f"https://a.example.com/{number}")
            await world.store.writer.commit()
            connection = await connection_of(world.store)
            connection.executescript("PRAGMA cache_size = 10; PRAGMA cache_spill = 10; BEGIN IMMEDIATE;")
            connection.execute("CREATE TABLE filler (key INTEGER PRIMARY KEY, value)")
            connection.execute(
                "WITH RECURSIVE n(x) AS (VALUES (1) UNION ALL SELECT x + 1 FROM n WHERE x < 200) "
                "INSERT INTO filler SELECT x, randomblob(1000) FROM n"
            )
            spilled = log.read_bytes()
            connection.execute("UPDATE filler SET value = randomblob(1000)")
            assert log.read_bytes()[: len(spilled)] != spilled
            crash(path, copy.parent)
            connection.execute("ROLLBACK")

    leave_a_transaction_half_done()

    assert_holds_messages(copy, 3)


def test_damaged_database_is_refused_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "w.db"
    make_database(path)
    content = path.read_bytes()
    path.write_bytes(content[:4096] + b"\x55" * (len(content) - 4096))

    assert refusal(path) == "database disk image is malformed"
    path.write_bytes(content)
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("DELETE FROM checkpoint")
    assert refusal(path) == "damaged: the state of the world is missing"


# -- a real kill ------------------------------------------------------------------------------

PUBLISH = """
import asyncio, sys
from pathlib import Path
from emulator.journal.writer import Thresholds
from tests.harness.stores import kept

async def main():
    async with kept(Path(sys.argv[1]), thresholds=Thresholds(checkpoint_at=500, project_at=100)) as world:
        async def publish(publisher):
            while True:
                message_id = world.publish("https://a.example.com/", delay_ms=publisher * 1000)
                await world.store.writer.commit()
                print(message_id, flush=True)

        await asyncio.gather(*(publish(publisher) for publisher in range(8)))

asyncio.run(main())
"""


@pytest.mark.slow
@pytest.mark.parametrize("acknowledged", [1, 300, 1500])
def test_every_acknowledged_message_survives_a_kill(tmp_path: Path, acknowledged: int) -> None:
    path = tmp_path / "w.db"
    known: list[str] = []
    for _ in range(2):
        with subprocess.Popen(
            [sys.executable, "-c", PUBLISH, str(path)], stdout=subprocess.PIPE, text=True
        ) as publisher:
            assert publisher.stdout is not None
            for _ in range(acknowledged):
                known.append(publisher.stdout.readline().strip())
            publisher.kill()
            # Acknowledged is all that was said, also what is read only now; a line cut short is not.
            known += [line.strip() for line in publisher.stdout if line.endswith("\n")]

    @on_loop
    async def check() -> None:
        async with kept(path) as world:
            created = [event.message.message_id for event in await world.events() if event.state.value == "CREATED"]
            assert set(created) >= set(known)
            assert len(created) == len(set(created)) == world.simulation.state.counters.messages
            world.run_for(60_000)
            assert len(world.simulation.state.messages) == 0

    check()
    assert len(known) >= 2 * acknowledged
