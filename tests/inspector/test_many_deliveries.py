"""The page of a world with 100,000 deliveries: what is in it stays bounded."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from tests.harness.browsers import heap_bytes, in_browser, needs_browser, opened
from tests.harness.emulators import Server, control, server, service

pytestmark = [pytest.mark.slow, pytest.mark.long, needs_browser]

DELIVERIES = 100_000
FIRST_ROWS, MOST_ROWS = 200, 1_000
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


@in_browser
def test_the_newest_messages_are_shown_and_older_ones_asked_for(emulator: Server) -> None:
    with opened(emulator, "#/messages") as page:
        rows, older = page.locator("tbody tr"), page.get_by_role("button", name="Show older messages")
        expect(rows).to_have_count(FIRST_ROWS)
        for count in range(2 * FIRST_ROWS, MOST_ROWS + 1, FIRST_ROWS):
            older.click()
            expect(rows).to_have_count(count)
        expect(older).to_be_hidden()
        expect(page.get_by_text(f"The newest {MOST_ROWS} are shown: filter to see others.")).to_be_visible()
        rows.last.scroll_into_view_if_needed()
        assert heap_bytes(page) < MOST_BYTES
