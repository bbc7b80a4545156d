"""The inspector in a real browser: Chromium as it is installed, driven by Playwright.

Playwright's blocking interface keeps an event loop running in its thread, in which nobody else could run one. So
all of it lives in one thread of the process, with one browser, and a test runs its body there: see `in_browser`.
"""

from __future__ import annotations

import contextlib
import functools
import shutil
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Literal, ParamSpec

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Locator, Page, Request, expect, sync_playwright

from tests.harness.emulators import Server
from tests.harness.loops import PATIENCE_S

P = ParamSpec("P")

# Longer than any test takes; one that hangs ends with an error.
_TEST_S = 600

PATH = "/_emulator/inspector"
# What the package is called on Debian, elsewhere, and on GitHub's runners.
_NAMES = ("chromium", "chromium-browser", "google-chrome")
EXECUTABLE = next(filter(None, map(shutil.which, _NAMES)), None)

needs_browser = pytest.mark.skipif(EXECUTABLE is None, reason="needs Chromium")

_ARGUMENTS = (
    # Its sandbox needs rights that containers do not give; it is shown nothing but our own page.
    "--no-sandbox",
    # Containers have a small /dev/shm.
    "--disable-dev-shm-usage",
    "--force-color-profile=srgb",
    # Measured by the test of many deliveries.
    "--enable-precise-memory-info",
)
# As for what a page does; see `opened`.
expect.set_options(timeout=PATIENCE_S * 500)
_THREAD = ThreadPoolExecutor(max_workers=1, thread_name_prefix="browser")
_NOTHING_MORE = contextlib.ExitStack()


def in_browser(test: Callable[P, None]) -> Callable[P, None]:
    """Runs a test in the thread of the browser, where `opened` gives it pages."""

    @functools.wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        _THREAD.submit(test, *args, **kwargs).result(_TEST_S)

    return run


@functools.cache
def _browser() -> Browser:
    """The browser of this process; it ends with `close_browser`."""
    playwright = _NOTHING_MORE.enter_context(sync_playwright())
    browser = playwright.chromium.launch(executable_path=EXECUTABLE, args=_ARGUMENTS)
    _NOTHING_MORE.callback(browser.close)
    return browser


def close_browser() -> None:
    """End the browser, if one was started. The next test that needs it starts another one."""

    def close() -> None:
        _NOTHING_MORE.close()
        _PAGES.clear()
        _browser.cache_clear()

    _THREAD.submit(close).result(PATIENCE_S)


@dataclass(frozen=True, kw_only=True)
class Look:
    """How a page is looked at."""

    theme: Literal["light", "dark"] = "light"
    width: int = 1280
    height: int = 800
    time_zone: str = "Europe/Berlin"
    # Scripts of a test, such as axe, are no part of what the page's policy allows.
    bypass_policy: bool = False


PLAIN = Look()


# One page for each server and look, for test after test: to begin one takes twice as long as to load the inspector.
_PAGES: dict[tuple[str, Look], Page] = {}


def _page(url: str, look: Look) -> Page:
    page = _PAGES.pop((url, look), None)
    if page is not None:
        return page
    while _PAGES:
        # Of another server, which has ended, or of another look.
        _PAGES.popitem()[1].context.close()
    context = _browser().new_context(
        base_url=url,
        color_scheme=look.theme,
        viewport={"width": look.width, "height": look.height},
        timezone_id=look.time_zone,
        locale="en-GB",
        bypass_csp=look.bypass_policy,
        reduced_motion="reduce",
        permissions=["clipboard-read", "clipboard-write"],
    )
    context.set_default_timeout(PATIENCE_S * 500)
    return context.new_page()


def _forget(page: Page) -> None:
    """Let nothing that a test did reach the next one."""
    for other in page.context.pages:
        if other is not page:
            other.close()
    page.unroute_all(behavior="ignoreErrors")
    page.mouse.move(0, 0)
    page.evaluate("() => { localStorage.clear(); sessionStorage.clear(); }")
    page.goto("about:blank")


@contextlib.contextmanager
def opened(emulator: Server, fragment: str = "", look: Look = PLAIN, *, expected: Sequence[str] = ()) -> Iterator[Page]:
    """The inspector of a server, loaded anew.

    At the end it must have asked nobody but its server, and the console must hold no error but the `expected` ones
    (a part of the text each).
    """
    errors: list[str] = []
    elsewhere: list[str] = []
    page = _page(emulator.url, look)
    listeners: tuple[tuple[Any, Callable[..., None]], ...] = (
        ("console", functools.partial(_note_error, errors)),
        ("pageerror", lambda error: errors.append(str(error))),
        ("request", functools.partial(_note_foreign_request, emulator.url, elsewhere)),
    )
    try:
        for event, listener in listeners:
            page.on(event, listener)
        page.goto(f"{PATH}{fragment}")
        yield page
        problems = [each for each in errors if not any(part in each for part in expected)]
        assert not problems, "\n".join(problems)
        assert not elsewhere, "\n".join(elsewhere)
        for event, listener in listeners:
            page.remove_listener(event, listener)
        _forget(page)
    except BaseException:
        page.context.close()
        raise
    _PAGES[emulator.url, look] = page


def _note_error(errors: list[str], message: ConsoleMessage) -> None:
    if message.type == "error":
        errors.append(f"{message.location['url']}: {message.text}")


def _note_foreign_request(origin: str, elsewhere: list[str], request: Request) -> None:
    if not request.url.startswith((f"{origin}/", "blob:", "data:")):
        elsewhere.append(request.url)


def copied(page: Page) -> str:
    """What the clipboard holds."""
    text: str = page.evaluate("navigator.clipboard.readText()")
    return text


def row(page: Page, text: str) -> Locator:
    """The row of a list that has this text."""
    return page.locator("tbody tr").filter(has_text=text)


def scrolls_sideways(page: Page) -> bool:
    """Whether the page as a whole is wider than its window."""
    found: bool = page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth")
    return found


def heap_bytes(page: Page) -> int:
    """What the page's scripts hold, after a collection."""
    session = page.context.new_cdp_session(page)
    session.send("HeapProfiler.collectGarbage")
    session.send("Performance.enable")
    metrics: list[dict[str, Any]] = session.send("Performance.getMetrics")["metrics"]
    session.detach()
    return next(int(each["value"]) for each in metrics if each["name"] == "JSHeapUsedSize")
