"""The web page as the server sees it: its files, their policy, and what a read-only page may do."""

from __future__ import annotations

import re
from posixpath import dirname, normpath

import pytest

from tests.harness.emulators import in_process
from tests.harness.loops import on_loop

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
PAGE = "/_emulator/inspector"


@pytest.mark.parametrize(
    ("path", "media_type"),
    [
        ("", "text/html"),
        ("/", "text/html"),
        ("/style.css", "text/css"),
        ("/main.js", "text/javascript"),
        ("/views/timeline.js", "text/javascript"),
        ("/icon.svg", "image/svg+xml"),
    ],
)
@on_loop
async def test_the_page_and_its_modules_are_served_with_a_strict_policy(path: str, media_type: str) -> None:
    """D-320."""
    async with in_process(control_token="secret") as emulator:
        answer = await emulator.get(f"{PAGE}{path}", {}, token=None)

    assert answer.status == 200
    assert answer.headers["content-type"].partition(";")[0] == media_type
    assert answer.headers["content-security-policy"] == POLICY
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["cache-control"] == "no-cache"


@on_loop
async def test_the_page_names_the_modules_it_begins_with() -> None:
    """Otherwise a browser learns of them one level of imports after the other."""
    async with in_process() as emulator:
        page = (await emulator.get(PAGE, {}, token=None)).body.decode()
        named = re.findall(r'<link rel="modulepreload" href="([^"]+)">', page)
        assert f"{PAGE}/views/timeline.js" in named
        for path in [*named, f"{PAGE}/main.js"]:
            module = (await emulator.get(path, {}, token=None)).body.decode()
            imported = re.findall(r'from "(\.[^"]+)"', module)
            assert {normpath(f"{dirname(path)}/{each}") for each in imported} <= set(named)


@on_loop
async def test_a_copy_is_good_until_the_file_changes() -> None:
    async with in_process() as emulator:
        first = await emulator.get(f"{PAGE}/main.js", {}, token=None)
        again = await emulator.get(f"{PAGE}/main.js", {"If-None-Match": first.headers["etag"]}, token=None)
        other = await emulator.get(f"{PAGE}/main.js", {"If-None-Match": '"another"'}, token=None)

    assert (again.status, again.body) == (304, b"")
    assert (other.status, other.body) == (200, first.body)


@pytest.mark.parametrize("name", ["__init__.py", "../version.py", "..%2fversion.py", "nothing.js", "views"])
@on_loop
async def test_nothing_but_the_files_of_the_page_is_served(name: str) -> None:
    async with in_process() as emulator:
        assert (await emulator.get(f"{PAGE}/{name}", {}, token=None)).status == 404


@pytest.mark.parametrize("said", [{"Origin": "http://127.0.0.1:8080"}, {"Sec-Fetch-Site": "same-origin"}])
@on_loop
async def test_a_read_only_page_changes_nothing_and_a_program_still_does(said: dict[str, str]) -> None:
    """D-321."""
    async with in_process(inspector="read-only") as emulator:
        page = await emulator.get(PAGE, {}, token=None)
        read = await emulator.get("/_emulator/clock", said)
        written = await emulator.call("POST", "/_emulator/clock/next", said)
        published = await emulator.call("POST", "/v2/publish/https://app.test", said)
        program = await emulator.call("POST", "/_emulator/clock/next")
    async with in_process() as emulator:
        allowed = await emulator.call("POST", "/_emulator/clock/next", said)

    assert b'data-mode="read-only"' in page.body
    assert (read.status, written.status, published.status, program.status) == (200, 403, 403, 200)
    assert "--inspector read-only" in written.json["error"]
    assert allowed.status == 200
