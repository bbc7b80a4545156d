"""Runs of pytest inside this one, with the plugin; a test module names this one in `pytest_plugins`."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import httpx
import pytest

from emulator import Emulator

Run = partial[pytest.RunResult]


@pytest.fixture(scope="session")
def everything_is_imported() -> None:
    """Before a run inside this one, which forgets what it was the first to import."""
    with Emulator() as emulator:
        emulator.publish("https://app.example.com/")
        emulator.timeline()
        # Over a socket. What httpx imports then knows the exceptions of its transport.
        httpx.get(f"{emulator.url}/_emulator/health", trust_env=False)


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, everything_is_imported: None) -> Run:
    """Run tests with this plugin, warnings being errors, and no other plugins but those that are asked for."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    # In CI, pytest's own summary repeats the whole message of a failure.
    for name in ("EMULATOR_URL", "EMULATOR_CONTROL_TOKEN", "CI", "BUILD_NUMBER"):
        monkeypatch.delenv(name, raising=False)
    # The plugin is imported in this process already, too late for pytest to rewrite its assertions.
    warnings = ("-Werror", "-Wignore::pytest.PytestAssertRewriteWarning")
    return partial(pytester.runpytest_inprocess, *warnings, "-p", "emulator.pytest_plugin", "-p", "no:cacheprovider")


@pytest.fixture
def run_apart(pytester: pytest.Pytester, run: Run) -> Run:
    """The same in a process of its own, beside plugins that leave traces in theirs."""
    return partial(pytester.runpytest_subprocess, *run.args)


@pytest.fixture
def shared() -> Iterator[Emulator]:
    """A server that runs already."""
    with Emulator() as emulator:
        yield emulator
