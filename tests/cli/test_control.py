"""`env`, `clock`, `worlds` and `reset` against real servers."""

from __future__ import annotations

import json
import shlex
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from emulator.cli import main
from emulator.cli.control import find_server
from emulator.cli.env import Format, written
from tests.harness import emulators, loops

pytestmark = pytest.mark.slow

# A port on which nothing listens: the lowest, which only the system could take.
NOBODY = "http://127.0.0.1:1"


@pytest.fixture
def server(shared: emulators.Server) -> emulators.Server:
    """A server whose default world is as it was made."""
    assert invoke(shared, "reset").exit_code == 0
    return shared


def invoke(server: emulators.Server, *arguments: str, **variables: str) -> Result:
    return CliRunner().invoke(main, arguments, env={"EMULATOR_URL": server.url, **variables})


def printed(server: emulators.Server, *arguments: str) -> str:
    result = invoke(server, *arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


# -- clock ------------------------------------------------------------------------------------


def test_clock_show(server: emulators.Server) -> None:
    assert printed(server, "clock", "show") == (
        "clock: frozen at 2026-01-01T00:00:00.000Z\nnext due: nothing\nmessages: 0 pending, 0 in flight\n"
    )


def test_clock_advance_does_the_work_on_the_way(server: emulators.Server) -> None:
    publish(server, "https://api.example.com/hook", "2h")

    assert "next due: 2026-01-01T02:00:00.000Z (in 2h)\nmessages: 1 pending" in printed(server, "clock", "show")
    lines = printed(server, "clock", "advance", "1d").splitlines()

    assert lines[0].startswith("clock: 2026-01-01T00:00:00.000Z -> 2026-01-02T00:00:00.000Z (1d in ")
    assert lines[1] == "deliveries: 1 (1 succeeded, 0 failed); messages created: 0; schedules fired: 0"


def test_clock_advance_takes_weeks(server: emulators.Server) -> None:
    assert "(8d in " in printed(server, "clock", "advance", "1w1d")


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


def test_clock_answers_as_json(server: emulators.Server) -> None:
    assert json.loads(printed(server, "clock", "advance", "90000", "--json"))["to_ms"] == emulators.EPOCH_MS + 90_000
    assert json.loads(printed(server, "clock", "show", "--json"))["now_ms"] == emulators.EPOCH_MS + 90_000


def test_clock_advance_stops_at_a_number_of_deliveries(server: emulators.Server) -> None:
    for _ in range(2):
        publish(server, "https://api.example.com/hook", "2h")

    text = printed(server, "clock", "advance", "1d", "--max-deliveries", "1")

    assert "2026-01-01T02:00:00.000Z (2h in " in text
    assert text.endswith("stopped early by max deliveries\n")


def test_clock_next_jumps_to_what_is_due(server: emulators.Server) -> None:
    publish(server, "https://api.example.com/hook", "2h")

    assert "-> 2026-01-01T02:00:00.000Z (2h in " in printed(server, "clock", "next")


def test_clock_drain_runs_until_idle_or_the_horizon(server: emulators.Server) -> None:
    publish(server, "https://api.example.com/hook", "2h")

    assert printed(server, "clock", "drain", "--horizon", "1h").endswith("not idle: more is due later\n")
    assert printed(server, "clock", "drain").endswith("idle: nothing is due\n")


def test_clock_set_and_rate(server: emulators.Server) -> None:
    assert "frozen at 2026-02-01T00:00:00.000Z" in printed(server, "clock", "set", "2026-02-01")
    assert "clock: 60 times real time, 2026-02-01T00:0" in printed(server, "clock", "rate", "60")
    assert "clock: real time, 2026-02-01T00:" in printed(server, "clock", "rate", "realtime")
    assert "clock: frozen at 2026-02-01T00:" in printed(server, "clock", "rate", "frozen")


def test_what_the_server_refuses_is_one_line(server: emulators.Server) -> None:
    publish(server, "https://api.example.com/hook", "2h")

    result = invoke(server, "clock", "set", "2025-01-01")

    assert result.exit_code == 1
    assert result.stderr.startswith("svc-emulator: ")
    assert result.stderr.count("\n") == 1


def test_world_that_does_not_exist(server: emulators.Server) -> None:
    result = invoke(server, "clock", "show", EMULATOR_WORLD="nowhere")

    assert (result.exit_code, result.stderr) == (1, "svc-emulator: world nowhere not found\n")


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
    assert (result.exit_code, result.stderr) == (1, expected)


@pytest.mark.parametrize(
    ("body", "text"),
    [
        pytest.param(b"", "is not an emulator: it answered 200, but not as one does", id="nothing"),
        pytest.param(b"<html>", "is not an emulator: it answered 200, but not as one does", id="a-page"),
        pytest.param(b'{"hello": 1}', "is another program or version: its answer has no 'rate'", id="other-json"),
    ],
)
def test_something_else_answers(body: bytes, text: str) -> None:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as other:
        answering = threading.Thread(target=other.handle_request)
        answering.start()
        url = f"http://127.0.0.1:{other.server_port}"
        result = CliRunner().invoke(main, ["clock", "show", "--url", url])
        answering.join(loops.PATIENCE_S)

    assert (result.exit_code, result.stderr) == (1, f"svc-emulator: {url} {text}\n")


def test_another_program_at_the_port_is_not_a_well_emulator() -> None:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b'{"status": "ok"}')

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as other:
        answering = threading.Thread(target=other.handle_request)
        answering.start()
        result = CliRunner().invoke(main, ["health", "--port", str(other.server_port)])
        answering.join(loops.PATIENCE_S)

    assert result.exit_code == 1
    assert result.stderr.endswith(f":{other.server_port} is not an emulator: it answered 200, but not as one does\n")


def test_control_token() -> None:
    with emulators.server(control_token="secret") as guarded:
        refused = invoke(guarded, "clock", "show")
        mistaken = invoke(guarded, "clock", "show", "--control-token", "wrong")
        accepted = invoke(guarded, "clock", "show", "--control-token", "secret")
        by_variable = invoke(guarded, "clock", "show", EMULATOR_CONTROL_TOKEN="secret")

    assert (refused.exit_code, mistaken.exit_code, accepted.exit_code, by_variable.exit_code) == (1, 1, 0, 0)
    assert refused.stderr == "svc-emulator: the control API needs its bearer token (--control-token)\n"
    assert mistaken.stderr == (
        "svc-emulator: the control API has another bearer token than the one given (--control-token)\n"
    )


def publish(server: emulators.Server, destination: str, delay: str) -> None:
    import httpx

    answer = httpx.post(
        f"{server.url}/v2/publish/{destination}",
        headers={"Authorization": f"Bearer {server.token}", "Svc-Delay": delay},
        trust_env=False,
    )
    assert answer.status_code == 200, answer.text


# -- worlds -----------------------------------------------------------------------------------


def test_worlds_come_and_go(server: emulators.Server) -> None:
    created = printed(server, "worlds", "create", "team-a", "--epoch", "2026-03-01", "--rate", "0", "--plan", "free")
    assert created.startswith("world team-a created: clock frozen at 2026-03-01T00:00:00.000Z\ntoken: ")
    assert f"svc-emulator env --url {server.url} --world team-a" in created

    assert printed(server, "worlds", "list").splitlines() == [
        "default  frozen at 2026-01-01T00:00:00.000Z  0 pending",
        "team-a   frozen at 2026-03-01T00:00:00.000Z  0 pending",
    ]
    assert [each["id"] for each in json.loads(printed(server, "worlds", "list", "--json"))["worlds"]] == [
        "default",
        "team-a",
    ]
    assert printed(server, "worlds", "delete", "team-a") == "world team-a deleted\n"
    assert invoke(server, "worlds", "delete", "team-a").stderr == "svc-emulator: world team-a not found\n"


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


def test_env_speaks_the_dialect_of_the_server() -> None:
    with emulators.server(dialect="upstash") as server:
        assert json.loads(printed(server, "env", "--format", "json"))["QSTASH_TOKEN"] == server.token


def test_env_says_which_options_a_running_server_makes_void() -> None:
    with emulators.server(dialect="upstash") as server:
        silent = invoke(server, "env", "--dialect", "upstash")
        told = invoke(server, "env", "--dialect", "svc", "--seed", "7", "--fixtures", "f.yaml")

    assert silent.stderr == ""
    assert told.stdout == silent.stdout
    assert told.stderr.splitlines() == [
        f"svc-emulator: {server.url} speaks the dialect upstash, not svc, and these are its variables "
        "(a dialect is chosen with the server: serve --dialect)",
        f"svc-emulator: {server.url} runs already, so --fixtures and --seed are not applied",
    ]


def test_env_of_another_world(server: emulators.Server) -> None:
    world = json.loads(printed(server, "worlds", "create", "env-world", "--json"))

    values = json.loads(printed(server, "env", "--world", "env-world", "--format", "json"))

    assert values["SVC_TOKEN"] == world["credentials"]["queue"]["token"] != server.token
    printed(server, "worlds", "delete", "env-world")


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


def test_env_of_a_world_needs_its_server() -> None:
    assert CliRunner().invoke(main, ["env", "--url", NOBODY, "--world", "team-a"]).exit_code == 1


HARD = {"A": 'it\'s $HOME `x` "q" \\n #', "B": "plain=", "C": ""}


def test_shell_reads_back_what_was_written() -> None:
    script = written(HARD, Format.SHELL) + '\nprintf \'%s|%s|%s\' "$A" "$B" "$C"'

    completed = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True)

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
