"""`snapshot` against a real server."""

from __future__ import annotations

import json
from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner, Result

from emulator.cli import main
from tests.harness import emulators

pytestmark = pytest.mark.slow

NOBODY = "http://127.0.0.1:1"


@pytest.fixture
def server(shared: emulators.Server) -> emulators.Server:
    """A server whose default world has one pending message and no snapshots."""
    emulators.control(shared, "POST", "/reset")
    for each in emulators.control(shared, "GET", "/snapshots")["snapshots"]:
        emulators.control(shared, "DELETE", f"/snapshots/{each['name']}")
    answer = httpx.post(
        f"{shared.url}/v2/publish/https://api.example.com/hook",
        headers={"Authorization": f"Bearer {shared.token}", "Svc-Delay": "2h"},
        trust_env=False,
    )
    assert answer.status_code == 200, answer.text
    return shared


def invoke(server: emulators.Server, *arguments: str, stdin: bytes | None = None, **variables: str) -> Result:
    return CliRunner().invoke(
        main, ["snapshot", *arguments], input=stdin, env={"EMULATOR_URL": server.url, **variables}
    )


def printed(server: emulators.Server, *arguments: str) -> str:
    result = invoke(server, *arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


def failed(server: emulators.Server, *arguments: str, stdin: bytes | None = None, code: int = 1) -> str:
    result = invoke(server, *arguments, stdin=stdin)
    assert result.exit_code == code, result.output
    assert result.stderr.count("\n") == 1
    return result.stderr.removeprefix("svc-emulator: ").rstrip("\n")


def test_a_world_is_saved_and_restored(server: emulators.Server) -> None:
    saved = printed(server, "save", "before")
    emulators.control(server, "POST", "/clock/advance", {"by": "1d"})

    restored = printed(server, "restore", "before")

    assert saved.startswith("snapshot before saved: at 2026-01-01T00:00:00.000Z  1 pending  ")
    assert restored == "world default restored from before: clock frozen at 2026-01-01T00:00:00.000Z, 1 pending\n"


def test_snapshots_are_listed_and_deleted(server: emulators.Server) -> None:
    assert printed(server, "list") == "no snapshots of the world default\n"
    printed(server, "save", "before-the-sale")
    printed(server, "save", "b")

    first, second = printed(server, "list").splitlines()

    assert first.startswith("b                at 2026-01-01T00:00:00.000Z  1 pending  ")
    assert first.endswith(" KiB")
    assert second.startswith("before-the-sale  at 2026-01-01T00:00:00.000Z  1 pending  ")
    assert printed(server, "delete", "b") == "snapshot b deleted\n"
    assert failed(server, "delete", "b") == "snapshot b not found"


def test_answers_are_shown_as_json(server: emulators.Server) -> None:
    saved = json.loads(printed(server, "save", "s", "--json"))

    assert json.loads(printed(server, "list", "--json")) == {"snapshots": [saved]}
    assert json.loads(printed(server, "restore", "s", "--json"))["clock"]["now_ms"] == saved["created_ms"]


def test_a_snapshot_goes_from_world_to_world_in_a_file(server: emulators.Server, tmp_path: Path) -> None:
    printed(server, "save", "s")
    file = tmp_path / "s.db"

    assert printed(server, "export", "s", str(file)).startswith(f"snapshot s exported to {file} (")
    assert file.read_bytes().startswith(b"SQLite format 3\x00")
    assert [path.name for path in tmp_path.iterdir()] == ["s.db"]
    emulators.control(server, "POST", "/worlds", {"id": "team-a"})
    try:
        assert printed(server, "import", "t", str(file), "--world", "team-a").startswith(
            "snapshot t imported: at 2026-"
        )
        assert "1 pending" in printed(server, "restore", "t", "--world", "team-a")
    finally:
        emulators.control(server, "DELETE", "/worlds/team-a")


def test_a_snapshot_is_piped(server: emulators.Server, tmp_path: Path) -> None:
    printed(server, "save", "s")

    exported = invoke(server, "export", "s", "-")
    imported = invoke(server, "import", "t", "-", stdin=exported.stdout_bytes)

    assert exported.stdout_bytes.startswith(b"SQLite format 3\x00")
    assert exported.stderr == ""
    assert imported.exit_code == 0, imported.output
    assert [each["name"] for each in json.loads(printed(server, "list", "--json"))["snapshots"]] == ["s", "t"]


def test_failures_are_one_line(server: emulators.Server, tmp_path: Path) -> None:
    printed(server, "save", "s")

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


def test_nobody_answers(tmp_path: Path) -> None:
    for arguments in (["save", "s"], ["export", "s", str(tmp_path / "s.db")], ["import", "s", __file__]):
        result = CliRunner().invoke(main, ["snapshot", *arguments, "--url", NOBODY])

        expected = f"svc-emulator: no server answers at {NOBODY} (start one with svc-emulator serve)\n"
        assert (result.exit_code, result.stderr) == (1, expected)


def test_control_token(tmp_path: Path) -> None:
    with emulators.server(control_token="secret") as guarded:
        refused = invoke(guarded, "save", "s")
        printed(guarded, "save", "s", "--control-token", "secret")
        printed(guarded, "export", "s", str(tmp_path / "s.db"), "--control-token", "secret")
        printed(guarded, "import", "t", str(tmp_path / "s.db"), "--control-token", "secret")

    assert refused.exit_code == 1
    assert "--control-token" in refused.stderr
