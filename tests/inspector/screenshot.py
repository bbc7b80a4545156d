"""The picture of the inspector in the README: `python -m tests.inspector.screenshot` makes it anew."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import expect

from tests.harness.browsers import Look, close_browser, in_browser, opened
from tests.harness.emulators import Server, control, server
from tests.inspector import busy

FILE = Path(__file__).resolve().parent.parent.parent / "docs" / "inspector.png"
LOOK = Look(width=1120, height=600)


def take(emulator: Server, file: Path) -> None:
    """The timeline of a busy world, with the details of a message that waits for its next retry."""
    busy.fill(emulator)
    retrying = control(emulator, "GET", "/messages", state="retrying")["messages"][0]["message_id"]
    with opened(emulator, f"#/timeline?select={retrying}", LOOK) as page:
        expect(page.get_by_role("complementary")).to_contain_text("billing.example")
        expect(page.get_by_role("main")).to_contain_text("app.example/orders")
        expect(page.locator("[aria-busy]")).to_have_count(0)
        page.screenshot(path=file)


@in_browser
def _main() -> None:
    with server() as emulator:
        take(emulator, FILE)


if __name__ == "__main__":
    _main()
    close_browser()
