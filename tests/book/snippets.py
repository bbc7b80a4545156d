"""The snippets of a Markdown page, and how each of them is run.

The rules for those who write a page:

- A `console` block has commands after `$ `. What follows a command is what it prints, in order; `...` stands for
  anything, alone on a line for any lines. The commands of a page are one shell session in an empty folder, beside a
  server with a clock frozen at 2026-01-01; a block that starts `serve` or `dev` begins another session with that one.
- A block whose first line is a comment with a file name is that file in the page's folder.
- A `python` block is a test, if it has one, in a file so named; otherwise it is run as it is.
- Any other block is verbatim part of a file of `examples/`, whose own tests run it.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

import yaml

from tests.examples.workplaces import EXAMPLES
from tests.harness.processes import ROOT

DOCS = ROOT / "docs"
_BLOCK = re.compile(r"^```(?P<language>[\w{}.+-]*)\n(?P<text>.*?)^```$", re.DOTALL | re.MULTILINE)
_FRONT_MATTER = re.compile(r"\A---\n(.*?)\n---\n", re.DOTALL)
_FILE_NAME = re.compile(r"(?:#|//|;) ([\w./-]+\.\w+)\b")
SERVES = ("svc-emulator serve", "svc-emulator dev")
# What runs until somebody ends it, and has a block of its own.
ENDLESS = (*SERVES, "svc-emulator tail", "docker run", "docker compose up")
# Commands that are not run here, by how they begin, and what runs them instead.
ELSEWHERE = {
    "docker": "tests/container does what the image does; the workflow builds and runs it",
    "pip install": "tests/test_wheel.py and .ci/fresh-clone install the project",
    "python -m pip": ".ci/fresh-clone runs it from a fresh clone",
    "npm": "tests/examples runs the examples with their packages",
    "schemathesis": "tests/contracts/fuzzing.py has that run",
}


@cache
def _examples() -> list[str]:
    files = (path for path in sorted(EXAMPLES.rglob("*")) if path.is_file() and "node_modules" not in path.parts)
    return [path.read_text("utf-8") for path in files if path.suffix not in (".png", ".pyc")]


@dataclass(frozen=True)
class Snippet:
    """One fenced block; `line` is where its text begins in the page."""

    page: Path
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"

    @cached_property
    def file_name(self) -> str:
        """The file that the block is, empty if it is none."""
        found = _FILE_NAME.match(self.text)
        return found.group(1) if found else ""

    @property
    def is_file(self) -> bool:
        """Whether the block is put into the page's folder."""
        return bool(self.file_name) and self.language not in ("console", "ts", "js")

    @cached_property
    def is_of_an_example(self) -> bool:
        """Whether it is part of a file of `examples/`, whose own tests run it."""
        return any(self.text in source for source in _examples())

    @property
    def is_script(self) -> bool:
        return self.language == "python" and not self.file_name and not self.is_of_an_example

    @property
    def has_test(self) -> bool:
        return self.language == "python" and self.file_name.startswith("test_")

    @property
    def is_run(self) -> bool:
        """Whether anything runs or reads it: the rules above."""
        # Pictures, and examples of docstrings, which are doctests.
        if self.language in ("console", "", "pycon"):
            return True
        if self.is_script:
            return "def test_" not in self.text
        return self.is_of_an_example or self.language in ("python", "yaml", "toml", "ini", "sh")

    @cached_property
    def commands(self) -> tuple[Command, ...]:
        """The commands of a console block."""
        pieces = re.split(r"^\$ ", self.text, flags=re.MULTILINE)
        assert not pieces[0].strip(), f"{self}: a line without a command before it"
        return tuple(_command(piece) for piece in pieces[1:])

    @property
    def serve(self) -> str:
        """The command of a server that the block starts, empty if it starts none."""
        first = self.commands[0].text
        return first if first.startswith(SERVES) else ""

    @property
    def elsewhere(self) -> str:
        """What runs the block instead, empty if it is run here."""
        commands = [command.text for command in self.commands]
        return next((why for start, why in ELSEWHERE.items() if any(each.startswith(start) for each in commands)), "")


@dataclass(frozen=True)
class Command:
    """What is typed, and the lines that the page says it prints."""

    text: str
    printed: tuple[str, ...]

    @property
    def fails(self) -> bool:
        """Whether the page shows a failure, whose exit code is not 0."""
        return any(line.startswith(("E ", "FAILED ", "Error", "svc-emulator: ")) for line in self.printed)


def _command(piece: str) -> Command:
    """The first lines are the command: those that the shell needs to read before it is whole."""
    lines = piece.rstrip("\n").split("\n")
    for count in range(1, len(lines) + 1):
        text = "\n".join(lines[:count])
        quick = count == 1 and not re.search(r"['\"\\(`<{]", text)
        if quick or (
            not text.endswith("\\") and subprocess.run(["bash", "-nc", text], capture_output=True).returncode == 0
        ):
            return Command(text, tuple(line for line in lines[count:] if line.strip()))
    raise AssertionError(f"bash cannot read {piece!r}")


@dataclass(frozen=True)
class Page:
    """A Markdown file with its front matter."""

    path: Path

    def __str__(self) -> str:
        return str(self.path.relative_to(ROOT))

    @cached_property
    def text(self) -> str:
        return self.path.read_text("utf-8")

    @cached_property
    def untested(self) -> str:
        """Why the page has no snippet that runs; the page itself says so in its front matter."""
        found = _FRONT_MATTER.match(self.text)
        return str(yaml.safe_load(found.group(1)).get("untested", "")) if found else ""

    @cached_property
    def snippets(self) -> tuple[Snippet, ...]:
        return tuple(
            Snippet(self.path, self.text.count("\n", 0, match.start("text")) + 1, match["language"], match["text"])
            for match in _BLOCK.finditer(self.text)
            # A directive of the builder, such as the contents.
            if not match["language"].startswith("{")
        )

    @property
    def consoles(self) -> list[Snippet]:
        """The console blocks that run here."""
        return [each for each in self.snippets if each.language == "console" and not each.elsewhere]

    @property
    def runs_all_tests(self) -> bool:
        """Whether the page's own commands run all of its tests."""
        return "pytest -q" in [command.text for each in self.consoles for command in each.commands]

    def write_files(self, folder: Path) -> None:
        """Put the files of the page into a folder, but for those below it, which commands of the page run."""
        for snippet in self.snippets:
            if snippet.is_file and "/" not in snippet.file_name:
                file = folder / snippet.file_name
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(snippet.text, "utf-8")


def pages() -> list[Page]:
    """The README and every page of the book."""
    return [
        Page(ROOT / "README.md"),
        *(Page(path) for path in sorted(DOCS.rglob("*.md")) if not path.name.startswith("llms")),
    ]


def missing_lines(printed: str, expected: tuple[str, ...]) -> Iterator[str]:
    """The expected lines that are not printed in this order."""
    lines = iter(printed.splitlines())
    for line in expected:
        if line.strip() == "...":
            continue
        pattern = re.compile(re.escape(line.rstrip()).replace(r"\.\.\.", ".*"))
        if not any(pattern.fullmatch(each.rstrip()) for each in lines):
            yield line
            return
