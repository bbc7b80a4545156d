"""The README says what is so: its settings are the code's, its commands run, and its tests pass."""

from __future__ import annotations

import os
import re
import shlex
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import httpx
import pytest
from click.testing import CliRunner

from emulator import Emulator, PublishOptions
from emulator.cli import main
from emulator.server.settings import Settings
from emulator.version import VERSION
from tests.harness.emulators import server
from tests.harness.job_receivers import JobReceiver, as_function, served

README = Path(__file__).parent.parent / "README.md"
COMMAND = re.compile(r"svc-emulator ([a-z][^`\n#|]*)")
CONSOLE = re.compile(r"```console\n(?P<lines>.*?)```", re.DOTALL)
PYTHON = re.compile(r"```python\n(?P<code>.*?)```", re.DOTALL)
YAML = re.compile(r"```yaml\n(?P<text>.*?)```", re.DOTALL)
SERVE = "svc-emulator serve"
# The receiver of the reader.
RECEIVER = "http://localhost:3000/jobs"
# What runs until somebody ends it.
ENDLESS = (SERVE, "svc-emulator tail", "docker run")
# What a block of commands may need, and is not run here, with the reason.
ELSEWHERE = {
    "docker": "tests/container does what it does, without an engine",
    "pip": "tests/test_wheel.py installs the project",
    "python -m pip": "this is that run",
    "schemathesis": "tests/contracts runs that line",
}


def settings_table() -> str:
    """The table that the README must hold between its markers."""
    lines = ["| option | default | meaning |", "|---|---|---|"]
    for entry in fields(Settings):
        default = entry.default
        shown = "" if default in ("", ()) else f"`{default}`"
        meaning = str(entry.metadata["help"]).replace("|", "\\|")
        lines.append(f"| `--{entry.name.replace('_', '-')}` | {shown} | {meaning} |")
    return "\n".join(lines)


def test_settings_table_lists_every_setting_with_its_default() -> None:
    text = README.read_text()
    found = text.split("<!-- settings -->")[1].split("<!-- /settings -->")[0].strip()
    assert found == settings_table()


# -- commands ---------------------------------------------------------------------------------


def commands() -> list[str]:
    """Every `svc-emulator ...` in the README, each once."""
    found = dict.fromkeys(match.group(1).strip().rstrip('".,;)') for match in COMMAND.finditer(README.read_text()))
    return [command for command in found if command]


@pytest.mark.parametrize("command", commands())
def test_every_command_in_the_readme_exists_with_its_options(command: str) -> None:
    """`--help` at the end makes the program check the names and read the options without doing anything."""
    result = CliRunner().invoke(main, [*shlex.split(command.replace("'", "").split("&&")[0]), "--help"])
    assert result.exit_code == 0, result.output


def test_readme_names_every_top_level_command() -> None:
    named = {command.split()[0] for command in commands()}
    assert {name for name in main.list_commands(None) if name} <= named  # type: ignore[arg-type]  # needs no context


@dataclass(frozen=True)
class Block:
    """The commands of one console block, in order; each may have several lines.

    `serve` is what the block before runs in another terminal, if that runs a server.
    """

    number: int
    commands: tuple[str, ...]
    serve: str = "svc-emulator serve --clock frozen"

    def __str__(self) -> str:
        return f"{self.number}: {self.commands[0][:40]}"

    @property
    def is_elsewhere(self) -> bool:
        return any(command.startswith(tuple(ELSEWHERE)) for command in self.commands)

    @property
    def blocks(self) -> bool:
        """Whether a command runs until somebody ends it."""
        return any(command.startswith(ENDLESS) for command in self.commands)


def blocks() -> list[Block]:
    found: list[Block] = []
    for number, match in enumerate(CONSOLE.finditer(README.read_text()), start=1):
        pieces = re.split(r"^\$ ", match["lines"], flags=re.MULTILINE)[1:]
        commands = tuple(_without_output(piece) for piece in pieces)
        before = found[-1] if found and found[-1].commands[0].startswith(SERVE) else None
        found.append(Block(number, commands, before.commands[0]) if before else Block(number, commands))
    return found


def test_a_command_that_does_not_end_has_a_block_of_its_own() -> None:
    assert [block for block in blocks() if block.blocks and len(block.commands) > 1] == []
    assert sum(block.blocks for block in blocks()) >= 4


def _without_output(piece: str) -> str:
    """The lines that the shell needs to read before the command is whole; what follows is what it printed."""
    lines = piece.rstrip("\n").split("\n")
    for count in range(1, len(lines) + 1):
        command = "\n".join(lines[:count])
        if not command.endswith("\\") and subprocess.run(["bash", "-nc", command], capture_output=True).returncode == 0:
            return command
    raise AssertionError(f"bash cannot read {piece!r}")


@contextmanager
def _served(command: str, folder: Path, environment: dict[str, str]) -> Iterator[None]:
    """A `serve` of the README in the background, from when it listens until the block has ended."""
    arguments = [sys.executable, "-m", "emulator", *shlex.split(command)[1:]]
    with subprocess.Popen(
        arguments, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as running:
        try:
            assert running.stdout is not None
            assert environment["EMULATOR_PORT"] in running.stdout.readline()
            yield
        finally:
            running.terminate()


@pytest.mark.slow
@pytest.mark.parametrize("block", [each for each in blocks() if not (each.is_elsewhere or each.blocks)], ids=str)
def test_every_block_of_commands_runs_as_it_is_written(block: Block, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "svc-emulator").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m emulator "$@"\n')
    (programs / "svc-emulator").chmod(0o755)
    environment = {
        "PATH": f"{programs}:{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "PYTHONPATH": str(README.parent),
        "EMULATOR_PORT": port,
        "EMULATOR_URL": f"http://127.0.0.1:{port}",
    }
    (tmp_path / "openapi.yaml").write_bytes((README.parent / "contracts" / "messaging.openapi.yaml").read_bytes())
    # A block talks to a server that runs already, with the variables of `env`.
    script = "\n".join(
        ["set -euo pipefail", 'eval "$(svc-emulator env)"']
        + [command.replace("8080", port) for command in block.commands]
    )
    with _served(block.serve, tmp_path, environment):
        result = subprocess.run(
            ["bash", "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60
        )
    assert result.returncode == 0, f"{script}\n{result.stdout}\n{result.stderr}"
    assert '{"error"' not in result.stdout


@pytest.mark.slow
def test_every_command_of_the_table_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One after the other against one server, as somebody would who reads down the table."""
    table = README.read_text().split("| command | does |\n")[1].split("\n\n")[0]
    (tmp_path / "openapi.yaml").write_bytes((README.parent / "contracts" / "messaging.openapi.yaml").read_bytes())
    found = YAML.search(README.read_text())
    assert found is not None
    (tmp_path / "team.yaml").write_text(found["text"])
    monkeypatch.chdir(tmp_path)
    ran = []
    with server(db=str(tmp_path / "state.db")):
        pass
    jobs = JobReceiver()
    with server() as running, served(jobs) as receiver:
        keys = {"SVC_CURRENT_SIGNING_KEY": jobs.current, "SVC_NEXT_SIGNING_KEY": jobs.following}
        published = httpx.post(
            f"{running.url}/v2/publish/https://app.example.com",
            headers={"Authorization": f"Bearer {running.token}"},
            trust_env=False,
        )
        message_id = published.json()["messageId"]
        httpx.post(
            f"{running.url}/v2/publish/https://app.example.com",
            headers={"Authorization": f"Bearer {running.token}", "Svc-Label": "reminder", "Svc-Delay": "60d"},
            trust_env=False,
        ).raise_for_status()
        for match in re.finditer(r"^\| `svc-emulator ([^`]*)` \|", table, re.MULTILINE):
            command = match.group(1)
            if command in ("serve", "tail"):
                continue  # They do not end; the blocks above run the one, and tests/cli the other.
            arguments = command.replace("MESSAGE_ID", message_id).replace(RECEIVER, receiver).split()
            variables = {"EMULATOR_URL": running.url, "EMULATOR_PORT": str(running.port), **keys}
            result = CliRunner().invoke(main, arguments, env=variables)
            assert result.exit_code == 0, f"{command}\n{result.output}\n{result.exception!r}"
            ran.append(command.split()[0])
    assert {*ran, "serve", "tail"} == {name for name in main.list_commands(None) if name}  # type: ignore[arg-type]


# -- code -------------------------------------------------------------------------------------


@pytest.mark.slow
def test_first_test_of_the_readme_passes_and_can_fail(tmp_path: Path) -> None:
    code = next(match["code"] for match in PYTHON.finditer(README.read_text()) if "def test_" in match["code"])

    def run(text: str) -> subprocess.CompletedProcess[str]:
        (tmp_path / "test_reminder.py").write_text(text)
        return subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "emulator.pytest_plugin", "-p", "no:cacheprovider"],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(README.parent), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
            capture_output=True,
            text=True,
            timeout=60,
        )

    assert code.count("\n") <= 20
    passed = run(code)
    assert "1 passed" in passed.stdout, passed.stdout
    failed = run(code.replace('"1d1m"', '"1d5m"'))
    assert "attempt 2: expected +1d5m (2026-01-02T00:05:00.000Z), began +1d1m" in failed.stdout
    assert "svc-emulator timeline" in failed.stdout


@pytest.mark.slow
def test_the_test_with_many_seeds_of_the_readme_passes_and_can_fail(tmp_path: Path) -> None:
    code = next(match["code"] for match in PYTHON.finditer(README.read_text()) if "emulator_seeds" in match["code"])
    assert "shipped = set()" in code
    once = code.replace("set()", "[]").replace("shipped.add", "shipped.append").replace('{b"7"}', '[b"7"]')
    for text, said in ((code, "1 passed"), (once, "duplicate of attempt")):
        (tmp_path / "test_orders.py").write_text(text)
        completed = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "emulator.pytest_plugin", "-p", "no:cacheprovider"],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(README.parent), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert said in completed.stdout, completed.stdout


def test_emulator_example_of_the_readme_runs() -> None:
    code = next(match["code"] for match in PYTHON.finditer(README.read_text()) if "with Emulator(" in match["code"])

    def call_the_code_under_test(environment: dict[str, str]) -> None:
        answer = httpx.post(
            f"{environment['SVC_URL']}/v2/publish/https://app.test/hook",
            headers={"Authorization": f"Bearer {environment['SVC_TOKEN']}", "Svc-Delay": "1d"},
            trust_env=False,
        )
        answer.raise_for_status()

    seen: list[object] = []
    names = {"my_app": seen.append, "call_the_code_under_test": call_the_code_under_test}
    exec(compile(code, str(README), "exec"), dict(names))
    assert len(seen) == 1


def _run_tests(folder: Path) -> str:
    """What pytest prints that runs the tests in a folder, with the plugin."""
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "emulator.pytest_plugin", "-p", "no:cacheprovider"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(README.parent), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        timeout=60,
    ).stdout


def test_conftest_of_the_readme_wires_an_application_to_its_world(tmp_path: Path) -> None:
    code = next(match["code"] for match in PYTHON.finditer(README.read_text()) if "# conftest.py" in match["code"])
    (tmp_path / "conftest.py").write_text(code)
    (tmp_path / "shop.py").write_text("seen = []\napp = seen.append\n")
    (tmp_path / "test_shop.py").write_text(
        """
import os
import shop as application

def test_it_is_called_back(shop):
    assert os.environ["SVC_TOKEN"] == shop.token
    shop.publish("https://shop.example.com/remind", delay="1d")
    shop.clock.advance("1d")
    assert len(application.seen) == 1
"""
    )
    printed = _run_tests(tmp_path)
    assert "1 passed" in printed, printed


def test_fixture_for_a_module_of_the_readme_works(tmp_path: Path) -> None:
    code = next(match["code"] for match in PYTHON.finditer(README.read_text()) if 'scope="module"' in match["code"])
    tests = """

def test_first(shop):
    shop.publish("https://app.example.com", delay="1d")
    shop.clock.advance("1d")

def test_second(shop, emulator):
    assert [len(each.deliveries()) for each in (shop, emulator)] == [1, 0]
    assert str(shop.clock.now()) == "2026-01-02 00:00:00+00:00"
"""
    (tmp_path / "test_shop.py").write_text(code + tests)
    printed = _run_tests(tmp_path)
    assert "2 passed" in printed, printed


def test_lines_that_check_a_receiver_run() -> None:
    code = next(match["code"] for match in PYTHON.finditer(README.read_text()) if "check_receiver" in match["code"])
    with Emulator() as emulator:
        keys = emulator.credentials
        for mistake in ("", "works twice for duplicates"):
            jobs = JobReceiver(
                "https://app.example.com/remind", mistake, keys.current_signing_key, keys.next_signing_key
            )
            names: dict[str, Any] = {"my_app": as_function(jobs), "sent_mails": jobs.done}
            exec(compile(code, str(README), "exec"), names)
            with pytest.raises(AssertionError, match="idempotency") if mistake else nullcontext():
                names["test_the_receiver_is_right"](emulator)


def test_readme_lists_every_method_and_every_option_of_publish() -> None:
    """The lists are whole, and name nothing that is not there."""
    text = README.read_text()
    table = text.split("<!-- methods -->")[1].split("<!-- /methods -->")[0]
    emu = Emulator()
    for line in table.strip().splitlines()[2:]:
        part, listed = line.strip("| ").split(" | ")
        owner = getattr(emu, part.strip("`").removeprefix("emu.")) if "." in part else emu
        names = set(re.findall(r"`([a-z_]+)`", listed))
        assert names == {name for name in dir(owner) if not name.startswith("_")} - vars(owner).keys(), part
    parts = {name for name in vars(emu) if not name.startswith("_")}
    assert parts == set(re.findall(r"`emu\.([a-z_]+)`", table))
    for option in PublishOptions.__annotations__:
        assert f"`{option}`" in text, option


def test_lines_for_django_are_those_of_a_project_whose_tests_pass() -> None:
    code = next(match["code"] for match in PYTHON.finditer(README.read_text()) if "django" in match["code"])
    tested = (README.parent / "tests" / "users" / "django_project" / "cases.py").read_text()
    assert [line for line in code.splitlines() if line not in tested] == []


def test_wheel_of_the_readme_is_the_one_that_is_built() -> None:
    assert f"svc_emulator-{VERSION}-py3-none-any.whl" in README.read_text()


def test_fixtures_of_the_readme_are_good(tmp_path: Path) -> None:
    found = YAML.search(README.read_text())
    assert found is not None
    file = tmp_path / "team.yaml"
    file.write_text(found["text"])
    result = CliRunner().invoke(main, ["fixtures", "check", str(file)])
    assert result.exit_code == 0, result.output


def test_every_link_to_a_file_leads_somewhere() -> None:
    for target in re.findall(r"\]\((?!https?://)([^)#]+)\)", README.read_text()):
        assert (README.parent / target).exists(), target
