"""Messages in lists, one message beside them, and what is refused or published."""

from __future__ import annotations

import shutil
import subprocess
from typing import Any

import httpx
import pytest
from playwright.sync_api import Page, expect

from tests.cli.shell import publish
from tests.harness.browsers import copied, in_browser, needs_browser, opened, row
from tests.harness.emulators import Server, control, service

pytestmark = [pytest.mark.slow, needs_browser]


# -- the list of messages in a browser: what it shows, filters, live arrival, cancelling -----------


DOWN = {"match": {"url": "https://down.test/*"}, "respond": {"status": 503, "body": "db locked"}}


@in_browser
def test_an_empty_list_teaches_how_to_publish_and_a_message_appears_without_a_reload(emulator: Server) -> None:
    with opened(emulator, "#/messages") as page:
        lines = page.locator(".empty pre")
        expect(lines).to_contain_text(f"{emulator.url}/v2/publish/")
        expect(lines).to_contain_text(emulator.token)
        page.get_by_role("button", name="Copy").click()
        assert copied(page) == lines.text_content()
        publish(emulator, "https://app.test/orders", Svc_Delay="1m", Svc_Label="nightly")
        here = row(page, "app.test/orders")
        expect(here).to_contain_text("delayed next 01:01:00 · in 1 min")
        expect(here).to_contain_text("nightly")
        control(emulator, "POST", "/clock/advance", {"by": "1m"})
        expect(here).to_contain_text("delivered")
        expect(here).to_contain_text("1/6")


@in_browser
def test_filters_are_typed_and_stay_in_the_address(emulator: Server) -> None:
    control(emulator, "POST", "/destinations", DOWN)
    publish(emulator, "https://app.test/orders")
    publish(emulator, "https://down.test/hook", Svc_Retries="0", Svc_Label="billing")
    with opened(emulator, "#/messages") as page:
        expect(page.locator("tbody tr")).to_have_count(2)
        page.get_by_label("State").select_option("failed")
        expect(page.locator("tbody tr")).to_have_count(1)
        expect(row(page, "down.test/hook")).to_contain_text("was answered 503 by rule_1")
        page.get_by_label("Label").fill("billing")
        page.wait_for_url("**state=failed&label=billing**")
        page.reload()
        expect(page.locator("tbody tr")).to_have_count(1)
        expect(page.get_by_label("Label")).to_have_value("billing")
        page.get_by_label("Text").fill("nowhere")
        expect(page.get_by_text("Nothing matches the filter.")).to_be_visible()


@in_browser
def test_a_message_is_cancelled(emulator: Server) -> None:
    message_id = publish(emulator, "https://app.test/later", Svc_Delay="1h")
    with opened(emulator, "#/messages") as page:
        page.get_by_role("button", name=f"Cancel {message_id}").click()
        expect(row(page, "app.test/later")).to_contain_text("canceled")
    assert control(emulator, "GET", "/messages")["messages"][0]["state"] == "CANCELED"


@in_browser
def test_rows_are_opened_by_keys_alone(emulator: Server) -> None:
    first, second = publish(emulator, "https://app.test/1"), publish(emulator, "https://app.test/2")
    with opened(emulator, "#/timeline") as page:
        page.keyboard.press("g")
        page.keyboard.press("m")
        expect(page.locator("tbody tr")).to_have_count(2)
        page.keyboard.press("j")
        page.keyboard.press("j")
        page.keyboard.press("Enter")
        expect(page.get_by_role("complementary")).to_contain_text("app.test/1")
        assert f"select={first}" in page.url
        page.keyboard.press("k")
        page.keyboard.press("Enter")
        page.wait_for_url(f"**select={second}**")
        page.keyboard.press("/")
        page.keyboard.press("Escape")
        page.keyboard.press("Escape")
        expect(page.get_by_role("complementary")).to_be_hidden()


@in_browser
def test_a_row_that_changes_keeps_the_focus(emulator: Server) -> None:
    message_id = publish(emulator, "https://app.test/later", Svc_Delay="1m")
    with opened(emulator, "#/messages") as page:
        row(page, "app.test/later").get_by_role("button").first.focus()
        control(emulator, "POST", "/clock/advance", {"by": "1m"})
        expect(row(page, "app.test/later")).to_contain_text("delivered")
        page.keyboard.press("Enter")
        page.wait_for_url(f"**select={message_id}**")


# -- refused calls in a browser --------------------------------------------------------------------


@in_browser
def test_a_refused_call_appears_with_its_reason_and_field(emulator: Server) -> None:
    with opened(emulator, "#/refused") as page:
        expect(page.get_by_text("No call was refused.")).to_be_visible()
        headers = {"Authorization": f"Bearer {emulator.token}", "Svc-Delay": "5x"}
        assert (
            httpx.post(
                f"{emulator.url}/v2/publish/https://app.test/", headers=headers, trust_env=False, verify=False
            ).status_code
            == 400
        )
        here = row(page, "/v2/publish/https://app.test/")
        expect(here).to_contain_text("Svc-Delay")
        expect(here).to_contain_text("400")
        expect(here).to_contain_text("127.0.0.1")
        page.get_by_role("button", name="Clear").click()
        page.get_by_role("button", name="Really clear?").click()
        expect(page.get_by_text("No call was refused.")).to_be_visible()


# -- the publish form in a browser: what it sends, and that each of its three texts sends the same ---


def fill(page: Page, **fields: str) -> None:
    for name, value in fields.items():
        page.locator(f"[name={name.replace('_', '-')}]").fill(value)


def text_in(page: Page, language: str) -> str:
    page.get_by_role("tab", name=language).click()
    page.get_by_role("button", name="Copy").click()
    expect(page.get_by_text(f"Copied: {language}.")).to_be_visible()
    return copied(page)


@in_browser
def test_every_option_of_the_form_reaches_the_message(emulator: Server) -> None:
    with opened(emulator, "#/publish") as page:
        fill(page, destination="https://app.test/orders?a=b", body='it\'s "ü"\n', type="text/plain")
        fill(
            page,
            Delay="1h",
            Retries="2",
            Retry_Delay="1000 * retried",
            Timeout="30s",
            Label="a,b",
            Redact_Fields="header[X-A]",
        )
        fill(
            page,
            Callback="https://cb.test",
            Failure_Callback="https://fcb.test",
            Flow_Control_Key="k",
            Flow_Control_Value="rate=1,period=1m",
        )
        fill(page, Deduplication_Id="once", forward="X-A: b: c\nX-B: d")
        page.locator("[name=Method]").select_option("PUT")
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
            Cron="CRON_TZ=Europe/Berlin 0 9 * * *",
            Schedule_Id="daily",
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
        fill(page, Delay="5x")
        page.get_by_role("button", name="Publish", exact=True).click()
        expect(page.get_by_role("alert").filter(has_text="expected a duration")).to_be_visible()
        expect(page.locator("[name=Delay]")).to_be_focused()
        expect(page.locator("[name=Delay]")).to_have_value("5x")


@in_browser
def test_the_texts_send_what_the_form_would(emulator: Server) -> None:
    with opened(emulator, "#/publish") as page:
        fill(
            page,
            destination="https://app.test/orders?x=%20y",
            body='it\'s "ü" $HOME \\n\n@',
            forward="X-A: 'b'",
            Label="copied",
        )
        exec(text_in(page, "Python"))
        page.evaluate(f"async () => {{ {text_in(page, 'TypeScript')} }}")
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
