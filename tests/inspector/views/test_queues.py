"""Queues and flow control keys in a browser."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.harness.browsers import in_browser, needs_browser, opened, row
from tests.harness.emulators import Server, control, service

pytestmark = [pytest.mark.slow, needs_browser]

SLOW = {"match": {"url": "https://slow.test/*"}, "respond": {"latency": "1h"}}
FLOW = {"Svc-Flow-Control-Key": "customer-7", "Svc-Flow-Control-Value": "rate=2, period=1m"}


@in_browser
def test_a_queue_shows_its_lag_and_who_waits(emulator: Server) -> None:
    control(emulator, "POST", "/destinations", SLOW)
    ids = [service(emulator, "POST", "/v2/enqueue/orders/https://slow.test/")["messageId"] for _ in range(3)]
    with opened(emulator, "#/queues") as page:
        cells = row(page, "orders").locator("td")
        expect(cells.nth(3)).to_have_text("3")
        expect(cells.nth(4)).to_contain_text(ids[0][-6:])
        expect(cells.nth(5)).to_contain_text(ids[1][-6:])
        expect(cells.nth(5)).to_contain_text(ids[2][-6:])


@in_browser
def test_a_queue_is_paused_resumed_widened_and_deleted(emulator: Server) -> None:
    service(emulator, "POST", "/v2/queues", (), {"queueName": "orders", "parallelism": 1})
    with opened(emulator, "#/queues") as page:
        page.get_by_role("button", name="Pause queue orders").click()
        expect(row(page, "orders")).to_contain_text("paused")
        assert service(emulator, "GET", "/v2/queues/orders")["paused"] is True
        page.get_by_role("button", name="Resume queue orders").click()
        expect(row(page, "orders")).to_contain_text("running")
        width = page.get_by_label("Parallelism of orders")
        width.fill("3")
        width.press("Enter")
        expect(page.get_by_text("Parallelism of orders: done.")).to_be_visible()
        assert service(emulator, "GET", "/v2/queues/orders")["parallelism"] == 3
        row(page, "orders").get_by_role("button", name="Delete").click()
        row(page, "orders").get_by_role("button", name="Delete with its messages?").click()
        expect(page.get_by_text("No queue yet.")).to_be_visible()
    assert service(emulator, "GET", "/v2/queues") == []


@in_browser
def test_a_key_shows_what_it_holds_back_and_is_paused(emulator: Server) -> None:
    for _ in range(3):
        service(emulator, "POST", "/v2/publish/https://app.test/", FLOW)
    with opened(emulator, "#/queues") as page:
        here = row(page, "customer-7")
        expect(here).to_contain_text("2/2 per 1 min")
        expect(here).to_contain_text("held by flow control key customer-7 (rate)")
        page.get_by_role("button", name="Pause key customer-7").click()
        expect(here).to_contain_text("paused")
        page.get_by_role("button", name="Resume key customer-7").click()
        expect(page.get_by_role("button", name="Pause key customer-7")).to_be_visible()
        page.get_by_role("button", name="Reset key customer-7").click()
        expect(here).to_contain_text("1/2 per 1 min")


@in_browser
def test_a_key_is_pinned_and_unpinned(emulator: Server) -> None:
    service(emulator, "POST", "/v2/publish/https://app.test/", FLOW)
    with opened(emulator, "#/queues") as page:
        page.get_by_role("button", name="Pin key customer-7").click()
        page.get_by_label("Rate").fill("9")
        page.get_by_label("Period in seconds").fill("120")
        page.get_by_role("button", name="Pin", exact=True).click()
        expect(row(page, "customer-7")).to_contain_text("/9 per 2 min")
        key = service(emulator, "GET", "/v2/flowControl/customer-7")
        assert (key["isPinnedRate"], key["rateMax"], key["ratePeriod"]) == (True, 9, 120)
        page.get_by_role("button", name="Unpin key customer-7").click()
        expect(page.get_by_role("button", name="Pin key customer-7")).to_be_visible()
        assert service(emulator, "GET", "/v2/flowControl/customer-7")["isPinnedRate"] is False
