"""The page by its geometry: nothing overlaps, is cut or breaks inside a word, at any width; and its keys."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.harness.browsers import Look, in_browser, needs_browser, opened
from tests.harness.emulators import Server, control, server, service
from tests.inspector import busy, workflow_world
from tests.inspector.test_accessibility import show, views

pytestmark = [pytest.mark.slow, needs_browser]

# What is wrong with the geometry of what is shown, each with the text that it is about.
PROBLEMS = """() => {
  const found = [];
  const boxOf = (node) => node.getBoundingClientRect();
  const isShown = (node) => node.checkVisibility({ visibilityProperty: true }) && boxOf(node).width > 1;
  const name = (node) => `${node.tagName.toLowerCase()}.${node.className} "${node.textContent.trim().slice(0, 40)}"`;
  const inBar = 'header.bar :is(button, select, input, .instant, .local, .counts)';
  const places = [...document.querySelectorAll(inBar)].filter(isShown);
  places.forEach((one, at) => places.slice(at + 1).forEach((other) => {
    const [a, b] = [boxOf(one), boxOf(other)];
    if (a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 1 && b.top < a.bottom - 1)
      found.push(`in the bar ${name(one)} lies over ${name(other)}`);
  }));
  for (const part of document.querySelectorAll('header.bar, main, aside.detail, nav.menu')) {
    if (!isShown(part)) continue;
    const edge = boxOf(part);
    const held = 'button, a, bdi, th, td, dt, dd, h1, h2, h3, label, summary, input, select';
    for (const node of part.querySelectorAll(held)) {
      if (!isShown(node) || node.closest('.unseen, .menu, pre')) continue;
      const box = boxOf(node);
      if (box.right > edge.right + 1 || box.left < edge.left - 1) found.push(`beyond its part: ${name(node)}`);
      const style = getComputedStyle(node);
      const mayBeCut = style.textOverflow === 'ellipsis' || /auto|scroll/.test(style.overflowX);
      if (/^(BUTTON|A|TH|SUMMARY|DT)$/.test(node.tagName) && node.scrollWidth > node.clientWidth + 1
          && style.display !== 'inline' && !mayBeCut && !node.querySelector('.cut-line, .name'))
        found.push(`cut: ${name(node)}`);
    }
  }
  for (const code of document.querySelectorAll('.cron code'))
    if (code.getClientRects().length > 1 || boxOf(code).height > 24) found.push(`in two lines: ${name(code)}`);
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let text = texts.nextNode(); text; text = texts.nextNode()) {
    const parent = text.parentElement;
    if (!parent.closest('main table, .panel, main .tools, nav, .row')) continue;
    if (parent.closest('pre, code, .code, option') || !isShown(parent)) continue;
    for (const word of text.data.matchAll(/[\\p{L}\\p{N}_]+/gu)) {
      if (word[0].length > 24) continue;
      const range = document.createRange();
      range.setStart(text, word.index);
      range.setEnd(text, word.index + word[0].length);
      const tops = new Set([...range.getClientRects()].map((box) => Math.round(box.top)));
      if (tops.size > 1) found.push(`broken: ${word[0]} in ${name(parent)}`);
    }
  }
  return [...new Set(found)];
}"""


LONG_NAME = "reconciliation-of-all-accounts"


@pytest.fixture(scope="module")
def emulator() -> Iterator[Server]:
    with server() as found:
        busy.fill(found)
        # As wide as they are in earnest: names of words, a zone, several hours.
        cron = {"Svc-Cron": "CRON_TZ=America/New_York 0,30 8-18 * * 1-5", "Svc-Schedule-Id": LONG_NAME}
        service(found, "POST", f"/v2/schedules/https://ledger.example/{LONG_NAME}", cron)
        workflow_world.fill(found, 12)
        yield found


def details(emulator: Server) -> list[str]:
    """Addresses with something in the right column."""
    failed = control(emulator, "GET", "/messages", state="failed")["messages"][-1]["message_id"]
    late = control(emulator, "GET", "/messages", state="pending")["messages"][0]["message_id"]
    runs = (workflow_world.DONE, workflow_world.FAILED, workflow_world.WAITING)
    messages = [f"#/{view}?select={failed}" for view in ("timeline", "messages", "dead")]
    return [
        *messages,
        f"#/messages?select={late}",
        "#/schedules?select=poll",
        f"#/schedules?select={LONG_NAME}",
        *(f"#/runs?select={run}" for run in runs),
    ]


def bar(page: Page) -> list[dict[str, float]]:
    """Where the controls of the bar are."""
    found: list[dict[str, float]] = page.locator("header.bar :is(button, input, select)").evaluate_all(
        "all => all.map(each => each.getBoundingClientRect()).map(({ x, y, width }) => ({ x, y, width }))"
    )
    return found


@pytest.mark.parametrize("width", [400, 1280, 1440])
@in_browser
def test_nothing_overlaps_is_cut_or_breaks_inside_a_word(emulator: Server, width: int) -> None:
    problems: list[str] = []
    with opened(emulator, look=Look(width=width, height=800)) as page:
        expect(page.locator(".counts")).to_contain_text("refused")
        places = bar(page)
        for address in (*views(page), *details(emulator)):
            show(page, address)
            problems += [f"{address}: {each}" for each in page.evaluate(PROBLEMS)]
            if bar(page) != places:
                problems.append(f"{address}: the bar has moved")
            main = page.locator("main, aside").locator("visible=true").first.bounding_box()
            here = page.locator("nav [aria-current]").bounding_box()
            assert main is not None
            assert here is not None
            if main["height"] < 0.8 * 800:
                problems.append(f"{address}: {main['height']} px are left for the view")
            if here["x"] < 0 or here["x"] + here["width"] > width:
                problems.append(f"{address}: the menu does not show where one is")
    assert not problems, "\n".join(problems)


@in_browser
def test_the_bar_stays_where_it_is_while_the_clock_is_moved(emulator: Server) -> None:
    with opened(emulator, "#/worlds", Look(width=1440), expected=["409 (Conflict)"]) as page:
        expect(page.locator(".counts")).to_contain_text("refused")
        places = bar(page)
        assert page.locator("header.bar").evaluate("bar => bar.offsetHeight") < 64
        page.evaluate("window.before = [...document.querySelectorAll('.moves button')].map(each => each.offsetLeft)")
        page.route("**/clock/advance", lambda route: None)
        page.get_by_role("button", name="+1m").click()
        expect(page.get_by_role("button", name="Stop")).to_be_visible()
        expect(page.locator(".progress")).to_contain_text("1 minute")
        assert page.evaluate(
            "window.before.every((at, index) => document.querySelectorAll('.moves button')[index].offsetLeft === at)"
        )
        page.get_by_role("button", name="Stop").click()
        expect(page.locator(".progress")).to_be_empty()
        assert bar(page) == places


@pytest.mark.parametrize("view", ["timeline", "runs", "messages", "dead", "schedules"])
@in_browser
def test_one_key_leads_from_a_row_into_its_details_and_back(emulator: Server, view: str) -> None:
    with opened(emulator, f"#/{view}") as page:
        expect(page.locator("tbody tr, .row").first).to_be_visible()
        panel = page.get_by_role("complementary")
        inside = "document.querySelector('aside').contains(document.activeElement)"
        page.keyboard.press("j")
        page.keyboard.press("Enter")
        expect(panel).to_be_visible()
        row = page.evaluate_handle("document.activeElement")
        assert not page.evaluate(inside)
        page.keyboard.press("o")
        assert page.evaluate(inside)
        page.keyboard.press("o")
        assert row.evaluate(
            "row => row === document.activeElement || row.textContent === document.activeElement.textContent"
        )
        page.keyboard.press("o")
        page.keyboard.press("Escape")
        expect(panel).to_be_hidden()
        assert row.evaluate("row => row.textContent === document.activeElement.textContent")
        page.keyboard.press("/")
        if page.evaluate("document.activeElement.matches('input, select')"):
            page.keyboard.press("Escape")
            assert row.evaluate("row => row.textContent === document.activeElement.textContent")


@in_browser
def test_keys_that_do_nothing_are_not_listed_and_the_menu_can_be_skipped(emulator: Server) -> None:
    def listed(page: Page) -> str:
        page.keyboard.press("?")
        text = page.get_by_role("dialog", name="Keys").text_content() or ""
        page.keyboard.press("Escape")
        return text

    with opened(emulator, "#/settings") as page:
        expect(page.get_by_role("button", name="+1m")).to_be_enabled()
        # By the mouse too, at the foot of the menu.
        page.get_by_role("button", name="Keys").click()
        expect(page.get_by_role("dialog", name="Keys")).to_be_visible()
        page.keyboard.press("Escape")
        text = listed(page)
        assert "Move the clock: 1 minute" in text
        for absent in ("Next row", "Tick the row", "Filter", "Close the details", "into its details", "Stop the clock"):
            assert absent not in text
        page.evaluate("location.hash = '#/dead'")
        expect(page.locator("tbody tr").first).to_be_visible()
        text = listed(page)
        assert "Tick the row" in text
        assert "into its details" not in text
        page.reload()
        page.keyboard.press("Tab")
        expect(page.get_by_role("link", name="Skip to the view")).to_be_focused()
        page.keyboard.press("Enter")
        assert page.evaluate("document.activeElement === document.querySelector('main')")


@in_browser
def test_the_menu_leads_to_the_book_in_a_tab_of_its_own(emulator: Server) -> None:
    for width in (1280, 400):
        with opened(emulator, "#/settings", Look(width=width)) as page:
            with page.expect_popup() as opening:
                page.get_by_role("link", name="Documentation").click()
            # Where the book has not been built, the page there says how.
            expect(opening.value).to_have_title(re.compile("svc-emulator"))
            assert opening.value.url.startswith(f"{emulator.url}/_emulator/docs")
            assert "#/settings" in page.url


@in_browser
def test_a_table_is_sorted_by_a_click_and_the_timeline_too(emulator: Server) -> None:
    with opened(emulator, "#/schedules") as page:
        names = page.locator("tbody tr .main > button")
        expect(names.first).to_be_visible()
        names_sorted = ["cleanup", "daily-report", "poll", LONG_NAME]
        for expected in (names_sorted, names_sorted[::-1]):
            page.get_by_role("button", name="Sort by Schedule").or_(page.get_by_title("Sort by Schedule")).first.click()
            expect(names).to_have_text(expected)
        assert "sort=-Schedule" in page.url
        page.evaluate("location.hash = '#/timeline?sort=-Took'")
        expect(page.locator(".row.past").first).to_contain_text("2 s")
        expect(page.locator(".row.now")).to_have_count(0)
        expect(page.get_by_role("status").filter(has_text="without what is to come")).to_be_visible()


@in_browser
def test_a_fork_is_made_and_shown_from_the_bar(emulator: Server) -> None:
    with opened(emulator, "#/snapshots") as page:
        fork = page.get_by_role("button", name="Fork")
        expect(fork).to_be_enabled()
        fork.click()
        page.wait_for_url("**#/snapshots?world=*")
        made = page.url.partition("world=")[2]
        chooser = page.get_by_label("World", exact=True)
        expect(chooser).to_have_value(made)
        chooser.select_option("default")
        expect(page.locator("tbody tr")).to_have_count(1)
        assert "world=" not in page.url.replace("world=default", "")
    control(emulator, "DELETE", f"/worlds/{made}")
