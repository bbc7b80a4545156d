"""The README says what is so: its settings are the code's, and its commands run."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

import pytest
from click.testing import CliRunner

from emulator.cli import main
from emulator.settings import Settings
from tests.support import server

README = Path(__file__).parent.parent / "README.md"
FIRST_TEST = re.compile(r"```python\n(?P<code>import json\n.*?)```", re.DOTALL)
COMMAND = re.compile(r"svc-emulator ([a-z][^`\n#|]*)")


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


def commands() -> list[str]:
    """Every `svc-emulator ...` in the README, placeholders filled in, each once."""
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


@pytest.mark.slow
def test_first_test_of_the_readme_passes() -> None:
    found = FIRST_TEST.search(README.read_text())
    assert found is not None
    with server(epoch="2026-01-01T00:00:00Z") as running:
        code = found["code"].replace("http://127.0.0.1:8080", running.url)
        names: dict[str, Callable[[], None]] = {}
        exec(compile(code, str(README), "exec"), names)
        names["test_a_reminder_arrives_the_next_day"]()


def test_fixtures_of_the_readme_are_good(tmp_path: Path) -> None:
    found = re.search(r"```yaml\n(?P<text>.*?)```", README.read_text(), re.DOTALL)
    assert found is not None
    file = tmp_path / "team.yaml"
    file.write_text(found["text"])
    result = CliRunner().invoke(main, ["fixtures", "check", str(file)])
    assert result.exit_code == 0, result.output
