"""The book as it is built: without a warning, of what the program says, and searchable in the emulator."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest
from playwright.sync_api import expect

from docs import generate
from emulator.core.errors import Refused
from emulator.delivery import http
from emulator.wire import error_body
from tests.harness.browsers import close_browser, in_browser, needs_browser, opened
from tests.harness.emulators import Server
from tests.harness.installation import Installation, installed
from tests.harness.processes import environment


@pytest.mark.parametrize("file", sorted(generate.pages()), ids=lambda file: file.name)
def test_a_generated_page_is_what_the_program_says(file: Path) -> None:
    """D-746."""
    assert file.read_text("utf-8") == generate.pages()[file], "python -m docs.generate"


def test_every_error_has_a_remedy() -> None:
    """A refusal without a status of its own is a 400 like its base."""
    texts = {value for name, value in vars(http).items() if name.isupper() and isinstance(value, str)}
    assert texts <= set(generate.FAILURES)
    assert set(generate.REMEDIES) == set(error_body._STATUSES)
    assert set(Refused.__subclasses__()) <= set(generate.REMEDIES)


@pytest.mark.slow
def test_no_page_needs_an_inline_script_or_style(installation: Installation) -> None:
    """D-745: the policy forbids them, and a browser says so nowhere but in its console.

    The book is that of the wheel: a warning, such as of a link to a page or heading that is not there, ends its build.
    """
    book = installed("purelib", installation.environment) / "emulator" / "_data" / "book"
    inline = re.compile(r"<script(?![^>]*\bsrc=)|<style|\sstyle=|\son\w+=|https?://[^\"]*\.(?:js|css)")
    files = list(book.rglob("*.html"))
    assert len(files) > 20
    assert [file.name for file in files if inline.search(file.read_text("utf-8"))] == []


@pytest.mark.slow
@needs_browser
def test_the_book_is_searched_without_a_network(installation: Installation) -> None:
    """D-745. `opened` fails for a call of another server, and for what the policy forbids."""

    @in_browser
    def search(url: str) -> None:
        with opened(Server(url=url, port=0, token="", current_signing_key="", next_signing_key="")) as page:
            page.goto("/_emulator/docs")
            expect(page).to_have_title(re.compile("svc-emulator"))
            page.get_by_role("searchbox").fill("Retry-After")
            page.keyboard.press("Enter")
            expect(page).to_have_url(re.compile(r"/_emulator/docs/search\.html"))
            page.locator("#search-results").get_by_role("link", name="Retries", exact=True).click()
            expect(page.get_by_role("heading", name="Retries", level=1)).to_be_visible()

    program = str(installed("scripts", installation.environment) / "svc-emulator")
    command = [program, "serve", "--port", "0", "--json"]
    own = {name: value for name, value in environment().items() if name != "PYTHONPATH"}
    with subprocess.Popen(command, cwd=installation.elsewhere, env=own, stdout=subprocess.PIPE) as running:
        try:
            assert running.stdout is not None
            search(json.loads(running.stdout.readline())["url"])
        finally:
            close_browser()
            running.terminate()
