from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.harness import emulators


@pytest.fixture(scope="module")
def shell_server() -> Iterator[emulators.Server]:
    with emulators.server() as server:
        yield server
