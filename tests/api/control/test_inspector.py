"""The web page as files: where they are, who may read them, and what a page of the server itself may change."""

from __future__ import annotations

from tests.harness.emulators import in_process
from tests.harness.loops import on_loop

PAGE = "/_emulator/inspector"
BROWSER = {"Accept": "text/html,*/*;q=0.8"}
SAME_ORIGIN = {"Origin": "http://127.0.0.1:8080", "Sec-Fetch-Site": "same-origin"}


@on_loop
async def test_a_browser_is_sent_to_the_inspector_or_without_it_to_the_reference() -> None:
    """D-320."""
    for mode, place in (("on", PAGE), ("read-only", PAGE), ("off", "/_emulator/reference")):
        async with in_process(inspector=mode) as emulator:
            for path in ("/", "/_emulator"):
                answer = await emulator.get(path, BROWSER, token=None)
                assert (answer.status, answer.headers["location"]) == (307, place)


@on_loop
async def test_the_files_of_the_page_have_a_strict_policy_and_are_kept() -> None:
    """D-322."""
    async with in_process(control_token="secret") as emulator:
        for path, kind in (
            (PAGE, "text/html"),
            (f"{PAGE}/main.js", "text/javascript"),
            (f"{PAGE}/views/index.js", "text/"),
        ):
            answer = await emulator.get(path, token=None)
            assert (answer.status, answer.headers["content-type"].startswith(kind)) == (200, True)
            assert answer.headers["content-security-policy"].startswith("default-src 'none'; script-src 'self'; ")
            again = await emulator.get(path, {"If-None-Match": answer.headers["etag"]}, token=None)
            assert (again.status, again.body) == (304, b"")
        for path in ("/none.js", "/__init__.py", "/views/none.js", "/../options.py"):
            assert (await emulator.get(PAGE + path, token=None)).status == 404


@on_loop
async def test_a_read_only_inspector_changes_nothing_and_programs_do() -> None:
    """D-321."""
    async with in_process(inspector="read-only") as emulator:
        assert b'data-mode="read-only"' in (await emulator.get(PAGE, token=None)).body
        refused = await emulator.control("POST", "/clock/advance", {"by": "1h"}, SAME_ORIGIN)
        assert (refused.status, "read-only" in refused.json["error"]) == (403, True)
        assert (await emulator.control("GET", "/clock", headers=SAME_ORIGIN)).status == 200
        await emulator.advance("1h")
    async with in_process() as emulator:
        assert b'data-mode="on"' in (await emulator.get(PAGE, token=None)).body
        assert (await emulator.control("POST", "/clock/advance", {"by": "1h"}, SAME_ORIGIN)).status == 200


@on_loop
async def test_there_may_be_no_inspector() -> None:
    async with in_process(inspector="off") as emulator:
        for path in (PAGE, f"{PAGE}/main.js"):
            assert (await emulator.get(path, token=None)).status == 404
