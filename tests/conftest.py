"""Whatever a test is about, each answer that an emulator gives during it is one that the contracts describe."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.contracts.answers import WATCHER, watch
from tests.installation import Installation, install


@pytest.fixture(scope="session", autouse=True)
def _every_answer_is_seen() -> Iterator[None]:
    with watch(WATCHER.seen):
        yield
    # Of servers that outlive a test, the answers after the last one.
    WATCHER.raise_found()


@pytest.fixture(autouse=True)
def _every_answer_is_in_the_contract(_every_answer_is_seen: None) -> Iterator[None]:
    yield
    WATCHER.raise_found()


@pytest.fixture(scope="session")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Installation:
    """The wheel, installed: built at most once in a run, because it takes a while."""
    return install(tmp_path_factory.mktemp)
