"""`svc-emulator db check`: reading a database whole."""

from __future__ import annotations

import contextlib
import shutil
import signal
import sqlite3
from pathlib import Path

import pytest

from tests.cli.test_serve import publish
from tests.harness.processes import run, serving

pytestmark = pytest.mark.slow


def make(folder: Path, number: int) -> Path:
    with serving("--db", "state.db", "--clock", "frozen", folder=folder) as server:
        publish(server.url, server.variables["SVC_TOKEN"], "https://api.example.com/hook")
        run("worlds", "create", "b", "--url", server.url, folder=folder)
        run("snapshot", "save", "s", "--url", server.url, folder=folder)
        server.stop(number)
    return folder / "state.db"


def test_whole_database_with_its_worlds_and_snapshots(tmp_path: Path) -> None:
    """D-284."""
    make(tmp_path, signal.SIGTERM)

    done = run("db", "check", "state.db", folder=tmp_path)

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "state.db: whole: 1 message and 4 entries of history",
        "state.db-worlds/b.db: whole: 0 messages and 0 entries of history",
        "state.db-snapshots/default/s.db: whole: 1 message and 4 entries of history",
    ]


def test_nothing_is_changed_by_a_check_also_after_a_kill(tmp_path: Path) -> None:
    make(tmp_path, signal.SIGKILL)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}

    done = run("db", "check", "state.db", folder=tmp_path)

    assert (done.returncode, done.stderr) == (0, "")
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_every_damage_is_a_line_that_says_which_file_and_what(tmp_path: Path) -> None:
    path = make(tmp_path, signal.SIGTERM)
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE events SET at_ms = at_ms + 1 WHERE seq < 3")
        connection.execute("UPDATE messages SET caller_ip = 'x'")

    done = run("db", "check", "state.db", folder=tmp_path)

    assert done.returncode == 1
    assert done.stdout.splitlines()[:2] == [
        "state.db: damaged: messages: 1 of 1 rows are not what was written",
        "state.db: damaged: events: 2 of 3 rows are not what was written",
    ]
    assert done.stderr.startswith("svc-emulator: 1 damaged; ")
    assert len(done.stderr.splitlines()) == 1


def test_database_in_use_and_what_is_none(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("not a database")
    with serving("--db", "state.db", folder=tmp_path):
        done = run("db", "check", "state.db", folder=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("svc-emulator: state.db: in use by another process")
    for name, reason in (("notes.txt", "not a database of svc-emulator"), ("none.db", "no such file")):
        done = run("db", "check", name, folder=tmp_path)
        assert done.returncode == 1
        assert done.stderr.startswith(f"svc-emulator: {name}: {reason}")


def test_flipped_bytes_anywhere_are_told_or_mean_nothing(tmp_path: Path) -> None:
    path = make(tmp_path, signal.SIGTERM)
    shutil.rmtree(tmp_path / "state.db-worlds")
    shutil.rmtree(tmp_path / "state.db-snapshots")
    content = path.read_bytes()
    for place in range(5000, len(content), len(content) // 8):
        spoilt = bytearray(content)
        spoilt[place] ^= 0x10
        path.write_bytes(spoilt)
        done = run("db", "check", "state.db", folder=tmp_path)
        assert done.returncode in (0, 1)
        assert "Traceback" not in done.stderr
