"""Things that take long to make are made once for all workers of a test run."""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

# How long a worker waits for what another one makes.
PATIENCE_S = 300


def shared_folder(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], None]) -> Path:
    """A folder that `make` has filled, by whichever worker needed it first.

    If `make` fails, it fails again in each worker that needs the folder.
    """
    base = factory.getbasetemp()
    # Each worker of pytest-xdist has a folder of its own below the folder of the run.
    run = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    folder, made = run / name, run / f"{name}.made"
    with _locked(run / f"{name}.lock"):
        if not made.exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            make(folder)
            made.touch()
    return folder


@contextlib.contextmanager
def _locked(file: Path) -> Iterator[None]:
    """One process at a time. SQLite has a lock on every system, and a process that ends gives it back."""
    connection = sqlite3.connect(file, timeout=PATIENCE_S, isolation_level=None)
    try:
        connection.execute("BEGIN EXCLUSIVE")
        yield
    finally:
        connection.close()
