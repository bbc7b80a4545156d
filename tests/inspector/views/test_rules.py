"""Destination rules in a browser: two clicks for the usual ones, a form for the others, their order."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import expect

from tests.harness.browsers import in_browser, needs_browser, opened, row
from tests.harness.emulators import Server, control

pytestmark = [pytest.mark.slow, needs_browser]


def rules(emulator: Server) -> Any:
    return control(emulator, "GET", "/destinations")["destinations"]


@in_browser
def test_two_clicks_make_the_next_two_fail(emulator: Server) -> None:
    with opened(emulator) as page:
        page.get_by_role("link", name="Rules").click()
        page.get_by_role("button", name="Fail the next 2 with 503").click()
        expect(row(page, "rule_1")).to_contain_text("answer 503")
        expect(row(page, "rule_1")).to_contain_text("0 of 2")
    assert rules(emulator) == [
        {"id": "rule_1", "match": {"url": "https://*"}, "respond": {"status": 503}, "times": 2, "used": 0}
    ]


@in_browser
def test_any_rule_is_made_by_the_form(emulator: Server) -> None:
    with opened(emulator, "#/rules") as page:
        page.get_by_label("URL or glob").fill("https://api.test/*")
        page.get_by_text("Any other rule").click()
        page.get_by_label("Method").select_option("PUT")
        page.get_by_label("Status").fill("429")
        page.get_by_label("Retry-After").fill("7")
        page.get_by_label("Latency").fill("2s")
        page.get_by_label("Body").fill("busy")
        page.get_by_label("Times").fill("3")
        page.get_by_role("button", name="Add rule").click()
        expect(row(page, "rule_1")).to_contain_text("answer 429, Retry-After: 7, “busy”, after 2s")
        page.get_by_label("Then").select_option("forward_to")
        page.get_by_role("textbox", name="Forward to").fill("http://127.0.0.1:3000")
        page.get_by_label("Latency").fill("")
        page.get_by_role("button", name="Add rule").click()
        expect(row(page, "rule_2")).to_contain_text("forward to http://127.0.0.1:3000")
    first, second = rules(emulator)
    assert first["respond"] == {"status": 429, "headers": {"Retry-After": "7"}, "body": "busy", "latency": "2s"}
    assert (first["match"], first["times"]) == ({"url": "https://api.test/*", "method": "PUT"}, 3)
    assert second["forward_to"] == "http://127.0.0.1:3000"


@in_browser
def test_a_rule_that_is_refused_says_what_is_wrong(emulator: Server) -> None:
    with opened(emulator, "#/rules", expected=["400"]) as page:
        page.get_by_text("Any other rule").click()
        page.get_by_label("Latency").fill("soon")
        page.get_by_role("button", name="Add rule").click()
        expect(page.locator(".notice.bad")).to_contain_text("respond.latency")


@in_browser
def test_rules_are_moved_and_removed(emulator: Server) -> None:
    """D-328."""
    for number in range(3):
        control(emulator, "POST", "/destinations", {"match": {"url": f"https://{number}.test"}, "fault": "dns"})
    with opened(emulator, "#/rules") as page:
        expect(page.get_by_role("button", name="Move rule_1 up")).to_be_disabled()
        page.get_by_role("button", name="Move rule_3 up").click()
        expect(page.locator("tbody tr").nth(1)).to_contain_text("rule_3")
        assert [each["id"] for each in rules(emulator)] == ["rule_1", "rule_3", "rule_2"]
        row(page, "rule_1").get_by_role("button", name="Remove").click()
        row(page, "rule_1").get_by_role("button", name="Really remove?").click()
        expect(page.locator("tbody tr")).to_have_count(2)
        page.get_by_role("button", name="Remove all").click()
        page.get_by_role("button", name="Remove all rules?").click()
        expect(page.get_by_text("No rule:")).to_be_visible()
    assert rules(emulator) == []
