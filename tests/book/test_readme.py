"""The README: what it begins and ends with, its first test, and the commands that the book names."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner

from emulator.cli import main
from emulator.version import VERSION
from tests.book.snippets import DOCS, Page, pages
from tests.book.test_snippets import variables
from tests.harness.emulators import server
from tests.harness.job_receivers import JobReceiver, served
from tests.harness.processes import PATIENCE_S, ROOT

PAGES = pages()
README = PAGES[0]
COMMAND = re.compile(r"svc-emulator ([a-z][^`\n#|>&]*)")
# The receiver of the reader.
RECEIVER = "http://localhost:3000/jobs"
# They do not end, or need a workflow run that waits: other pages have them, and tests/cli.
ELSEWHERE = ("serve", "dev", "tail", "mcp", "notify")
INSTALL = "python -m pip install . && svc-emulator demo"
TESTS = "python -m pip install '.[test]' && python -m pytest"


def test_it_is_short_and_begins_and_ends_with_the_commands_of_a_fresh_clone() -> None:
    assert README.text.count("\n") <= 250
    first, *_, last = README.snippets
    assert [command.text for command in (*first.commands, *last.commands)] == [INSTALL, TESTS]
    assert f"svc_emulator-{VERSION}-py3-none-any.whl" in README.text


def test_the_book_has_at_most_thirty_pages() -> None:
    assert 20 < len(PAGES) - 1 <= 30


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_every_link_to_a_file_leads_somewhere(page: Page) -> None:
    """Those to headings are checked when the book is built."""
    links = re.findall(r"\]\((?!https?://|#)([^)#]+)(?:#[^)]*)?\)", page.text)
    assert [link for link in links if not (page.path.parent / link).exists()] == []


@pytest.mark.slow
def test_first_test_of_the_readme_passes_and_can_fail(tmp_path: Path) -> None:
    code = next(each.text for each in README.snippets if each.file_name == "test_reminder.py")
    assert code.count("\n") <= 20
    (tmp_path / "test_reminder.py").write_text(code)
    (tmp_path / "test_that_fails.py").write_text(code.replace('"1d1m"', '"1d5m"'))
    command = ["bash", "-c", "pytest -q -rA"]
    own = variables(tmp_path)
    done = subprocess.run(command, cwd=tmp_path, env=own, capture_output=True, text=True, timeout=PATIENCE_S)
    assert re.search(r"^PASSED test_reminder\.py", done.stdout, re.MULTILINE), done.stdout
    assert "1 failed, 1 passed" in done.stdout
    assert "attempt 2: expected +1d5m (2026-01-02T00:05:00.000Z), began +1d1m" in done.stdout
    assert "svc-emulator timeline" in done.stdout


# -- commands ---------------------------------------------------------------------------------


def commands() -> list[str]:
    """Every `svc-emulator ...` of the pages, each once."""
    found = dict.fromkeys(
        match.group(1).strip().rstrip('".,;):')
        for page in PAGES
        for match in COMMAND.finditer(page.text.split("<!-- generated -->")[0])
    )
    return [command for command in found if command and command.split()[0] in main.list_commands(None)]  # type: ignore[arg-type]  # needs no context


def test_every_command_that_is_named_exists_with_its_options() -> None:
    """`--help` at the end makes the program check the names and read the options without doing anything."""
    wrong = {}
    for command in commands():
        text = command.replace("\n", " ").partition(" 2>")[0].partition(" >")[0]
        result = CliRunner().invoke(main, [*shlex.split(text.replace("'", "").replace('"', "")), "--help"])
        if result.exit_code:
            wrong[command] = result.output
    assert wrong == {}


@pytest.mark.slow
def test_every_command_of_the_table_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One after the other against one server, as somebody would who reads down the table."""
    table = (DOCS / "reference" / "shell.md").read_text("utf-8").split("| command | does |\n")[1].split("\n\n")[0]
    (tmp_path / "openapi.yaml").write_bytes((ROOT / "contracts" / "messaging.openapi.yaml").read_bytes())
    fixtures = next(each.text for page in PAGES for each in page.snippets if each.file_name == "team.yaml")
    (tmp_path / "team.yaml").write_text(fixtures)
    monkeypatch.chdir(tmp_path)
    ran = []
    with server(db=str(tmp_path / "state.db")):
        pass
    jobs = JobReceiver()
    with server() as running, served(jobs) as receiver:
        keys = {"SVC_CURRENT_SIGNING_KEY": jobs.current, "SVC_NEXT_SIGNING_KEY": jobs.following}
        message_id, _ = [
            httpx.post(
                f"{running.url}/v2/publish/https://app.example.com",
                headers={"Authorization": f"Bearer {running.token}", **options},
                trust_env=False,
            ).json()["messageId"]
            for options in ({}, {"Svc-Label": "reminder", "Svc-Delay": "60d"})
        ]
        for match in re.finditer(r"^\| `svc-emulator ([^`]*)` \|", table, re.MULTILINE):
            command = match.group(1)
            if command.split()[0] in ELSEWHERE:
                continue
            arguments = command.replace("MESSAGE_ID", message_id).replace(RECEIVER, receiver).split()
            variables = {"EMULATOR_URL": running.url, "EMULATOR_PORT": str(running.port), **keys}
            result = CliRunner().invoke(main, arguments, env=variables)
            assert result.exit_code == 0, f"{command}\n{result.output}\n{result.exception!r}"
            ran.append(command.split()[0])
    assert {*ran, *ELSEWHERE} == {name for name in main.list_commands(None) if name}  # type: ignore[arg-type]
