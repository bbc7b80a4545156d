"""Whatever an application sends or a destination answers is shown as text, and does nothing to the page."""

from __future__ import annotations

import base64

import pytest
from playwright.sync_api import Page, expect

from tests.harness.browsers import Look, in_browser, needs_browser, opened, row
from tests.harness.emulators import Server, control, service

pytestmark = [pytest.mark.slow, needs_browser]

MARKUP = (
    '<script>window.broken = 1</script><img src=x onerror="window.broken = 1"><style>body { display: none }</style>'
)
# Right-to-left override, isolate and pop: what comes behind them must not turn around.
TURNED = "abc\u202edef\u2067ghi"
BINARY = b"\xff\xfe\x00<script>"


def deliver(emulator: Server, path: str, body: bytes, answer: dict[str, object], **headers: str) -> str:
    """A failed delivery with that body and answer; the id of its message."""
    url = f"https://hostile.test/{path}"
    control(emulator, "POST", "/destinations", {"match": {"url": url}, "respond": {"status": 500, **answer}})
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    made = service(emulator, "POST", f"/v2/publish/{url}", {"Svc-Retries": "0", **named}, body)
    message_id: str = made["messageId"]
    return message_id


def is_whole(page: Page) -> bool:
    """Whether nothing that came in has become a part of the page."""
    found: bool = page.evaluate(
        "window.broken === undefined && getComputedStyle(document.body).display !== 'none'"
        " && !document.querySelector('body script, body style, body img, body iframe, body object')"
    )
    return found


@in_browser
def test_markup_is_text_in_lists_and_in_the_message(emulator: Server) -> None:
    message_id = deliver(
        emulator, "%3Cscript%3E<b>x</b>", MARKUP.encode(), {"body": MARKUP, "headers": {"X-Answer": MARKUP}},
        Svc_Label="<u>label</u>", Svc_Forward_X_Sent=MARKUP, Content_Type="text/html",
    )  # fmt: skip
    with opened(emulator, f"#/messages?select={message_id}") as page:
        expect(row(page, "hostile.test")).to_contain_text("<u>label</u>")
        expect(page.get_by_role("complementary")).to_contain_text("window.broken = 1")
        assert is_whole(page)
        for view in ("dead", "rules", "timeline", "queues"):
            page.evaluate("view => { location.hash = `#/${view}` }", view)
            expect(page.locator(f"nav a[href='#/{view}']")).to_have_attribute("aria-current", "page")
            expect(page.locator("[aria-busy]")).to_have_count(0)
            assert is_whole(page)


@in_browser
def test_marks_of_direction_turn_nothing_beside_them(emulator: Server) -> None:
    answer: dict[str, object] = {"body": TURNED, "latency": "2s"}
    message_id = deliver(emulator, "turned", TURNED.encode(), answer, Content_Type="text/plain")
    control(emulator, "POST", "/clock/advance", {"by": "2s"})
    with opened(emulator, "#/rules", Look(width=2560)) as page:
        cell = row(page, "rule_1").locator(".words .note")
        expect(cell).to_contain_text(f"answer 500, “{TURNED}”, after 2s")
        behind = cell.evaluate(
            "cell => { const range = document.createRange(); range.selectNodeContents(cell.lastChild);"
            " return range.getBoundingClientRect().left - cell.querySelector('bdi').getBoundingClientRect().right }"
        )
        assert behind > 0
        page.evaluate("id => { location.hash = `#/messages?select=${id}` }", message_id)
        expect(page.get_by_role("complementary")).to_contain_text(TURNED)
        assert page.evaluate("getComputedStyle(document.body).direction") == "ltr"


@in_browser
def test_a_body_of_a_megabyte_is_shown_without_holding_up_the_page(emulator: Server) -> None:
    message_id = deliver(emulator, "large", b"x" * 1_000_000, {"body": "y" * 1_000_000}, Content_Type="text/plain")
    with opened(emulator, f"#/messages?select={message_id}") as page:
        expect(page.get_by_role("complementary")).to_contain_text("1.0 MB")
        took_ms = page.evaluate(
            "() => new Promise(done => { const from = performance.now();"
            " requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now() - from))) })"
        )
        assert took_ms < 1_000


@in_browser
def test_bytes_that_are_no_text_are_shown_as_bytes(emulator: Server) -> None:
    answer: dict[str, object] = {"body_base64": base64.b64encode(BINARY).decode()}
    message_id = deliver(emulator, "binary", BINARY, answer, Content_Type="text/html")
    with opened(emulator, f"#/messages?select={message_id}") as page:
        expect(page.get_by_role("complementary")).to_contain_text("ff fe 00 3c 73 63 72 69")
        assert is_whole(page)
