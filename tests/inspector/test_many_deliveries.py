"""The timeline with 100,000 deliveries: what is in the page stays bounded, wherever one scrolls."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.harness.browsers import heap_bytes, in_browser, needs_browser, opened
from tests.harness.emulators import Server, control, server, service

pytestmark = [pytest.mark.slow, pytest.mark.long, needs_browser]

DELIVERIES = 100_000
# A window of 800 pixels shows about thirty.
MOST_ROWS = 300
MOST_BYTES = 150_000_000


@pytest.fixture(scope="module")
def emulator() -> Iterator[Server]:
    with server() as found:
        for number in range(10):
            headers = {"Svc-Cron": "* * * * *", "Svc-Schedule-Id": f"every-minute-{number}"}
            service(found, "POST", f"/v2/schedules/https://app.test/{number}", headers)
        moves = [control(found, "POST", "/clock/advance", {"by": DELIVERIES // 100 * 60_000}) for _ in range(10)]
        assert sum(moved["deliveries"] for moved in moves) == DELIVERIES
        yield found


def rows(page: Page) -> int:
    """How many elements the view has: rows and what is in them."""
    found: int = page.evaluate("document.querySelectorAll('main *').length")
    return found


@in_browser
def test_scrolling_through_all_of_them_keeps_the_page_small(emulator: Server) -> None:
    with opened(emulator, "#/timeline") as page:
        scroller = page.locator("[data-scroller]")
        expect(scroller).to_be_visible()
        page.wait_for_function("document.querySelector('[data-scroller]').scrollHeight > 100000")
        most = 0
        for part in range(11):
            scroller.evaluate("(box, part) => { box.scrollTop = box.scrollHeight * part / 10 }", part)
            expect(scroller).to_contain_text("app.test/")
            most = max(most, rows(page))
        assert most < MOST_ROWS * 12
        assert heap_bytes(page) < MOST_BYTES
