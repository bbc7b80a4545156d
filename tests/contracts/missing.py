"""An emulator with other files than those of its installation."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from emulator.control.call import ControlOptions
from emulator.server import application
from tests.harness.emulators import InProcess, in_process


@asynccontextmanager
async def with_files(*, token: str | None = None, **options: Any) -> AsyncIterator[InProcess]:
    """An emulator with these options of its control API, such as the folder `book`."""
    async with in_process() as emulator:
        app = application.build(emulator.emulation.worlds, ControlOptions(token=token, **options))
        yield InProcess(replace(emulator.emulation, app=app))


@asynccontextmanager
async def without_contracts() -> AsyncIterator[InProcess]:
    """An emulator whose installation has no contracts: the folder where they should be is empty."""
    with tempfile.TemporaryDirectory() as folder:
        async with with_files(contracts=Path(folder)) as emulator:
            yield emulator
