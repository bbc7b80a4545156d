"""An emulator without contracts."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

from emulator.api import application
from emulator.api.control.options import ControlOptions
from tests.harness.emulators import InProcess, in_process


@asynccontextmanager
async def without_contracts() -> AsyncIterator[InProcess]:
    """An emulator whose installation has no contracts: the folder where they should be is empty."""
    with tempfile.TemporaryDirectory() as folder:
        async with in_process() as emulator:
            options = ControlOptions(token=None, contracts=Path(folder))
            app = application.build(emulator.emulation.worlds, options)
            yield InProcess(replace(emulator.emulation, app=app))
