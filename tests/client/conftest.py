"""What most tests of the Python API need: a server for the module, and a world for the test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from emulator import Emulator
from tests.harness import emulators


@pytest.fixture(scope="module")
def server() -> Iterator[Emulator]:
    """A server in this process, its clock frozen."""
    with Emulator(epoch=emulators.EPOCH) as emulator:
        yield emulator


@pytest.fixture
def emu(server: Emulator) -> Iterator[Emulator]:
    """A world of its own for the test."""
    with server.new_world(epoch=emulators.EPOCH) as world:
        yield world
