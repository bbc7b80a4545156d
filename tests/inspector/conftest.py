"""One server for the tests of a module, reset before each; one browser for all of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.harness.browsers import close_browser
from tests.harness.emulators import Server, control, server


@pytest.fixture(scope="session", autouse=True)
def _browser_ends() -> Iterator[None]:
    yield
    close_browser()


@pytest.fixture(scope="module")
def served() -> Iterator[Server]:
    with server() as found:
        yield found


@pytest.fixture
def emulator(served: Server) -> Server:
    for world in control(served, "GET", "/worlds")["worlds"]:
        if world["id"] != "default":
            control(served, "DELETE", f"/worlds/{world['id']}")
    for snapshot in control(served, "GET", "/snapshots")["snapshots"]:
        control(served, "DELETE", f"/snapshots/{snapshot['name']}")
    control(served, "POST", "/reset")
    return served
