"""What holds for every command: help, version, options, and how wrong usage is reported."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from emulator.cli import main
from emulator.server.logs import runs_for_agent, wants_colours
from emulator.server.settings import Settings
from emulator.version import VERSION
from tests.cli.shell import said
from tests.harness import emulators


def commands(command: click.Command, name: str) -> Iterator[tuple[str, click.Command]]:
    yield name, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for each in command.list_commands(context):
            found = command.get_command(context, each)
            assert found is not None
            yield from commands(found, f"{name} {each}".strip())


@pytest.mark.parametrize("name", [name for name, _ in commands(main, "")])
def test_help_of_every_command_has_an_example(name: str) -> None:
    result = CliRunner().invoke(main, [*name.split(), "--help"])

    assert result.exit_code == 0
    assert f"Example: {'eval' if name == 'env' else f'svc-emulator {name}'.strip()}" in result.output


def test_version() -> None:
    assert CliRunner().invoke(main, ["--version"]).output == f"svc-emulator {VERSION}\n"


def test_without_a_command_the_help_is_shown() -> None:
    result = CliRunner().invoke(main, [])

    assert result.exit_code == 2
    assert "Start:" in result.output


@pytest.mark.parametrize("name", [name for name, command in commands(main, "") if isinstance(command, click.Group)])
def test_no_line_of_a_list_of_commands_is_cut_off(name: str) -> None:
    result = CliRunner().invoke(main, [*name.split(), "--help"], terminal_width=78)

    assert [line for line in result.output.splitlines()[1:] if line.endswith("...")] == []


def test_help_lists_every_command_under_one_heading() -> None:
    lines = CliRunner().invoke(main, ["--help"], terminal_width=78).output.splitlines()
    listed = [line.split()[0] for line in lines if re.match("  [a-z][a-z-]* +[A-Z]", line)]

    assert sorted(listed) == sorted(main.list_commands(click.Context(main)))


# -- the settings as options ------------------------------------------------------------------


@pytest.fixture
def empty(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An empty directory, which is the current one."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def resolved(*arguments: str, **variables: str) -> Settings:
    """The settings that `serve` would run with; it runs nothing."""
    seen: list[Settings] = []
    result = CliRunner().invoke(main, ["serve", *arguments], env=variables, obj=seen.append)
    assert result.exit_code == 0, result.output
    return seen.pop()


def test_every_setting_is_an_option_a_variable_and_shown_with_its_default() -> None:
    text = " ".join(CliRunner().invoke(main, ["serve", "--help"], terminal_width=400).output.split())

    for entry in fields(Settings):
        assert f"--{entry.name.replace('_', '-')} " in text
        assert f"env var: EMULATOR_{entry.name.upper()}" in text
        if entry.default not in ("", (), 0):
            assert f"EMULATOR_{entry.name.upper()}; default: {entry.default}]" in text


@pytest.mark.usefixtures("empty")
def test_without_anything_the_defaults_hold() -> None:
    assert resolved() == Settings()


def test_flag_precedes_variable_precedes_file_precedes_default(empty: Path) -> None:
    (empty / "emulator.toml").write_text('port = 1001\nhost = "::1"\nseed = 3\n', "utf-8")

    settings = resolved("--port", "1003", EMULATOR_PORT="1002", EMULATOR_HOST="0.0.0.0")

    assert settings == Settings(port=1003, host="0.0.0.0", seed=3, plan="paid")


def test_file_may_be_named(empty: Path) -> None:
    (empty / "emulator.toml").write_text("port = 1001\n", "utf-8")
    (empty / "other.toml").write_text("port = 1002\n", "utf-8")

    assert resolved("--config", "other.toml").port == 1002
    assert resolved(EMULATOR_CONFIG="other.toml").port == 1002
    assert resolved().port == 1001


def test_repeatable_option_is_a_list_in_a_variable_and_in_the_file(empty: Path) -> None:
    (empty / "emulator.toml").write_text('allow-host = ["c.test", "d.test"]\n', "utf-8")

    assert resolved("--allow-host", "a.test", "--allow-host", "b.test").allow_host == ("a.test", "b.test")
    assert resolved(EMULATOR_ALLOW_HOST="a.test, b.test").allow_host == ("a.test", "b.test")
    assert resolved().allow_host == ("c.test", "d.test")


def test_a_setting_that_is_on_or_off(empty: Path) -> None:
    found = [resolved("--strict"), resolved(EMULATOR_STRICT="true"), resolved(EMULATOR_STRICT="1")]
    (empty / "emulator.toml").write_text("strict = true\n", "utf-8")
    found += [resolved(), resolved("--no-strict"), resolved(EMULATOR_STRICT="0")]

    assert [settings.strict for settings in found] == [True, True, True, True, False, False]


@pytest.mark.usefixtures("empty")
def test_empty_variable_is_none() -> None:
    assert resolved(EMULATOR_PORT="", EMULATOR_ALLOW_HOST="", EMULATOR_STRICT="") == Settings()


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        pytest.param("serve --port x", "'x' is not a valid integer", id="no-number"),
        pytest.param("serve --port 65536", "port: expected a number from 0 to 65535, got 65536", id="bounds"),
        pytest.param("serve --clock slow", "clock: expected 'realtime', 'frozen' or a rate", id="clock"),
        pytest.param("serve --plan gold", "'gold' is not one of 'free', 'paid'", id="choice"),
        pytest.param("serve --nonsense", "No such option", id="option"),
        pytest.param("serve --config gone.toml", "gone.toml: cannot be read: No such file", id="config"),
        pytest.param("serve here", "unexpected extra argument", id="argument"),
        pytest.param("nonsense", "No such command 'nonsense'", id="command"),
        pytest.param("clok show", "No such command 'clok'. Did you mean 'clock'?", id="near-command"),
        pytest.param("env --format xml", "'xml' is not one of 'shell', 'dotenv', 'json'", id="format"),
        pytest.param("clock advance 1x", "expected a duration such as 10s", id="duration"),
        pytest.param("clock advance", "expected a duration such as 1d2h30m, or --until CONDITION", id="missing"),
        pytest.param("clock set tomorrow", "expected an ISO 8601 time", id="instant"),
        pytest.param("clock rate quick", "expected a number, 'frozen' or 'realtime'", id="rate"),
        pytest.param("clock rate nan", "expected a number, 'frozen' or 'realtime'", id="rate-nan"),
        pytest.param("clock show --url localhost", "expected an address such as http://", id="url"),
    ],
)
@pytest.mark.usefixtures("empty")
def test_wrong_usage_is_one_line_and_exit_code_2(arguments: str, text: str) -> None:
    seen: list[Settings] = []
    result = CliRunner().invoke(main, arguments.split(), obj=seen.append)

    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith("svc-emulator: ")
    assert said(result).count("\n") == 1
    assert text in result.stderr
    assert seen == []


def test_wrong_key_of_the_file_is_told_with_the_file(empty: Path) -> None:
    (empty / "emulator.toml").write_text("prot = 1001\n", "utf-8")
    seen: list[Settings] = []

    result = CliRunner().invoke(main, ["serve"], obj=seen.append)

    assert (result.exit_code, seen) == (2, [])
    assert result.stderr.startswith("svc-emulator: emulator.toml:1: prot: no such setting (did you mean port?)")


TAKE_NO_SUCH_THING = (
    "serve --dialect",
    "serve --epoch",
    "serve --fixtures",
    "serve --seed",
    "serve --control-token-file",
    "serve --host",
    "clock set",
    "db check",
)
DIGITS, LONG = "9" * 6000, "d" * 300


@pytest.mark.parametrize(
    ("command", "text"),
    [
        *((command, text) for command in TAKE_NO_SUCH_THING for text in (DIGITS, LONG, "\u00b2", "\x1b[31m")),
        *(("serve --db", text) for text in (DIGITS, LONG)),
    ],
)
def test_whatever_is_given_is_refused_in_one_line_of_reasonable_length(
    command: str, text: str, empty: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EMULATOR_PORT", "0")

    result = CliRunner().invoke(main, [*command.split(), text])

    assert result.exit_code in (1, 2)
    assert isinstance(result.exception, SystemExit)
    (line,) = said(result).splitlines()
    assert line.isprintable()
    assert len(line) < 1100


@pytest.mark.parametrize("command", ["fixtures check", "serve --port 0 --fixtures"])
def test_control_characters_of_a_fixtures_file_are_shown_and_not_carried_out(command: str, tmp_path: Path) -> None:
    """D-277."""
    path = tmp_path / "fixtures.yaml"
    path.write_text('"bad\\e[2Jkey": 1\n"\\u202Eback": 2\n', "utf-8")

    result = CliRunner().invoke(main, [*command.split(), str(path)])

    assert result.exit_code == 1
    assert "\\x1b[2Jkey" in result.stderr
    assert result.stderr.replace("\n", "").isprintable()


# -- JSON, and coding agents ----------------------------------------------------------------------

# What starts or checks something here, and asks no server: `env` and `contract` have forms of their own.
WITHOUT_JSON = {"demo", "dev", "env", "mcp", "fixtures check", "db check", "snapshot export"}


def test_every_command_that_lists_or_acts_can_print_json() -> None:
    found = dict(commands(main, ""))
    leaves = {name.strip(): each for name, each in found.items() if not isinstance(each, click.Group)}
    has_json = {name for name, each in leaves.items() if any("--json" in option.opts for option in each.params)}
    assert leaves.keys() - has_json == WITHOUT_JSON


# Each with its arguments, in a world that has what they name.
@pytest.mark.parametrize(
    "arguments",
    [
        *("clock show", "clock advance 1s", "clock advance --until idle", "clock next", "clock drain", "clock rate 0"),
        *("upcoming", "messages", "deliveries", "dead-letters list", "schedules list", "queues", "flow-control"),
        *(
            "groups",
            "refused",
            "destinations list",
            "runs",
            "worlds list",
            "snapshot list",
            "tail --no-follow",
            "health",
        ),
        *("show https://api.test/hook", "explain https://api.test/hook", "redeliver https://api.test/hook"),
        *("worlds create one", "worlds delete two", "snapshot save s", "snapshot restore t", "snapshot delete u"),
        *("destinations add https://x.test/*", "destinations remove --all", "reset"),
    ],
)
def test_what_json_prints_is_json(arguments: str, published: emulators.Server) -> None:
    result = CliRunner().invoke(main, [*arguments.split(), "--json"], env={"EMULATOR_URL": published.url})
    assert (result.exit_code, result.stderr) == (0, ""), result.output
    for line in result.stdout.splitlines() if arguments.startswith("tail") else [result.stdout]:
        assert isinstance(json.loads(line), dict)


@pytest.fixture(scope="module")
def served() -> Iterator[emulators.Server]:
    """With what some of the commands name: a world and two snapshots."""
    with emulators.server() as server:
        emulators.control(server, "POST", "/worlds", {"id": "two"})
        for name in ("t", "u"):
            emulators.control(server, "POST", "/snapshots", {"name": name})
        yield server


@pytest.fixture
def published(served: emulators.Server) -> emulators.Server:
    emulators.control(served, "POST", "/reset")
    emulators.service(served, "POST", "/v2/publish/https://api.test/hook")
    return served


@pytest.mark.parametrize(
    "variable", ["CLAUDECODE", "CURSOR_AGENT", "GEMINI_CLI", "AI_AGENT", "CODEX_SANDBOX", "NO_COLOR"]
)
def test_nothing_is_coloured_for_a_coding_agent(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert wants_colours()
    monkeypatch.setenv(variable, "1")
    assert not wants_colours()
    assert runs_for_agent() is (variable != "NO_COLOR")


# -- in place of the public service's own program (D-800) -------------------------------------------

OF_DEV = ("EMULATOR_PORT", "QSTASH_DEV_PORT", "QSTASH_DEV_QUOTA", "QSTASH_DEV_LOG_PORT")


def settings_of(*arguments: str, **variables: str) -> tuple[Settings, str]:
    """The settings with which a command would start a server, and what it says of them."""
    started: list[Settings] = []
    env = {**dict.fromkeys(OF_DEV), **variables}
    result = CliRunner().invoke(main, arguments, obj=started.append, env=env)
    assert result.exit_code == 0, result.output
    return started[0], result.stderr


@pytest.mark.parametrize(
    ("arguments", "variables", "port"),
    [
        pytest.param((), {}, 8080, id="default"),
        pytest.param((), {"QSTASH_DEV_PORT": "8085"}, 8085, id="variable"),
        pytest.param((), {"QSTASH_DEV_PORT": ""}, 8080, id="empty"),
        pytest.param((), {"EMULATOR_PORT": "8086", "QSTASH_DEV_PORT": "8085"}, 8086, id="own variable first"),
        pytest.param(("-port", "8087"), {"EMULATOR_PORT": "8086", "QSTASH_DEV_PORT": "8085"}, 8087, id="flag first"),
        pytest.param(("-port=8088",), {}, 8088, id="as the public documentation writes it"),
        pytest.param(("--config", "port.toml"), {"QSTASH_DEV_PORT": "8085"}, 8085, id="before the file"),
        pytest.param(("--config", "port.toml"), {}, 8089, id="file"),
    ],
)
def test_dev_listens_where_the_variables_of_the_public_clients_say(
    arguments: tuple[str, ...], variables: dict[str, str], port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D-800."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "port.toml").write_text("port = 8089\n", "utf-8")
    for command in (("dev",), ("qstash", "dev")):
        settings, said = settings_of(*command, *arguments, **variables)
        assert (settings.port, settings.dialect, said) == (port, "upstash", "")
    # They are those of the development server, and of nothing else.
    assert settings_of("serve", **{**variables, "EMULATOR_PORT": ""})[0].port == 8080


@pytest.mark.parametrize(
    ("variable", "value", "expected"),
    [
        ("QSTASH_DEV_PORT", "99999", "expected a port from 0 to 65535, got '99999'"),
        ("QSTASH_DEV_PORT", "eighty", "expected a port from 0 to 65535, got 'eighty'"),
        ("EMULATOR_PORT", "-1", "expected a port from 0 to 65535, got '-1'"),
        ("QSTASH_DEV_QUOTA", "gold", "'gold' is not one of 'free', 'payg', 'pro'"),
        ("QSTASH_DEV_LOG_PORT", "x", "expected a port from 0 to 65535, got 'x'"),
    ],
)
def test_a_wrong_variable_of_the_development_server_is_named(variable: str, value: str, expected: str) -> None:
    """D-800."""
    result = CliRunner().invoke(main, ["dev"], env={**dict.fromkeys(OF_DEV), variable: value})
    assert result.exit_code == 2
    (line,) = said(result).splitlines()
    assert f"(env var: '{variable}'): {expected}" in line


def test_a_wrong_flag_of_the_development_server_names_no_variable() -> None:
    """D-800."""
    result = CliRunner().invoke(main, ["dev", "-port", "x"], env={"QSTASH_DEV_PORT": "8085"})
    assert result.exit_code == 2
    assert "env var" not in said(result)


@pytest.mark.parametrize("option", ["-log-port", "--log-port"])
def test_a_port_of_a_log_server_is_taken_with_a_note(option: str) -> None:
    """D-800."""
    for arguments, variables in (((option, "9000"), {}), ((), {"QSTASH_DEV_LOG_PORT": "9000"})):
        settings, note = settings_of("dev", *arguments, **variables)
        assert settings.port == 8080
        assert note == (
            "note: --log-port 9000: there is no log server, the logs are in the page /_emulator/inspector\n"
        )
