"""Destination rules in a browser: two clicks for the usual ones, a form for the others, their order."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import expect

from tests.harness.browsers import copied, in_browser, needs_browser, opened, row
from tests.harness.emulators import EPOCH, Server, control

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
        # The rows that did not move know the new order too.
        page.get_by_role("button", name="Move rule_1 down").click()
        expect(page.locator("tbody tr").first).to_contain_text("rule_3")
        assert [each["id"] for each in rules(emulator)] == ["rule_3", "rule_1", "rule_2"]
        page.get_by_role("button", name="Fail the next 2 with 503").click()
        expect(page.get_by_role("button", name="Move rule_2 down")).to_be_enabled()
        control(emulator, "DELETE", "/destinations/rule_4")
        row(page, "rule_1").get_by_role("button", name="Remove").click()
        row(page, "rule_1").get_by_role("button", name="Really remove?").click()
        expect(page.locator("tbody tr")).to_have_count(2)
        page.get_by_role("button", name="Remove all").click()
        page.get_by_role("button", name="Really remove all?").click()
        expect(page.get_by_text("No rule:")).to_be_visible()
    assert rules(emulator) == []


@in_browser
def test_rules_by_chance_are_made_and_told_in_words(emulator: Server) -> None:
    with opened(emulator, "#/rules") as page:
        page.get_by_text("By chance", exact=True).click()
        what, add = page.get_by_label("What"), page.get_by_role("button", name="Add rule by chance")
        add.click()
        expect(row(page, "rule_1")).to_contain_text("with chance 0.2:")
        expect(row(page, "rule_1")).to_contain_text("answer 503")
        page.get_by_label("Chance, from 0 to 1").fill("0.5")
        for option, text in (
            ("deliver twice", "deliver twice"),
            ("leave out of order", "leave out of order"),
            ("answer late", "answer late after 0s to 5s"),
            ("never answer", "never answer"),
        ):
            what.select_option(option)
            add.click()
            expect(page.locator("tbody tr").last).to_contain_text(text)
        page.get_by_label("At least so late").fill("1s")
        page.get_by_label("At most so late").fill("10s")
        what.select_option("answer 503")
        add.click()
        expect(row(page, "rule_6")).to_contain_text("answer 503, after 1s to 10s")
    match = {"url": "https://*"}
    assert [{name: each[name] for name in each if name not in ("id", "used")} for each in rules(emulator)[:6]] == [
        {"match": match, "respond": {"status": 503}, "chance": 0.2},
        {"match": match, "duplicate": True, "chance": 0.5},
        {"match": match, "reorder": True, "chance": 0.5},
        {"match": match, "latency": {"min": "0s", "max": "5s"}, "chance": 0.5},
        {"match": match, "fault": "timeout", "chance": 0.5},
        {"match": match, "respond": {"status": 503, "latency": {"min": "1s", "max": "10s"}}, "chance": 0.5},
    ]


@in_browser
def test_the_line_that_repeats_the_run_is_copied(emulator: Server) -> None:
    """D-438."""
    control(emulator, "POST", "/worlds", {"id": "w", "seed": 7, "epoch": EPOCH, "chaos": 0.2})
    control(emulator, "POST", "/worlds", {"id": "v", "epoch": EPOCH, "chaos": {"level": 0.2, "except": ["3.1"]}})
    control(emulator, "POST", "/destinations", {"match": {"url": "*"}, "duplicate": "10s", "reorder": "1m"})
    with opened(emulator, "#/rules?world=w") as page:
        expect(page.locator("tbody tr")).to_have_count(6)
        page.get_by_role("button", name="Copy").click()
        expect(page.get_by_text("Copied: the line.")).to_be_visible()
        assert copied(page) == (
            "svc-emulator worlds create --seed 7 --epoch 2026-01-01T00:00:00.000Z --plan paid --chaos 0.2"
        )
        page.goto(f"{emulator.url}/_emulator/inspector#/rules?world=v")
        expect(page.get_by_text('chaos={"level":0.2,"except":["3.1"]})')).to_be_visible()
        expect(page.get_by_text("worlds create")).to_have_count(0)
        page.goto(f"{emulator.url}/_emulator/inspector#/rules")
        expect(row(page, "rule_1")).to_contain_text("deliver twice, again after 10s, put back for up to 1m")
        expect(page.get_by_text("svc-emulator serve --clock frozen --seed 0")).to_be_visible()
