"""What the page hides: hostile contents, tokens, what is redacted."""

from __future__ import annotations

import base64

import pytest
from playwright.sync_api import Page, expect

from tests.harness import planted
from tests.harness.browsers import Look, in_browser, needs_browser, opened, row
from tests.harness.emulators import Server, control, receiver, server, service

pytestmark = [pytest.mark.slow, needs_browser]


# -- what a message or a run redacts is nowhere on the page, unless originals are asked for (D-513, D-514) ---


# Where something of a collection is selected; the views beside them have no details of messages or runs.
DETAILS = {"messages": ("messages", "timeline"), "runs": ("runs",), "schedules": ("schedules",)}


def show(page: Page, address: str) -> None:
    """Go to an address of the page, and wait until all of it is read."""
    page.evaluate("to => { location.hash = to }", f"#/{address}")
    expect(page.locator(f"section.{address.partition('?')[0]}")).to_be_visible()
    expect(page.locator("[aria-busy]")).to_have_count(0)


@in_browser
def test_no_view_and_no_detail_shows_what_is_redacted(emulator: Server) -> None:
    planted.plant(emulator)
    known = list(planted.ids(emulator))
    addresses = [f"{view}?select={id}" for kind, id in known for view in DETAILS.get(kind, ())]
    assert len(addresses) > 20
    with opened(emulator) as page:
        menu = page.get_by_role("navigation", name="Views").locator('a[href^="#/"]')
        expect(menu.first).to_be_visible()
        views = [link.get_attribute("href") or "" for link in menu.all()]
        for address in (*(each.removeprefix("#/") for each in views), *addresses):
            show(page, address)
            if "select" in address:
                expect(page.get_by_role("complementary")).not_to_be_empty()
            for each in page.locator("details").all():
                each.evaluate("details => { details.open = true }")
            # Titles and values of fields too.
            assert not planted.found(page.content()), address
        show(page, f"runs?select={planted.RUN}")
        expect(page.get_by_role("complementary")).to_contain_text("REDACTED:")
        page.get_by_label("show originals").check()
        expect(page.get_by_role("complementary")).to_contain_text(planted.SECRET)


# -- the page of a server that has a control token, and one that may change nothing ----------------


@in_browser
def test_the_control_token_is_asked_for_and_kept_in_the_tab() -> None:
    with server(control_token="secret") as emulator, opened(emulator, expected=["401 (Unauthorized)"]) as page:
        dialog = page.get_by_role("dialog", name="Control token")
        for token in ("wrong", "secret"):
            dialog.get_by_label("Control token").fill(token)
            dialog.get_by_role("button", name="Open").click()
        expect(dialog).to_have_count(0)
        expect(page.get_by_text("Nothing has happened yet.")).to_be_visible()
        page.reload()
        expect(page.get_by_text("Nothing has happened yet.")).to_be_visible()
        expect(dialog).to_have_count(0)


@in_browser
def test_a_read_only_page_has_nothing_that_acts() -> None:
    with server(inspector="read-only") as emulator, opened(emulator) as page:
        expect(page.get_by_text("Nothing has happened yet.")).to_be_visible()
        expect(page.get_by_role("button", name="+1m")).to_have_count(0)
        for name in ("rules", "worlds", "publish", "when"):
            page.goto(f"{emulator.url}/_emulator/inspector#/{name}")
            expect(page.locator("main h1")).to_have_text(name.capitalize())
            expect(page.get_by_role("main").locator("button.main")).to_have_count(0)
        page.get_by_label("Cron expression").fill("0 9 * * *")
        expect(page.locator("ol li")).to_have_count(10)


# -- whatever an application sends or a destination answers is shown as text, and does nothing to the page ---


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
def test_spans_of_an_app_are_drawn_as_text_inside_their_delivery(emulator: Server) -> None:
    """D-732."""
    trace, cause = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
    with receiver() as app:
        sent = {"Svc-Forward-Traceparent": f"00-{trace}-{cause}-01"}
        message_id = service(emulator, "POST", f"/v2/publish/{app.url}/", sent)["messageId"]
    attributes = [{"key": MARKUP, "value": {"stringValue": MARKUP}}]
    spans = [
        {"traceId": trace, "spanId": f"{number:016x}", "parentSpanId": parent, "name": name, "attributes": attributes,
         "startTimeUnixNano": str(start * 10**6), "endTimeUnixNano": str(9 * 10**6), "status": {"code": 2}}
        for number, parent, name, start in ((1, cause, MARKUP, 1), (2, f"{1:016x}", TURNED, 5))
    ]  # fmt: skip
    control(emulator, "POST", "/otlp/v1/traces", {"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]})
    with opened(emulator, f"#/messages?select={message_id}") as page:
        delivery = page.locator("details.attempt")
        drawn = delivery.locator(".lanes li")
        expect(drawn).to_have_count(2)
        expect(drawn.first.locator("bdi").first).to_have_text(MARKUP)
        expect(drawn.nth(1).locator(".lane")).to_have_attribute("title", "4 ms, after 4 ms")
        drawn.first.locator("summary").click()
        expect(drawn.first.locator("dd").last).to_have_text(MARKUP)
        assert is_whole(page)


@in_browser
def test_marks_of_direction_turn_nothing_beside_them(emulator: Server) -> None:
    answer: dict[str, object] = {"body": TURNED, "latency": "2s"}
    message_id = deliver(emulator, "turned", TURNED.encode(), answer, Content_Type="text/plain")
    control(emulator, "POST", "/clock/advance", {"by": "2s"})
    with opened(emulator, "#/rules", Look(width=2560)) as page:
        cell = row(page, "rule_1").locator(".words > div")
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
