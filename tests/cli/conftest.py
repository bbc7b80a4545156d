"""What the tests of the commands need: a server for the module."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.harness import emulators


@pytest.fixture(scope="module")
def shared() -> Iterator[emulators.Server]:
    """A real server, its clock frozen; a test makes its default world what it needs."""
    with emulators.server() as server:
        yield server


@pytest.fixture
def server(shared: emulators.Server) -> emulators.Server:
    """The server, its default world as it was made."""
    emulators.control(shared, "POST", "/reset")
    return shared
