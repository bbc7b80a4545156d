"""Whatever a test is about, each answer that an emulator gives during it is one that the contracts describe."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

# Its plugin imports it at the end of a run at the latest, which fails beside trio once a test has frozen the collector.
import hypothesis  # noqa: F401
import pytest

from tests.contracts.answers import WATCHER, watch
from tests.harness.installation import Installation, install
from tests.harness.installation import installation as installation_in
from tests.harness.once import shared_folder

# A background job of a shell ignores SIGINT, and what it starts inherits that: tests that interrupt a process
# would wait for ever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Tests start hundreds of processes; each that finds no bytecode compiles the emulator anew, which takes longer than to
# start it.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
# The same of the tests themselves, which pytest compiles in a way of its own.
sys.dont_write_bytecode = False


@pytest.hookimpl(trylast=True)  # After pytest has its own hook, which makes a failure of the running test of each.
def pytest_configure() -> None:
    """Input nested without end is read until no call fits on the stack. A collection that begins there finds no room
    for the finalizers of what other tests left, which is no fault of either."""
    report = sys.unraisablehook

    def report_all_others(unraisable: sys.UnraisableHookArgs) -> None:
        if unraisable.exc_type is not RecursionError:
            report(unraisable)

    sys.unraisablehook = report_all_others


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """No workers for a single file or test: to start them takes longer than most files do."""
    paths = {argument.partition("::")[0] for argument in config.args}
    is_one_file = len(paths) == 1 and Path(paths.pop()).suffix == ".py"
    return 0 if is_one_file else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the longest, so that no worker is left alone with one of them."""
    items.sort(key=lambda item: item.get_closest_marker("long") is None)


@pytest.fixture(scope="session", autouse=True)
def _no_agent_runs_this() -> None:
    """A coding agent gets other output than the person that most tests stand for."""
    for name in ("CLAUDECODE", "CURSOR_AGENT", "GEMINI_CLI", "AI_AGENT", *os.environ):
        if name.startswith("CODEX_") or name in ("CLAUDECODE", "CURSOR_AGENT", "GEMINI_CLI", "AI_AGENT"):
            os.environ.pop(name, None)


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
    return installation_in(shared_folder(tmp_path_factory, "installation", install))
