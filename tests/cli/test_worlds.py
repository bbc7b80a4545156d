"""`svc-emulator worlds`, `reset` and `snapshot`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from emulator.cli import main
from tests.cli.shell import URL, printed, publish, said
from tests.harness import emulators


def test_a_world_is_made_with_a_token_and_forked(server: emulators.Server) -> None:
    assert "token: my-own-token\n" in printed(server, "worlds", "create", "mine", "--token", "my-own-token")
    printed(server, "clock", "advance", "1h", "--world", "mine")
    forked = printed(server, "worlds", "fork", "what-if", "--world", "mine", "--token", "another-token")
    assert forked.startswith("world what-if created: clock frozen at ")
    assert "token: another-token\n" in forked
    shown = [printed(server, "clock", "show", "--world", world) for world in ("mine", "what-if")]
    assert shown[0] == shown[1]
    for world in ("mine", "what-if"):
        printed(server, "worlds", "delete", world)


def test_an_advance_is_undone(server: emulators.Server) -> None:
    before = printed(server, "clock", "show")
    printed(server, "clock", "advance", "1d", "--undoable")
    assert printed(server, "clock", "undo") == before
    refused = CliRunner().invoke(main, ["clock", "undo"], env={"EMULATOR_URL": server.url})
    assert refused.exit_code == 1
    assert refused.stderr.startswith("svc-emulator: there is no advance to take back")


def test_a_world_is_made_with_chaos(server: emulators.Server) -> None:
    printed(server, "worlds", "create", "rough", "--chaos", "0.3", "--seed", "7")
    setup = emulators.control(server, "GET", "/worlds/rough/setup")
    assert (setup["seed"], setup["chaos"]) == (7, {"level": 0.3, "except": []})
    printed(server, "worlds", "delete", "rough")


pytestmark = pytest.mark.slow

NOBODY = "http://127.0.0.1:1"


@pytest.fixture
def server(shared: emulators.Server) -> emulators.Server:
    """A server whose default world has one pending message and no snapshots."""
    emulators.control(shared, "POST", "/reset")
    for each in emulators.control(shared, "GET", "/snapshots")["snapshots"]:
        emulators.control(shared, "DELETE", f"/snapshots/{each['name']}")
    publish(shared, URL, Svc_Delay="2h")
    return shared


def snapshot(server: emulators.Server, *arguments: str, stdin: bytes | None = None, **variables: str) -> Result:
    return CliRunner().invoke(
        main, ["snapshot", *arguments], input=stdin, env={"EMULATOR_URL": server.url, **variables}
    )


def failed(server: emulators.Server, *arguments: str, stdin: bytes | None = None, code: int = 1) -> str:
    result = snapshot(server, *arguments, stdin=stdin)
    assert result.exit_code == code, result.output
    assert said(result).count("\n") == 1
    return said(result).removeprefix("svc-emulator: ").rstrip("\n")


def test_a_world_is_saved_and_restored(server: emulators.Server) -> None:
    saved = printed(server, "snapshot", "save", "before")
    emulators.control(server, "POST", "/clock/advance", {"by": "1d"})

    restored = printed(server, "snapshot", "restore", "before")

    assert saved.startswith("snapshot before saved: at 2026-01-01T00:00:00.000Z  1 pending  ")
    assert restored == "world default restored from before: clock frozen at 2026-01-01T00:00:00.000Z, 1 pending\n"


def test_snapshots_are_listed_and_deleted(server: emulators.Server) -> None:
    assert printed(server, "snapshot", "list") == "no snapshots of the world default\n"
    printed(server, "snapshot", "save", "before-the-sale")
    printed(server, "snapshot", "save", "b")

    first, second = printed(server, "snapshot", "list").splitlines()

    assert first.startswith("b                at 2026-01-01T00:00:00.000Z  1 pending  ")
    assert first.endswith(" KiB")
    assert second.startswith("before-the-sale  at 2026-01-01T00:00:00.000Z  1 pending  ")
    assert printed(server, "snapshot", "delete", "b") == "snapshot b deleted\n"
    assert failed(server, "delete", "b") == "snapshot b not found"


def test_a_snapshot_goes_from_world_to_world_in_a_file(server: emulators.Server, tmp_path: Path) -> None:
    printed(server, "snapshot", "save", "s")
    file = tmp_path / "s.db"

    assert printed(server, "snapshot", "export", "s", str(file)).startswith(f"snapshot s exported to {file} (")
    assert file.read_bytes().startswith(b"SQLite format 3\x00")
    assert [path.name for path in tmp_path.iterdir()] == ["s.db"]
    emulators.control(server, "POST", "/worlds", {"id": "team-a"})
    try:
        assert printed(server, "snapshot", "import", "t", str(file), "--world", "team-a").startswith(
            "snapshot t imported: at 2026-"
        )
        assert "1 pending" in printed(server, "snapshot", "restore", "t", "--world", "team-a")
    finally:
        emulators.control(server, "DELETE", "/worlds/team-a")


def test_a_snapshot_is_piped(server: emulators.Server, tmp_path: Path) -> None:
    printed(server, "snapshot", "save", "s")

    exported = snapshot(server, "export", "s", "-")
    imported = snapshot(server, "import", "t", "-", stdin=exported.stdout_bytes)

    assert exported.stdout_bytes.startswith(b"SQLite format 3\x00")
    assert exported.stderr == ""
    assert imported.exit_code == 0, imported.output
    assert [each["name"] for each in json.loads(printed(server, "snapshot", "list", "--json"))["snapshots"]] == [
        "s",
        "t",
    ]


def test_failures_are_one_line(server: emulators.Server, tmp_path: Path) -> None:
    printed(server, "snapshot", "save", "s")

    assert failed(server, "save", "s") == "the snapshot s exists already; delete it first, or take another name"
    assert failed(server, "save", "a b", code=2).startswith("name: expected at most 64 letters")
    assert failed(server, "restore", "none") == "snapshot none not found"
    assert failed(server, "restore", "../none", code=2).startswith("name: expected at most 64 letters")
    assert failed(server, "export", "none", str(tmp_path / "x.db")) == "snapshot none not found"
    assert list(tmp_path.iterdir()) == []
    assert failed(server, "export", "s", str(tmp_path / "no" / "x.db")).endswith("No such file or directory")
    assert failed(server, "import", "t", str(tmp_path / "x.db")).endswith("x.db: No such file or directory")
    assert failed(server, "import", "t", "-", stdin=b"no database", code=2) == (
        "standard input: not a database of svc-emulator (nor any SQLite file); nothing was changed"
    )


def test_export_that_fails_leaves_the_file_as_it_was(server: emulators.Server, tmp_path: Path) -> None:
    (tmp_path / "s.db").write_bytes(b"precious")

    failed(server, "export", "none", str(tmp_path / "s.db"))

    assert (tmp_path / "s.db").read_bytes() == b"precious"
