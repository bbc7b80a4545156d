"""The page of a world with many deliveries: what is in it stays bounded.

`MANY_DELIVERIES` is how many; the nightly run has 100,000.

The server is a process of its own, whose answers are not held against the contracts: that takes a second for each
page of the journal.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import expect

from tests.harness.browsers import heap_bytes, in_browser, needs_browser, opened
from tests.harness.emulators import EPOCH, Server, control, service
from tests.harness.processes import command, environment

pytestmark = [pytest.mark.slow, pytest.mark.long, needs_browser]

# A multiple of 1,000.
DELIVERIES = int(os.environ.get("MANY_DELIVERIES", "20000"))
FIRST_ROWS, MOST_ROWS = 200, 1_000
MOST_BYTES = 10_000_000 + 1_400 * DELIVERIES
# A window of 800 pixels shows about thirty rows, and some are kept ready on both sides.
MOST_VISIBLE = 80
READ_ALL_MS = 120_000
SLOWEST_FRAME_MS = 500

# Scrolls through everything in jumps, a frame each; the milliseconds that each frame took.
SCROLL = """async box => {
  const took = [];
  for (let part = 0; part <= 100; part += 1) {
    const from = performance.now();
    box.scrollTop = box.scrollHeight * part / 100;
    await new Promise(requestAnimationFrame);
    took.push(performance.now() - from);
  }
  return took.sort((one, other) => one - other);
}"""


@pytest.fixture(scope="module")
def emulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("many")
    with alone(folder) as found:
        for number in range(10):
            headers = {"Svc-Cron": "* * * * *", "Svc-Schedule-Id": f"every-minute-{number}"}
            service(found, "POST", f"/v2/schedules/https://app.test/{number}", headers)
        moves = [control(found, "POST", "/clock/advance", {"by": DELIVERIES // 100 * 60_000}) for _ in range(10)]
        assert sum(moved["deliveries"] for moved in moves) == DELIVERIES
        yield found


@contextlib.contextmanager
def alone(folder: Path) -> Iterator[Server]:
    """A server that keeps all history, as its users start it."""
    arguments = command("serve", "--port", "0", "--keep-history", "all", "--clock", "frozen", "--epoch", EPOCH)
    with subprocess.Popen(
        arguments, cwd=folder, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, encoding="utf-8"
    ) as process:
        assert process.stdout is not None
        banner: list[str] = []
        try:
            for line in process.stdout:
                banner.append(line.strip())
                if line.startswith("state:"):
                    break
            url = next(line.partition("listens on ")[2] for line in banner if "listens on " in line)
            named = dict(line.split("=", 1) for line in banner if line.startswith("SVC_"))
            yield Server(
                url=url,
                port=urlsplit(url).port or 0,
                token=named["SVC_TOKEN"],
                current_signing_key=named["SVC_CURRENT_SIGNING_KEY"],
                next_signing_key=named["SVC_NEXT_SIGNING_KEY"],
            )
        finally:
            process.kill()


@in_browser
def test_the_newest_messages_are_shown_and_older_ones_asked_for(emulator: Server) -> None:
    with opened(emulator, "#/messages") as page:
        rows, older = page.locator("tbody tr"), page.get_by_role("button", name="Show older messages")
        expect(rows).to_have_count(FIRST_ROWS)
        for count in range(2 * FIRST_ROWS, MOST_ROWS + 1, FIRST_ROWS):
            older.click()
            expect(rows).to_have_count(count)
        expect(older).to_be_visible()
        expect(page.get_by_text("The newest 1,000 are shown.")).to_be_visible()
        rows.last.scroll_into_view_if_needed()
        assert heap_bytes(page) < MOST_BYTES


@in_browser
def test_the_timeline_has_all_deliveries_and_draws_what_is_visible(emulator: Server) -> None:
    with opened(emulator, "#/timeline") as page:
        box, row = page.locator("[data-scroller]"), page.locator(".row")
        expect(row.first).to_be_visible()
        expect(page.get_by_role("status").filter(has_text="deliveries")).to_have_text(
            f"{DELIVERIES:,} deliveries", timeout=READ_ALL_MS
        )
        expect(page.locator(".row.now")).to_be_in_viewport()
        took_ms = box.evaluate(SCROLL)
        assert row.count() < MOST_VISIBLE
        assert took_ms[-1] < SLOWEST_FRAME_MS, took_ms
        for part in (0, 0.37, 1):
            box.evaluate("(box, part) => { box.scrollTop = box.scrollHeight * part }", part)
            # The first twelve are kept ready above what is visible.
            expect(row.nth(20)).to_be_in_viewport()
            assert row.count() < MOST_VISIBLE
        page.get_by_label("Filter").fill("schedule:every-minute-3")
        expect(page.get_by_role("status").filter(has_text="deliveries")).to_have_text(
            f"{DELIVERIES // 10:,} deliveries of {DELIVERIES:,}"
        )
        page.get_by_label("Group").select_option("by schedule")
        expect(page.get_by_role("status").filter(has_text="group")).to_have_text("1 group")
        assert heap_bytes(page) < MOST_BYTES
