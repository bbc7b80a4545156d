"""The blocking Python API is made from the asynchronous one, by the build or at the first import in a checkout."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import emulator
from emulator.client import generate

PACKAGE = Path(emulator.__file__).parent
MODULES = {path.name for path in (PACKAGE / "client" / "aio").glob("[!_]*.py")}
WHERE = "import emulator.client.sync.emulator as made; print(made.__file__)"


def contents(directory: Path) -> dict[str, str]:
    return {path.name: path.read_text("utf-8") for path in directory.iterdir()}


def test_every_module_of_the_blocking_api_is_made_and_awaits_nothing(tmp_path: Path) -> None:
    generate.make(tmp_path)

    made = contents(tmp_path)
    assert made.keys() == MODULES
    assert len(MODULES) > 5
    for text in made.values():
        code = text.replace("`AsyncEmulator`", "")
        assert not [word for word in ("await ", "async ", "Async", "client.aio") if word in code.partition("\n")[2]]
    assert "an emulator for tests that do not await." in made["emulator.py"]
    assert "goes with `AsyncEmulator`" in made["emulator.py"]


def test_what_is_up_to_date_is_left_alone_and_what_is_not_is_made_again(tmp_path: Path) -> None:
    generate.make(tmp_path)
    made = contents(tmp_path)
    (tmp_path / "clock.py").write_text("# Made from ../aio/clock.py by ../generate.py (0000).\n")
    (tmp_path / "link.py").unlink()
    (tmp_path / "awaiting.py").touch()
    before = (tmp_path / "emulator.py").stat()

    generate.make(tmp_path)

    assert contents(tmp_path) == made
    assert (tmp_path / "emulator.py").stat().st_ino == before.st_ino


def test_many_processes_may_make_it_at_once(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(generate.make, [tmp_path] * 32))

    assert contents(tmp_path).keys() == MODULES


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of the package that was never built."""
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(PACKAGE, tmp_path / "emulator", ignore=ignored)
    for name in MODULES:
        (tmp_path / "emulator" / "client" / "sync" / name).unlink()
    return tmp_path


def start(checkout: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-B", "-c", WHERE],
        cwd=checkout,
        env={**os.environ, "PYTHONPATH": str(checkout), "TMPDIR": str(checkout)},
        stdout=subprocess.PIPE,
        encoding="utf-8",
    )


@pytest.mark.slow
def test_a_checkout_that_was_never_built_can_be_imported_by_many_processes_at_once(checkout: Path) -> None:
    found = {process.communicate(timeout=60)[0].strip() for process in [start(checkout) for _ in range(3)]}

    sync = checkout / "emulator" / "client" / "sync"
    assert found == {str(sync / "emulator.py")}
    assert contents(sync).keys() == {"__init__.py", *MODULES}


@pytest.mark.slow
def test_a_checkout_that_cannot_be_written_to_is_left_as_it_is(checkout: Path) -> None:
    sync = checkout / "emulator" / "client" / "sync"
    # A directory in the place of a module keeps even root from writing it.
    (sync / "emulator.py").mkdir()
    (sync / "emulator.py" / "x").touch()

    with start(checkout) as process:
        [found] = process.communicate(timeout=60)[0].split()

    assert Path(found).parent.parent == checkout
    assert not Path(found).exists()
