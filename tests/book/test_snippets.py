"""Every snippet of every page, and of the README, does what the page says.

`BOOK_PYTHON` names another interpreter, such as that of an environment in which the wheel is installed: all commands
and tests then run with what is installed there, from an empty folder.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.book.snippets import ELSEWHERE, ENDLESS, Page, Snippet, missing_lines, pages
from tests.examples.workplaces import free_port
from tests.harness import forks
from tests.harness.emulators import EPOCH, server
from tests.harness.processes import PATIENCE_S, ROOT, environment

PAGES = pages()
PYTHON = os.environ.get("BOOK_PYTHON", "")
_MARK = "@@ the next command @@"


def test_every_snippet_has_something_that_runs_it() -> None:
    loose = [str(snippet) for page in PAGES for snippet in page.snippets if not snippet.is_run]
    assert loose == []


@pytest.mark.parametrize("page", [page for page in PAGES if page.path.name != "README.md"], ids=str)
def test_a_page_without_a_tested_snippet_says_why(page: Page) -> None:
    tested = [
        each
        for each in page.snippets
        if each.language != "pycon" and (each.language != "console" or not each.elsewhere)
    ]
    assert bool(page.untested) != bool(tested)


def test_a_command_that_does_not_end_has_a_block_of_its_own() -> None:
    endless = [
        each
        for page in PAGES
        for each in page.consoles
        if any(command.text.startswith(ENDLESS) for command in each.commands)
    ]
    assert [str(each) for each in endless if len(each.commands) > 1] == []


# -- tests ------------------------------------------------------------------------------------


def variables(folder: Path) -> dict[str, str]:
    """What commands of a page see: the program and pytest on the path, and nothing of the project's own test run."""
    programs = folder / "programs"
    programs.mkdir(exist_ok=True)
    plugin = "" if PYTHON else "-p emulator.pytest_plugin "
    for name, module in (("svc-emulator", "emulator"), ("pytest", f"pytest -p no:cacheprovider {plugin}")):
        script = programs / name
        script.write_text(f'#!/bin/sh\nexec "{PYTHON or sys.executable}" -m {module} "$@"\n')
        script.chmod(0o755)
    if forks.IS_POSSIBLE and not PYTHON:
        forks.command("emulator", programs / "svc-emulator")
    ours = ("PYTEST_", "SVC_", "QSTASH_", "UPSTASH_", "CI")
    found = {name: value for name, value in environment().items() if not name.startswith(ours)}
    if PYTHON:
        del found["PYTHONPATH"]
    else:
        found["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    return {**found, "HOME": str(folder), "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}


@pytest.mark.slow
def test_all_tests_of_the_pages_pass(tmp_path: Path) -> None:
    """One run for all of them, each page in a folder of its own; a snippet that is no test is made one."""
    expected = []
    for page in PAGES:
        if page.runs_all_tests:
            continue
        folder = tmp_path / re.sub(r"\W", "_", str(page))
        folder.mkdir()
        page.write_files(folder)
        scripts = [each for each in page.snippets if each.is_script]
        for script in scripts:
            name = f"test_line_{script.line}_of_{folder.name}"
            code = f"def {name}():\n    exec(compile({script.text!r}, {str(script)!r}, 'exec'), {{}})\n"
            (folder / f"{name}.py").write_text(code, "utf-8")
        expected += [str(folder.name)] * bool(scripts or any(each.has_test for each in page.snippets))
    # Files of different pages with one name would be one module.
    command = ["pytest", "-q", "-rA", "--tb=short", "--rootdir", str(tmp_path), "."]
    done = subprocess.run(
        ["bash", "-c", shlex.join(command)],
        cwd=tmp_path,
        env=variables(tmp_path),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    passed = set(re.findall(r"^PASSED (\w+)/", done.stdout, re.MULTILINE))
    assert sorted(set(expected) - passed) == []


# -- commands ---------------------------------------------------------------------------------


def sessions(page: Page) -> Iterator[tuple[str, list[Snippet]]]:
    """The command of each server that the page starts, with the blocks that talk to it."""
    serve: str = ""
    blocks: list[Snippet] = []
    for block in page.consoles:
        if block.serve:
            if blocks or serve:
                yield serve, blocks
            serve, blocks = block.serve, []
        elif not block.commands[0].text.startswith(ENDLESS):
            blocks.append(block)
    if blocks or serve:
        yield serve, blocks


SESSIONS = [
    pytest.param(page, number, id=f"{page}-{number}") for page in PAGES for number, _ in enumerate(sessions(page))
]


@contextlib.contextmanager
def _served(command: str, folder: Path, own: dict[str, str]) -> Iterator[str]:
    """The port of a server; without a command, one in a thread of this process."""
    if not command and not PYTHON:
        with server(epoch=EPOCH) as running:
            yield str(running.port)
        return
    port = str(free_port())
    arguments = shlex.split(command or f"svc-emulator serve --clock frozen --epoch {EPOCH}")
    arguments = [port if each == "8080" else each for each in arguments]
    # Not by way of the program on the path, which could not be ended by a signal.
    program: type[subprocess.Popen[str]] = subprocess.Popen
    if not PYTHON:
        program, arguments = forks.Forked, [sys.executable, "-m", "emulator", *arguments[1:]]
    with program(
        arguments,
        cwd=folder,
        env={**own, "EMULATOR_PORT": port},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as running:
        try:
            assert running.stdout is not None
            first = running.stdout.readline()
            assert port in first, first
            yield port
        finally:
            running.terminate()


@pytest.mark.slow
@pytest.mark.parametrize(("page", "number"), SESSIONS)
def test_commands_of_a_page_run_and_print_what_it_says(page: Page, number: int, tmp_path: Path) -> None:
    serve, blocks = list(sessions(page))[number]
    own = variables(tmp_path)
    folder = tmp_path / "empty"
    folder.mkdir()
    commands = [(block, command) for block in blocks for command in block.commands]
    with _served(serve, folder, own) as port:
        # Not EMULATOR_URL, with which pytest would use this server too.
        found = {**own, "EMULATOR_PORT": port}
        lines = _script(page, blocks, tmp_path / "files", port)
        done = subprocess.run(
            ["bash", "-c", "\n".join(lines)],
            cwd=folder,
            env=found,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=PATIENCE_S,
        )
    printed = done.stdout.replace(port, "8080")
    assert '{"error"' not in printed
    outputs = printed.split(f"{_MARK}\n")
    assert len(outputs) == len(commands) + 1, printed
    for (block, command), output in zip(commands, outputs, strict=False):
        output, _, code = output.rpartition("exit code ")
        assert (code.strip() == "0") != command.fails, f"{block}: $ {command.text}\nexit code {code}{output}"
        missing = list(missing_lines(output, command.printed))
        assert not missing, f"{block}: $ {command.text}\nhas no line {missing[0]!r} (in this order) in\n{output}"


def _script(page: Page, blocks: list[Snippet], files: Path, port: str) -> list[str]:
    """The session as lines of bash: files of the page are there from where the page has them on."""
    files.mkdir()
    lines, own_port = ["set -uo pipefail"], str(free_port())
    for number, snippet in enumerate(page.snippets):
        if snippet.is_file:
            (files / str(number)).write_text(snippet.text.replace("8917", own_port), "utf-8")
            lines.append(f"mkdir -p $(dirname {snippet.file_name}) && cp {files / str(number)} {snippet.file_name}")
        elif snippet in blocks:
            for command in snippet.commands:
                lines += [re.sub(r"\b8080\b", port, command.text), 'echo "exit code $?"', f"echo '{_MARK}'"]
    return lines


def test_what_is_not_run_here_is_named_by_the_rules_alone() -> None:
    """A reason for what no page has would be a rule that nobody needs."""
    text = "\n".join(page.text for page in PAGES)
    assert [start for start in ELSEWHERE if f"$ {start}" not in text] == []
    assert ROOT.joinpath(".ci", "fresh-clone").is_file()
