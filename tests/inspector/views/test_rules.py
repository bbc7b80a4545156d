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
def test_any_other_rule_is_written_out(emulator: Server) -> None:
    with opened(emulator, "#/rules", expected=["400"]) as page:
        page.get_by_text("Any other rule").click()
        text = page.get_by_label("Rule", exact=True)
        page.get_by_role("button", name="Add rule").click()
        expect(row(page, "rule_1")).to_contain_text("1. answer 429, Retry-After: 10, after 2s")
        expect(row(page, "rule_1")).to_contain_text("2. answer 200")
        text.fill('{"match": {"url": "https://a.test/*"}, "forward_to": "http://127.0.0.1:3000", "latency": "soon"}')
        page.get_by_role("button", name="Add rule").click()
        expect(page.locator(".notice.bad")).to_contain_text("latency")
        text.fill(text.input_value().replace("soon", "1s"))
        page.get_by_role("button", name="Add rule").click()
        expect(row(page, "rule_2")).to_contain_text("forward to http://127.0.0.1:3000 after 1s")
        text.fill("{")
        page.get_by_role("button", name="Add rule").click()
        assert text.evaluate("text => text.validationMessage").startswith("This is no JSON")
    assert [each["id"] for each in rules(emulator)] == ["rule_1", "rule_2"]


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
