"""What the examples' README files say is there is there."""

from __future__ import annotations

import re
import shlex

import pytest
from click.testing import CliRunner

from emulator.cli import main
from tests.examples.workplaces import EXAMPLES

LINK = re.compile(r"\]\((?!https?:)([^)]+)\)")
COMMAND = re.compile(r"svc-emulator ((?:[\w:/.-]+ ?)+)")

NAMES = ["curl", "express", "fastapi", "flask", "metrics", "nextjs", "traces", "vitest", "workflow"]


@pytest.mark.parametrize("name", [".", *NAMES])
def test_every_file_that_is_named_exists(name: str) -> None:
    folder = EXAMPLES / name
    named = LINK.findall((folder / "README.md").read_text())
    assert [link for link in named if not (folder / link).exists()] == []


@pytest.mark.parametrize("name", NAMES)
def test_every_command_exists_with_its_options(name: str) -> None:
    """`--help` at the end makes the program check the names and read the options without doing anything."""
    folder = EXAMPLES / name
    texts = [path.read_text() for path in (folder / "README.md", *folder.glob("*.sh"))]
    commands = {command for text in texts for command in COMMAND.findall(text)}
    assert commands
    for command in commands:
        result = CliRunner().invoke(main, [*shlex.split(command), "--help"])
        assert result.exit_code == 0, f"{command}: {result.output}"


@pytest.mark.parametrize("readme", ["docs/howto/vitest.md", "examples/vitest/README.md"])
def test_the_typescript_that_is_shown_is_one_of_the_tests(readme: str) -> None:
    shown = re.findall(r"```ts\n(.*?)```", (EXAMPLES.parent / readme).read_text(), re.DOTALL)
    tests = (EXAMPLES / "vitest" / "trial.test.ts").read_text()
    assert [each for each in shown if each in tests]


def test_the_javascript_examples_have_the_same_helper() -> None:
    assert len({(EXAMPLES / name / "emulator.js").read_text() for name in ("express", "nextjs", "workflow")}) == 1
