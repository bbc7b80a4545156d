"""Dead letters in a browser: one, some, and all of them."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.harness.browsers import in_browser, needs_browser, opened, row
from tests.harness.emulators import Server, control, service

pytestmark = [pytest.mark.slow, needs_browser]


def fail(emulator: Server, count: int) -> list[str]:
    """So many dead letters, their ids, the oldest first; their destination works again."""
    rule = {"match": {"url": "https://down.test/*"}, "respond": {"status": 500, "body": "db locked"}}
    rule_id = control(emulator, "POST", "/destinations", rule)["id"]
    for number in range(count):
        headers = {"Svc-Retries": "0", "Svc-Label": f"n{number}"}
        service(emulator, "POST", f"/v2/publish/https://down.test/{number}", headers)
    control(emulator, "DELETE", f"/destinations/{rule_id}")
    return [letter["dlqId"] for letter in service(emulator, "GET", "/v2/dlq")["messages"]]


@in_browser
def test_a_dead_letter_says_why_and_is_retried(emulator: Server) -> None:
    letter, other = fail(emulator, 2)
    with opened(emulator, "#/dead") as page:
        expect(row(page, "down.test/0")).to_contain_text("was answered 500 by rule_1")
        expect(row(page, "down.test/0")).to_contain_text("after 1 attempt")
        page.get_by_role("button", name=f"Retry {letter}").click()
        expect(row(page, "down.test/0")).to_have_count(0)
        expect(page.locator("tbody tr")).to_have_count(1)
    assert [each["dlqId"] for each in service(emulator, "GET", "/v2/dlq")["messages"]] == [other]
    assert control(emulator, "GET", "/messages", url="https://down.test/0")["messages"][0]["state"] == "DELIVERED"


@in_browser
def test_dead_letters_are_found_by_label(emulator: Server) -> None:
    fail(emulator, 3)
    with opened(emulator, "#/dead") as page:
        expect(page.locator("tbody tr")).to_have_count(3)
        page.get_by_label("Label").fill("n1")
        expect(page.locator("tbody tr")).to_have_count(1)
        expect(page.locator("tbody")).to_contain_text("down.test/1")


@in_browser
def test_ticked_dead_letters_are_retried_together(emulator: Server) -> None:
    letters = fail(emulator, 3)
    with opened(emulator, "#/dead") as page:
        page.get_by_label(f"Tick {letters[0]}").check()
        page.get_by_label(f"Tick {letters[2]}").check()
        expect(page.get_by_role("group", name="Ticked dead letters")).to_contain_text("2 of 3 messages ticked")
        page.get_by_role("button", name="Retry ticked").click()
        expect(page.locator("tbody tr")).to_have_count(1)
    assert [each["dlqId"] for each in service(emulator, "GET", "/v2/dlq")["messages"]] == [letters[1]]


@in_browser
def test_all_dead_letters_are_deleted_in_more_than_one_call(emulator: Server) -> None:
    """The service takes 100 at a time."""
    fail(emulator, 101)
    with opened(emulator, "#/dead") as page:
        page.get_by_label("Tick all").check()
        page.get_by_role("button", name="Delete ticked").click()
        page.get_by_role("button", name="Really delete 101?").click()
        expect(page.get_by_text("No dead letter.")).to_be_visible()
    assert service(emulator, "GET", "/v2/dlq")["messages"] == []
