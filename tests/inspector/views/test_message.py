"""One message in a browser: what was sent and answered, its signature, what it is tied to, what can be done."""

from __future__ import annotations

import json
import re

import pytest
from playwright.sync_api import Page, expect

import emulator as product
from tests.cli import shell
from tests.harness.browsers import copied, in_browser, needs_browser, opened
from tests.harness.emulators import Server, control, receiver, service

pytestmark = [pytest.mark.slow, needs_browser]

URL, DOWN = "https://app.test/orders", "https://down.test/hook"
JSON = {"Content-Type": "application/json"}
BODY = {"order": 7, "paid": True, "note": None, "lines": [1.5, "é'\""]}


def publish(emulator: Server, url: str = URL, body: object = b"", **headers: str) -> str:
    return shell.publish(emulator, url, body, **headers)


def fail(emulator: Server, times: int | None = None) -> None:
    rule: dict[str, object] = {"match": {"url": DOWN}, "respond": {"status": 503, "headers": {"Retry-After": "10"}}}
    control(emulator, "POST", "/destinations", rule | ({} if times is None else {"times": times}))


@in_browser
def test_a_body_is_shown_pretty_raw_and_hex(emulator: Server) -> None:
    message_id = publish(emulator, body={"order": 7}, **JSON)
    with opened(emulator, f"#/timeline?select={message_id}") as page:
        body = page.get_by_label("Request body")
        expect(body).to_have_text('{\n  "order": 7\n}')
        page.get_by_role("button", name="raw").click()
        expect(body).to_have_text('{"order": 7}')
        page.get_by_role("button", name="hex").click()
        expect(body).to_contain_text("000000  7b 22 6f 72")
        expect(page.get_by_role("complementary")).to_contain_text("Svc-Message-Id: msg_")


@in_browser
def test_every_attempt_is_shown_however_long_its_body_is(emulator: Server) -> None:
    """D-795."""
    fail(emulator)
    message_id = publish(emulator, DOWN, body=b"x" * 4_000_000, Svc_Retries="4")
    control(emulator, "POST", "/clock/advance", {"by": "1h"})
    with opened(emulator, f"#/timeline?select={message_id}") as page:
        expect(page.get_by_label("Request body")).to_have_count(5)


@in_browser
def test_the_signature_is_decoded_and_checked_with_each_key(emulator: Server) -> None:
    message_id = publish(emulator, body=b"\xff\xfe")
    with opened(emulator, f"#/timeline?select={message_id}") as page:
        panel = page.get_by_role("complementary")
        expect(panel).to_contain_text("current key: valid")
        expect(panel).to_contain_text("next key: not signed with it")
        expect(panel).to_contain_text("URL matches")
        expect(panel).to_contain_text("body matches")
        expect(page.get_by_label("Signature, decoded")).to_contain_text(f'"sub": "{URL}"')
        service(emulator, "POST", "/v2/keys/rotate")
        page.reload()
        expect(panel).to_contain_text("current key: not signed with it")


@in_browser
def test_callbacks_and_what_caused_them_are_links(emulator: Server) -> None:
    message_id = publish(emulator, Svc_Callback="https://app.test/done")
    with opened(emulator, f"#/timeline?select={message_id}") as page:
        panel = page.get_by_role("complementary")
        panel.get_by_role("button", name="→ callback").click()
        expect(panel).to_contain_text("https://app.test/done")
        panel.get_by_role("button", name="→ caused by").click()
        expect(panel).to_contain_text(URL)
        assert f"select={message_id}" in page.url


def assertion(page: Page) -> str:
    page.get_by_role("button", name="Copy as pytest assertion").click()
    expect(page.get_by_text("Copied: the assertion.")).to_be_visible()
    return copied(page)


@in_browser
def test_the_assertion_that_is_copied_holds(emulator: Server) -> None:
    fail(emulator, times=2)
    message_id = publish(emulator, DOWN, BODY, **JSON)
    control(emulator, "POST", "/clock/advance", {"by": "1m"})
    with opened(emulator, f"#/timeline?select={message_id}") as page:
        text = assertion(page)
    with product.Emulator.connect(emulator.url) as client:
        exec(text, {"emulator": client})
        with pytest.raises(AssertionError):
            exec(text.replace("[503, 503, 200]", "[503, 200, 200]"), {"emulator": client})
    assert '    at=["0s", "10s", "20s"],\n    status=[503, 503, 200],\n' in text
    assert '    signed_with="current",\n' in text


@in_browser
def test_a_delivery_can_be_sent_again_with_curl(emulator: Server) -> None:
    message_id = publish(emulator, body={"order": 7}, **JSON)
    with opened(emulator, f"#/timeline?select={message_id}") as page:
        page.get_by_role("button", name="Copy request as curl").click()
        expect(page.get_by_text("Copied: the request.")).to_be_visible()
        text = copied(page)
    assert text.startswith(f"curl \\\n  -X POST \\\n  '{URL}' \\\n")
    assert "--data-raw '{\"order\": 7}'" in text
    assert "-H 'Svc-Signature: " in text


@in_browser
def test_a_message_is_published_again_as_it_was(emulator: Server) -> None:
    message_id = publish(
        emulator, body={"order": 7}, Svc_Label="red", Svc_Forward_X_Sent="yes", Svc_Retries="2", **JSON
    )
    with opened(emulator, f"#/timeline?select={message_id}") as page:
        page.get_by_role("button", name="Publish again").click()
        page.get_by_text("edit it and publish it again").wait_for()
        expect(page.locator("[name=body]")).to_have_value('{"order": 7}')
        page.get_by_role("button", name="Publish", exact=True).click()
        page.wait_for_url("**#/messages?select=msg_*")
    first, second = control(emulator, "GET", "/deliveries")["deliveries"]
    again = control(emulator, "GET", "/messages")["messages"][0]
    assert (again["labels"], again["max_attempts"]) == (["red"], 3)
    assert (second["body"], second["method"], second["url"]) == (first["body"], first["method"], first["url"])
    own = ("Svc-Message-Id", "Svc-Signature")
    assert {name: value for name, value in second["headers"].items() if name not in own} == {
        name: value for name, value in first["headers"].items() if name not in own
    }


@in_browser
def test_a_message_is_cancelled_and_a_dead_letter_retried(emulator: Server) -> None:
    waiting = publish(emulator, Svc_Delay="1h")
    fail(emulator, times=1)
    failed = publish(emulator, DOWN, Svc_Retries="0")
    with opened(emulator, f"#/timeline?select={waiting}") as page:
        panel = page.get_by_role("complementary")
        page.get_by_role("button", name="Cancel").click()
        expect(panel).to_contain_text("canceled before its first attempt")
        page.locator(".row.past").filter(has_text="down.test").click()
        panel.get_by_role("button", name="Retry from the dead letters").click()
        expect(panel).to_contain_text("the dead letter was published again as")
        panel.get_by_role("button", name="→ published again").click()
        expect(panel).to_contain_text("published again from dead letter")
        expect(panel).to_contain_text("Delivered at")
    assert failed not in json.dumps(control(emulator, "GET", "/dead-letters"))


@in_browser
def test_the_page_tells_virtual_from_real_time(emulator: Server) -> None:
    """D-510."""
    control(emulator, "POST", "/destinations", {"match": {"url": URL}, "respond": {"status": 200, "latency": "2s"}})
    slow = service(emulator, "POST", f"/v2/publish/{URL}")["messageId"]
    # Nothing listens there, which a real attempt finds out.
    real = service(emulator, "POST", "/v2/publish/http://127.0.0.1:9/", {"Svc-Retries": "0"})["messageId"]
    control(emulator, "POST", "/clock/advance", {"by": "2s"})
    with opened(emulator, f"#/messages?select={slow}") as page:
        summary = page.get_by_role("complementary").locator("summary").first
        expect(summary).to_contain_text("2 s of the clock, by rule")
        page.evaluate(f"location.hash = '#/messages?select={real}'")
        expect(summary).to_contain_text(re.compile(r"\d+ m?s of real time, by network"))
        expect(summary).not_to_contain_text("of the clock")


@in_browser
def test_the_page_hides_what_a_message_redacts_until_originals_are_asked_for(emulator: Server) -> None:
    """D-514."""
    hidden = {"Svc_Redact_Fields": "body,header[X-Key]", "Svc_Forward_X_Key": "s3cret-key"}
    message = publish(emulator, URL, {"card": "s3cret-card"}, **hidden)
    with opened(emulator, f"#/messages?select={message}") as page:
        panel = page.get_by_role("complementary")
        expect(panel).to_contain_text("REDACTED:")
        expect(panel).to_contain_text("body redacted")
        assert "s3cret" not in page.content()
        panel.get_by_role("button", name="Publish again").click()
        page.get_by_text("What is not shown is sent as it was.").wait_for()
        assert "s3cret" not in page.content()
        page.get_by_role("button", name="Publish", exact=True).click()
        page.wait_for_url("**#/messages?select=msg_*")
        again = control(emulator, "GET", "/deliveries")["deliveries"][-1]
        assert (again["body"], again["headers"]["X-Key"]) == ('{"card": "s3cret-card"}', ["s3cret-key"])
        again = control(emulator, "GET", "/deliveries", redact="true")["deliveries"][-1]
        assert "s3cret" not in json.dumps(again)
        page.evaluate(f"location.hash = '#/messages?select={message}'")
        page.get_by_label("show originals").check()
        expect(panel).to_contain_text("s3cret-card")
        expect(page.get_by_role("banner")).to_contain_text("the emulator's own help")
        page.reload()
        expect(panel).to_contain_text("REDACTED:")
        expect(page.get_by_label("show originals")).not_to_be_checked()
        assert "s3cret" not in page.content()


@in_browser
def test_an_attempt_is_sent_again_from_its_panel_and_the_answer_of_the_app_shown(emulator: Server) -> None:
    """D-705: the app was mended meanwhile."""
    answers = iter((500, 201))
    with receiver(lambda request: next(answers)) as app:
        failed = publish(emulator, f"{app.url}/hook", {"order": 7}, Svc_Retries="0", **JSON)
        with opened(emulator, f"#/messages?select={failed}") as page:
            summaries = page.get_by_role("complementary").locator("details.attempt > summary")
            expect(summaries).to_have_text([re.compile("Attempt 1 .* 500")])
            page.get_by_role("button", name="Redeliver").click()
            expect(summaries).to_have_text([re.compile("Attempt 1 .* 500"), re.compile("Attempt 1 .* 201.*redelivery")])
            expect(page.locator("details.attempt[open]").get_by_role("heading", name="Response")).to_be_visible()
            expect(page.get_by_role("complementary")).to_contain_text("Failed at")
        assert [request.body for request in app.requests] == [b'{"order": 7}'] * 2
    assert control(emulator, "GET", "/messages", id=failed)["messages"][0]["state"] == "FAILED"
