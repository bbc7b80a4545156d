"""`worlds create --token`, `worlds fork` and `clock undo` against a real server."""

from __future__ import annotations

from click.testing import CliRunner

from emulator.cli import main
from tests.harness import emulators


def printed(server: emulators.Server, *arguments: str) -> str:
    result = CliRunner().invoke(main, arguments, env={"EMULATOR_URL": server.url})
    assert result.exit_code == 0, result.output
    return result.stdout


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
