"""What the tests of the commands need: a server for the module."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests import support


@pytest.fixture(scope="module")
def shared() -> Iterator[support.Server]:
    """A real server, its clock frozen; a test makes its default world what it needs."""
    with support.server() as server:
        yield server
