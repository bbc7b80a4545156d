"""A write-ahead log that a crash has left is told from one that was damaged afterwards."""

from __future__ import annotations

import random
import sqlite3
from pathlib import Path

import pytest

from emulator.journal import write_ahead_log
from emulator.journal.files import UnusableDatabase
from emulator.journal.store import open_store
from tests.harness.loops import on_loop
from tests.harness.stores import crash, kept

FRAME = 24 + 4096


@pytest.fixture
def crashed(tmp_path: Path) -> Path:
    """A database as a kill leaves it, with leftovers of an earlier log behind the present one."""
    path = tmp_path / "made" / "x.db"
    path.parent.mkdir()
    connection = sqlite3.connect(path, isolation_level=None)
    connection.executescript("PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 12; CREATE TABLE t (a, b);")
    for number in range(30):
        connection.execute("INSERT INTO t VALUES (?, ?)", (number, "x" * 3000))
    copy = crash(path, tmp_path / "copy")
    connection.close()
    return copy


def rows(path: Path) -> int:
    connection = sqlite3.connect(path)
    ((count,),) = connection.execute("SELECT count(*) FROM t")
    connection.close()
    return int(count)


def log_of(path: Path) -> Path:
    return path.with_name(f"{path.name}-wal")


def test_log_that_a_crash_left_is_in_order(crashed: Path) -> None:
    assert write_ahead_log.damage_in(crashed) is None
    assert rows(crashed) == 30


def test_no_log_and_an_empty_one_are_in_order(crashed: Path) -> None:
    log_of(crashed).write_bytes(b"")
    assert write_ahead_log.damage_in(crashed) is None
    log_of(crashed).unlink()
    assert write_ahead_log.damage_in(crashed) is None


def test_page_that_was_not_finished_is_in_order(crashed: Path) -> None:
    content = log_of(crashed).read_bytes()
    salts = content[16:24]
    own = [at for at in range(32, len(content), FRAME) if content[at + 8 : at + 16] == salts]
    assert 1 < len(own) < len(content) // FRAME
    # The head of the last page was written, what follows is of an earlier log.
    torn = content[: own[-1] + 24] + bytes(4096) + content[own[-1] + FRAME :]
    for left in (torn, content[: own[-1] + 1000]):
        log_of(crashed).write_bytes(left)
        assert write_ahead_log.damage_in(crashed) is None


@pytest.mark.parametrize("length", [32 + 10, 32 + 24, 32 + FRAME + 100, 32 + 3 * FRAME - 1])
def test_log_that_ends_within_a_page_is_told(crashed: Path, caplog: pytest.LogCaptureFixture, length: int) -> None:
    """D-285."""
    whole = log_of(crashed).read_bytes()
    log_of(crashed).write_bytes(whole[:length])
    assert write_ahead_log.damage_in(crashed) is None
    assert "x.db-wal: the last page was not finished" in caplog.text


@pytest.mark.parametrize("content", [b"S", b"SQLite format 3\x00", bytes(40), b"not a database\n" * 100])
def test_what_is_no_log_is_noticed_whatever_its_length(crashed: Path, content: bytes) -> None:
    log_of(crashed).write_bytes(content)
    assert write_ahead_log.damage_in(crashed) == "the head of its write-ahead log x.db-wal is damaged"


@pytest.mark.parametrize("seed", range(4))
def test_flipped_bit_is_noticed_if_it_would_lose_more_than_the_last_page(crashed: Path, seed: int) -> None:
    """D-285."""
    chance = random.Random(seed)
    content, main = log_of(crashed).read_bytes(), crashed.read_bytes()
    found = 0
    for _ in range(60):
        spoilt = bytearray(content)
        spoilt[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
        log_of(crashed).write_bytes(spoilt)
        damage = write_ahead_log.damage_in(crashed)
        if damage is None:
            assert rows(crashed) >= 29
        else:
            assert damage.startswith(("its write-ahead log x.db-wal is damaged in page", "the head of its write-ahead"))
            found += 1
        crashed.write_bytes(main)
    assert found > 5


def test_world_whose_log_is_damaged_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    @on_loop
    async def test() -> None:
        async with kept(tmp_path / "w.db") as world:
            for number in range(5):
                world.publish(f"https://a.example.com/{number}")
                await world.store.writer.commit()
            copy = crash(tmp_path / "w.db", tmp_path / "copy")
        content = bytearray(log_of(copy).read_bytes())
        content[32 + 2000] ^= 1
        log_of(copy).write_bytes(content)
        before = copy.read_bytes()

        with pytest.raises(UnusableDatabase, match=r"damaged: its write-ahead log w\.db-wal is damaged in page 1 of"):
            await open_store(str(copy))

        assert copy.read_bytes() == before
        assert log_of(copy).read_bytes() == content

    test()
