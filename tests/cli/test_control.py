"""`env`, `clock`, `worlds` and `reset` against real servers."""

from __future__ import annotations

import json
import shlex
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from emulator.cli import main
from emulator.cli.control import find_server
from emulator.cli.output import Format, written
from tests.cli.shell import URL, invoke, printed, publish, said
from tests.harness import emulators, loops

pytestmark = pytest.mark.slow

# A port on which nothing listens: the lowest, which only the system could take.
NOBODY = "http://127.0.0.1:1"


# -- clock ------------------------------------------------------------------------------------


def test_clock_advance_does_the_work_on_the_way(server: emulators.Server) -> None:
    frozen = "clock: frozen at 2026-01-01T00:00:00.000Z"
    nothing = f"{frozen}\nnext due: nothing\nmessages: 0 pending, 0 in flight\n"
    assert printed(server, "clock", "show") == nothing
    publish(server, URL, Svc_Delay="2h")
    due = f"{frozen}\nnext due: 2026-01-01T02:00:00.000Z (in 2h)\nmessages: 1 pending, 0 in flight\n"
    assert printed(server, "clock", "show") == due

    lines = printed(server, "clock", "advance", "1d").splitlines()

    assert lines[0].startswith("clock: 2026-01-01T00:00:00.000Z -> 2026-01-02T00:00:00.000Z (1d in ")
    assert lines[1] == "deliveries: 1 (1 succeeded, 0 failed); messages created: 0; schedules fired: 0"


@pytest.mark.parametrize(
    ("url", "hint"),
    [
        ("localhost:8080", " (did you mean http://localhost:8080?) ("),
        ("127.0.0.1", " (did you mean http://127.0.0.1?) ("),
        ("ftp://localhost", "'ftp://localhost' ("),
        ("no address", "'no address' ("),
    ],
)
def test_an_address_without_a_scheme_is_refused_with_the_one_that_was_meant(url: str, hint: str) -> None:
    result = CliRunner().invoke(main, ["clock", "show", "--url", url])

    assert result.exit_code == 2
    assert "expected an address such as http://127.0.0.1:8080, got " in result.stderr
    assert hint in result.stderr


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        (("clock", "advance", "60"), "got '60', did you mean 60s?"),
        (("clock", "drain", "--horizon", "60"), "did you mean 60s?"),
        (("destinations", "add", "https://a.test", "--status", "200", "--latency", "5"), "did you mean 5s?"),
        (("health", "--wait", "30"), "did you mean 30s?"),
        (("clock", "set", "1767225600"), 'did you mean "2026-01-01T00:00:00.000Z"?'),
        (("upcoming", "--until", "60"), "got the number 60"),
        (("worlds", "create", "--epoch", "1767225600"), 'did you mean "2026-01-01T00:00:00.000Z"?'),
        (("when", "* * * * *", "--from", "1767225600"), 'did you mean "2026-01-01T00:00:00.000Z"?'),
    ],
)
def test_a_number_without_a_unit_is_wrong_usage(
    arguments: tuple[str, ...], meant: str, server: emulators.Server
) -> None:
    result = invoke(server, *arguments)
    assert (result.exit_code, meant in result.stderr) == (2, True), result.stderr


def test_clock_advance_stops_at_a_number_of_deliveries(server: emulators.Server) -> None:
    for _ in range(2):
        publish(server, URL, Svc_Delay="2h")

    text = printed(server, "clock", "advance", "1d", "--max-deliveries", "1")

    assert "2026-01-01T02:00:00.000Z (2h in " in text
    assert text.endswith("stopped early by max deliveries\n")


def test_clock_drain_runs_until_idle_or_the_horizon_and_next_to_what_is_due(server: emulators.Server) -> None:
    publish(server, URL, Svc_Delay="2h")
    publish(server, URL, Svc_Delay="3h")

    assert printed(server, "clock", "drain", "--horizon", "1h").endswith("not idle: more is due later\n")
    assert "-> 2026-01-01T02:00:00.000Z (1h in " in printed(server, "clock", "next")
    assert printed(server, "clock", "drain").endswith("idle: nothing is due\n")


def test_clock_set_and_rate(server: emulators.Server) -> None:
    assert "frozen at 2026-02-01T00:00:00.000Z" in printed(server, "clock", "set", "2026-02-01")
    assert "clock: 60 times real time, 2026-02-01T00:0" in printed(server, "clock", "rate", "60")
    assert "clock: real time, 2026-02-01T00:" in printed(server, "clock", "rate", "realtime")
    assert "clock: frozen at 2026-02-01T00:" in printed(server, "clock", "rate", "frozen")


def test_what_the_server_refuses_is_one_line(server: emulators.Server) -> None:
    publish(server, URL, Svc_Delay="2h")

    result = invoke(server, "clock", "set", "2025-01-01")

    assert result.exit_code == 1
    assert result.stderr.startswith("svc-emulator: ")
    assert said(result).count("\n") == 1
    assert result.stderr.endswith("\nnext: svc-emulator clock show\n")


@pytest.mark.parametrize(
    ("arguments", "next"),
    [
        (("clock", "show", "--world", "none"), "svc-emulator worlds list"),
        (("redeliver", "99"), "svc-emulator deliveries"),
        (("runs", "show", "wfr_none"), "svc-emulator runs list"),
        (("snapshot", "restore", "none"), "svc-emulator snapshot list"),
        (("destinations", "remove", "rule_99"), "svc-emulator destinations list"),
    ],
)
def test_what_is_not_there_is_followed_by_what_lists_it(
    server: emulators.Server, arguments: tuple[str, ...], next: str
) -> None:
    """D-747."""
    result = invoke(server, *arguments)

    assert (result.exit_code, result.stderr.splitlines()[-1]) == (1, f"next: {next}")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("messages", "--state", "faild"), "--state: expected some of pending, held, "),
        (("worlds", "create", "a b"), "id: expected at most 64 letters"),
    ],
)
def test_a_value_that_the_server_does_not_take_is_wrong_usage(
    server: emulators.Server, arguments: tuple[str, ...], text: str
) -> None:
    """D-460."""
    result = invoke(server, *arguments)

    assert result.exit_code == 2
    assert result.stderr.startswith(f"svc-emulator: {text}")


def test_nobody_answers() -> None:
    result = CliRunner().invoke(main, ["clock", "show", "--url", NOBODY])

    expected = f"svc-emulator: no server answers at {NOBODY} (start one with svc-emulator serve)\n"
    assert (result.exit_code, said(result)) == (1, expected)


def test_an_address_of_the_environment_is_named_as_such() -> None:
    result = CliRunner().invoke(main, ["clock", "show"], env={"EMULATOR_URL": NOBODY})

    expected = (
        f"svc-emulator: no server answers at {NOBODY} "
        "(from the environment variable EMULATOR_URL; start one with svc-emulator serve)\n"
    )
    assert (result.exit_code, said(result)) == (1, expected)


def test_health_of_a_full_disk_is_printed_and_is_no_failure() -> None:
    """D-282: the world continues by itself, and a container that is restarted finds the same disk."""
    error = "this world has stopped: the database cannot be written: database or disk is full"
    answer = {"status": "degraded", "version": "1", "worlds": 2, "problems": [{"id": "a", "error": error}]}
    with emulators.http_server(lambda _: (200, {}, json.dumps(answer).encode())) as url:
        result = CliRunner().invoke(main, ["health", "--url", url])
        as_json = CliRunner().invoke(main, ["health", "--url", url, "--json"])
    line = f"degraded: world a: {error}; it continues by itself once the disk has room\n"
    assert (result.exit_code, result.stdout) == (0, line)
    assert (as_json.exit_code, json.loads(as_json.stdout)) == (0, answer)


@pytest.mark.parametrize(
    ("body", "text"),
    [
        pytest.param(b"", "is not an emulator: it answered 200, but not as one does", id="nothing"),
        pytest.param(b"<html>", "is not an emulator: it answered 200, but not as one does", id="a-page"),
        pytest.param(b'{"status": "ok"}', "is another program or version: its answer has no 'rate'", id="other-json"),
    ],
)
def test_something_else_answers(body: bytes, text: str) -> None:
    with emulators.http_server(lambda _: (200, {}, body)) as url:
        result = CliRunner().invoke(main, ["clock", "show", "--url", url])
        health = CliRunner().invoke(main, ["health", "--port", url.rpartition(":")[2]])

    assert (result.exit_code, said(result)) == (1, f"svc-emulator: {url} {text}\n")
    # Nor is it a well emulator.
    assert health.exit_code == 1
    assert said(health).endswith(f"{url} is not an emulator: it answered 200, but not as one does\n")


def test_control_token() -> None:
    with emulators.server(control_token="secret") as guarded:
        refused = invoke(guarded, "clock", "show")
        mistaken = invoke(guarded, "clock", "show", "--control-token", "wrong")
        accepted = invoke(guarded, "clock", "show", "--control-token", "secret")
        by_variable = invoke(guarded, "clock", "show", EMULATOR_CONTROL_TOKEN="secret")

    assert (refused.exit_code, mistaken.exit_code, accepted.exit_code, by_variable.exit_code) == (1, 1, 0, 0)
    assert said(refused) == "svc-emulator: the control API needs its bearer token (--control-token)\n"
    assert said(mistaken) == (
        "svc-emulator: the control API has another bearer token than the one given (--control-token)\n"
    )


# -- worlds -----------------------------------------------------------------------------------


def test_worlds_come_and_go(server: emulators.Server) -> None:
    created = printed(server, "worlds", "create", "team-a", "--epoch", "2026-03-01", "--rate", "0", "--plan", "free")
    assert created.startswith("world team-a created: clock frozen at 2026-03-01T00:00:00.000Z\ntoken: ")
    assert f"svc-emulator env --url {server.url} --world team-a" in created

    assert printed(server, "worlds", "list").splitlines() == [
        "default  frozen at 2026-01-01T00:00:00.000Z  0 pending",
        "team-a   frozen at 2026-03-01T00:00:00.000Z  0 pending",
    ]
    _, listed = json.loads(printed(server, "worlds", "list", "--json"))["worlds"]
    values = json.loads(printed(server, "env", "--world", "team-a", "--format", "json"))
    assert (listed["id"], values["SVC_TOKEN"]) == ("team-a", created.partition("token: ")[2].split()[0])
    assert values["SVC_TOKEN"] != server.token
    nobody = CliRunner().invoke(main, ["env", "--url", NOBODY, "--world", "team-a"])
    assert nobody.exit_code == 1
    assert printed(server, "worlds", "delete", "team-a") == "world team-a deleted\n"
    for gone in (
        invoke(server, "worlds", "delete", "team-a"),
        invoke(server, "clock", "show", EMULATOR_WORLD="team-a"),
    ):
        assert (gone.exit_code, said(gone)) == (1, "svc-emulator: world team-a not found\n")


def test_reset_makes_the_world_as_it_was(server: emulators.Server) -> None:
    printed(server, "clock", "advance", "1d")

    assert printed(server, "reset") == "world default reset: clock frozen at 2026-01-01T00:00:00.000Z\n"


# -- env --------------------------------------------------------------------------------------


def expected_variables(server: emulators.Server) -> dict[str, str]:
    return {
        "SVC_URL": server.url,
        "SVC_TOKEN": server.token,
        "SVC_CURRENT_SIGNING_KEY": server.current_signing_key,
        "SVC_NEXT_SIGNING_KEY": server.next_signing_key,
    }


def test_env_of_a_running_server_in_every_format(server: emulators.Server) -> None:
    expected = expected_variables(server)

    assert json.loads(printed(server, "env", "--format", "json")) == expected
    assert printed(server, "env", "--format", "dotenv") == "".join(f"{k}={v}\n" for k, v in expected.items())
    assert printed(server, "env") == "".join(f"export {k}={v}\n" for k, v in expected.items())


def test_env_speaks_the_dialect_of_a_running_server_and_says_which_options_it_makes_void() -> None:
    with emulators.server(dialect="upstash") as server:
        silent = invoke(server, "env", "--dialect", "upstash")
        told = invoke(server, "env", "--dialect", "svc", "--seed", "7", "--fixtures", "f.yaml")

    assert silent.stderr == ""
    assert f"export QSTASH_TOKEN={server.token}\n" in silent.stdout
    assert told.stdout == silent.stdout
    assert told.stderr.splitlines() == [
        f"svc-emulator: {server.url} speaks the dialect upstash, not svc, and these are its variables "
        "(a dialect is chosen with the server: serve --dialect)",
        f"svc-emulator: {server.url} runs already, so --fixtures and --seed are not applied",
    ]


def test_env_without_a_server_is_that_of_the_one_to_come(server: emulators.Server) -> None:
    result = CliRunner().invoke(main, ["env", "--url", NOBODY, "--format", "json"])

    assert result.exit_code == 0
    assert json.loads(result.stdout) == {**expected_variables(server), "SVC_URL": NOBODY}
    assert "no server answers" in result.stderr


def test_env_without_a_server_takes_dialect_and_seed() -> None:
    def values(*arguments: str) -> dict[str, str]:
        result = CliRunner().invoke(main, ["env", "--url", NOBODY, "--format", "json", *arguments])
        assert result.exit_code == 0, result.output
        found: dict[str, str] = json.loads(result.stdout)
        return found

    assert values("--seed", "1")["SVC_TOKEN"] != values()["SVC_TOKEN"]
    assert values("--dialect", "upstash")["QSTASH_CURRENT_SIGNING_KEY"] == "sig_7kYjw48mhY7kAjqNGcy6cr29RJ6r"


HARD = {"A": 'it\'s $HOME `x` "q" \\n #', "B": "plain=", "C": ""}


def test_shell_reads_back_what_was_written() -> None:
    script = written(HARD, Format.SHELL) + '\nprintf \'%s|%s|%s\' "$A" "$B" "$C"'

    completed = subprocess.run(
        ["sh", "-c", script], capture_output=True, text=True, timeout=loops.PATIENCE_S, check=True
    )

    assert completed.stdout == "|".join(HARD.values())


def test_dotenv_quotes_only_what_needs_it() -> None:
    lines = written(HARD, Format.DOTENV).splitlines()

    assert lines[1:] == ["B=plain=", "C="]
    assert lines[0] == r"""A='it\'s $HOME `x` "q" \\n #'"""
    assert shlex.split("X=plain=") == ["X=plain="]


# -- which server -----------------------------------------------------------------------------


def _show_clock(**variables: str) -> Result:
    return CliRunner().invoke(main, ["clock", "show"], env={"EMULATOR_URL": None, **variables})


def test_commands_find_the_server_that_variables_and_the_file_describe(
    server: emulators.Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D-341."""
    monkeypatch.chdir(tmp_path)
    assert _show_clock(EMULATOR_PORT=str(server.port), EMULATOR_HOST="0.0.0.0").exit_code == 0
    (tmp_path / "emulator.toml").write_text(f"port = {server.port}\n", "utf-8")
    assert _show_clock().exit_code == 0
    assert "http://127.0.0.1:1 " in _show_clock(EMULATOR_PORT="1").stderr
    assert "http://127.0.0.1:2 " in _show_clock(EMULATOR_URL="http://127.0.0.1:2").stderr
    wrong = _show_clock(EMULATOR_PORT="0")
    assert (wrong.exit_code, "port: 0 names no server" in wrong.stderr) == (2, True)
    misspelt = _show_clock(EMULATOR_PROT="1")
    assert (misspelt.exit_code, "did you mean EMULATOR_PORT?" in misspelt.stderr) == (2, True)


def test_a_token_of_the_file_goes_to_the_server_of_the_file_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D-341."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "emulator.toml").write_text('port = 9000\ncontrol_token = "secret"\n', "utf-8")
    given = {"world": "", "control_token": "", "control_token_file": "", "ca": ""}
    here, elsewhere = find_server(url="", **given), find_server(url="http://other.test", **given)
    assert (here.url, here.token) == ("http://127.0.0.1:9000", "secret")
    assert (elsewhere.url, elsewhere.token) == ("http://other.test", None)
    assert find_server(url="http://other.test", **{**given, "control_token": "x"}).token == "x"
