"""The publish form in a browser: what it sends, and that each of its three texts sends the same."""

from __future__ import annotations

import shutil
import subprocess
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.harness.browsers import copied, in_browser, needs_browser, opened
from tests.harness.emulators import Server, control, service

pytestmark = [pytest.mark.slow, needs_browser]


def fill(page: Page, **fields: str) -> None:
    for name, value in fields.items():
        page.locator(f"[name={name}]").fill(value)


def text_in(page: Page, language: str) -> str:
    page.get_by_role("tab", name=language).click()
    page.get_by_role("button", name="Copy").click()
    expect(page.get_by_text(f"Copied: {language}.")).to_be_visible()
    return copied(page)


@in_browser
def test_every_option_of_the_form_reaches_the_message(emulator: Server) -> None:
    with opened(emulator, "#/publish") as page:
        fill(page, destination="https://app.test/orders?a=b", body='it\'s "ü"\n', contentType="text/plain")
        fill(
            page, delay="1h", retries="2", retryDelay="1000 * retried", timeout="30s", label="a,b", redact="header[X-A]"
        )
        fill(page, callback="https://cb.test", failure="https://fcb.test", flowKey="k", flowValue="rate=1,period=1m")
        fill(page, deduplication="once", forward="X-A: b: c\nX-B: d")
        page.locator("[name=method]").select_option("PUT")
        page.get_by_role("button", name="Publish", exact=True).click()
        page.wait_for_url("**/inspector#/messages?select=msg_*")
        message = service(emulator, "GET", f"/v2/messages/{page.url.partition('select=')[2]}")
    expected: dict[str, Any] = {
        "url": "https://app.test/orders?a=b", "method": "PUT", "body": "it's \"ü\"\n", "maxRetries": 2,
        "retryDelayExpression": "1000 * retried", "callback": "https://cb.test", "failureCallback": "https://fcb.test",
        "labels": ["a", "b"], "flowControlKey": "k", "rate": 1, "period": 60,
    }  # fmt: skip
    assert {name: message[name] for name in expected} == expected
    assert message["notBefore"] - message["createdAt"] == 3_600_000
    assert message["header"]["X-B"] == ["d"]
    assert message["header"]["X-A"][0].startswith("REDACTED:")


@in_browser
def test_a_cron_expression_makes_a_schedule(emulator: Server) -> None:
    with opened(emulator, "#/publish") as page:
        fill(
            page,
            destination="https://app.test/report",
            cron="CRON_TZ=Europe/Berlin 0 9 * * *",
            scheduleId="daily",
            queue="q",
        )
        page.get_by_role("button", name="Publish", exact=True).click()
        page.wait_for_url("**#/schedules?select=daily")
    schedule = service(emulator, "GET", "/v2/schedules/daily")
    assert (schedule["cron"], schedule["queueName"]) == ("CRON_TZ=Europe/Berlin 0 9 * * *", "q")


@in_browser
def test_a_queue_makes_it_an_enqueue(emulator: Server) -> None:
    with opened(emulator, "#/publish") as page:
        fill(page, destination="https://app.test/orders", queue="orders")
        page.get_by_role("button", name="Publish", exact=True).click()
        page.wait_for_url("**#/messages?select=msg_*")
    assert control(emulator, "GET", "/messages", queue="orders")["messages"][0]["url"] == "https://app.test/orders"


@in_browser
def test_a_refusal_is_shown_and_the_form_stays(emulator: Server) -> None:
    with opened(emulator, "#/publish", expected=["400"]) as page:
        fill(page, delay="5x")
        page.get_by_role("button", name="Publish", exact=True).click()
        expect(page.locator(".notice.bad")).to_contain_text("Svc-Delay")
        expect(page.locator("[name=delay]")).to_have_value("5x")


@in_browser
def test_the_texts_send_what_the_form_would(emulator: Server) -> None:
    with opened(emulator, "#/publish") as page:
        fill(
            page,
            destination="https://app.test/orders?x=%20y",
            body='it\'s "ü" $HOME \\n\n@',
            forward="X-A: 'b'",
            label="copied",
        )
        exec(text_in(page, "Python"))
        page.evaluate(f"async () => {{ {text_in(page, 'JavaScript')} }}")
        if shutil.which("curl") and shutil.which("bash"):
            done = subprocess.run(["bash", "-c", text_in(page, "curl")], capture_output=True, timeout=20, check=False)
            assert b"messageId" in done.stdout, done.stderr
    deliveries = control(emulator, "GET", "/deliveries")["deliveries"]
    assert len(deliveries) in (2, 3)
    sent = {
        (each["url"], each["body"], str(each["headers"]["X-A"]), str(each["headers"]["Content-Type"]))
        for each in deliveries
    }
    assert sent == {("https://app.test/orders?x=%20y", 'it\'s "ü" $HOME \\n\n@', "[\"'b'\"]", "['application/json']")}
