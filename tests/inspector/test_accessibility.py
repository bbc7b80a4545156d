"""Every view for everybody: axe finds nothing serious, in both themes; no width makes the page scroll sideways."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Page, expect

from tests.harness.browsers import PLAIN, Look, in_browser, needs_browser, opened, scrolls_sideways
from tests.harness.emulators import Server, control, server
from tests.harness.once import shared_folder
from tests.inspector import busy

NPM = shutil.which("npm")

# Beside every view as the menu opens it.
MORE = (
    "#/timeline?group=destination",
    "#/schedules?select=poll",
    "#/when?expression=CRON_TZ%3DEurope/Berlin+30+2+*+*+*&from=2026-03-28",
    "#/when?expression=61+*+*+*+*",
)
# What the last of these is answered.
WRONG = ("400 (Bad Request)",)
# What axe finds on the page as it is, a line each.
SERIOUS = """async rules => {
    const { violations } = await axe.run({ resultTypes: ["violations"], ...(rules && { runOnly: rules }) });
    const serious = violations.filter(({ impact }) => impact === "serious" || impact === "critical");
    return serious.flatMap(({ id, impact, nodes }) =>
        nodes.map(({ html, failureSummary }) => `${id} (${impact}): ${html.slice(0, 160)}: ${failureSummary}`));
}"""

pytestmark = [pytest.mark.slow, needs_browser]


@pytest.fixture(scope="module")
def emulator() -> Iterator[Server]:
    with server() as found:
        busy.fill(found)
        yield found


@pytest.fixture(scope="session")
def axe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The checker's script, outside the project; the page itself has nothing of it."""

    def install(folder: Path) -> None:
        options = ("--no-package-lock", "--no-save", "--no-audit", "--no-fund", "--prefix", str(folder))
        subprocess.run([str(NPM), "install", *options, "axe-core@^4.10"], check=True, capture_output=True, timeout=240)

    return shared_folder(tmp_path_factory, "axe", install) / "node_modules" / "axe-core" / "axe.min.js"


def views(page: Page) -> list[str]:
    """The addresses of all views, as the menu has them."""
    links = page.get_by_role("navigation", name="Views").locator('a[href^="#/"]')
    expect(links.first).to_be_visible()
    found: list[str] = links.evaluate_all("links => links.map(link => link.getAttribute('href'))")
    assert len(found) >= 12
    return found


def show(page: Page, address: str) -> None:
    """Open a view, and wait for what it loads."""
    page.evaluate("address => { location.hash = address }", address)
    here = page.get_by_role("navigation", name="Views").locator("[aria-current=page]")
    expect(here).to_have_attribute("href", address.partition("?")[0])
    expect(page.locator("main > *").first).to_be_attached()
    expect(page.locator("[aria-busy]")).to_have_count(0)


@pytest.mark.skipif(NPM is None, reason="needs npm")
@pytest.mark.parametrize("theme", ["light", "dark"])
@in_browser
def test_axe_finds_nothing_serious(emulator: Server, axe: Path, theme: Literal["light", "dark"]) -> None:
    message_id = control(emulator, "GET", "/messages")["messages"][0]["message_id"]
    problems: list[str] = []
    with opened(emulator, look=Look(theme=theme, bypass_policy=True), expected=WRONG) as page:
        page.add_script_tag(path=axe)
        for address in (*views(page), f"#/timeline?select={message_id}", *MORE):
            show(page, address)
            # The themes differ in their colours alone. Only what is looked at of the result crosses into Python.
            rules = ["color-contrast"] if theme == "dark" else None
            problems += [f"{address}: {found}" for found in page.evaluate(SERIOUS, rules)]
    assert not problems, "\n".join(problems)


@pytest.mark.parametrize("scripts", ["see each width", "see no width"])
@in_browser
def test_no_view_makes_the_page_scroll_sideways(emulator: Server, scripts: str) -> None:
    message_id = control(emulator, "GET", "/messages")["messages"][0]["message_id"]
    wide: list[str] = []
    with opened(emulator, expected=WRONG) as page:
        if scripts == "see no width":  # As in the frame before they see a new one: the style decides alone.
            page.evaluate("() => { ResizeObserver.prototype.observe = () => {} }")
        for address in (*views(page), f"#/timeline?select={message_id}", *MORE):
            show(page, address)
            for width in (320, 700, 2560):
                page.set_viewport_size({"width": width, "height": 800})
                main = page.locator("main").evaluate("main => main.scrollWidth - main.clientWidth")
                if scrolls_sideways(page) or main > 0:
                    wide.append(f"{address} in {width} px: {main} px")
        page.set_viewport_size({"width": PLAIN.width, "height": PLAIN.height})
    assert not wide, "\n".join(wide)


@in_browser
def test_every_view_is_opened_again_with_what_is_known_of_it(emulator: Server) -> None:
    with opened(emulator) as page:
        for address in 2 * views(page):
            show(page, address)
            expect(page.locator("main h1")).not_to_be_empty()
            assert page.locator("main > section > *").count() > 1, address


@in_browser
def test_every_view_is_reached_and_left_by_keys_that_are_listed(emulator: Server) -> None:
    with opened(emulator) as page:
        addresses = views(page)
        page.keyboard.press("?")
        keys = page.get_by_role("dialog", name="Keys")
        expect(keys).to_be_visible()
        pairs = keys.locator("dt").evaluate_all(
            "all => all.map(each => [...each.querySelectorAll('kbd')].map(key => key.textContent))"
        )
        page.keyboard.press("Escape")
        expect(keys).to_be_hidden()
        reached = set()
        for _, second in (pair for pair in pairs if pair[0] == "g"):
            page.keyboard.press("g")
            page.keyboard.press(second)
            reached.add(page.evaluate("location.hash.split('?')[0]"))
        assert reached == set(addresses)
