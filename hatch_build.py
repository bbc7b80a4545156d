"""The build hook: makes the blocking Python API before files are collected."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class MakeBlockingApi(BuildHookInterface[Any]):
    """Writes `emulator/client/sync/*.py` into the tree, for every target, editable installs included."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        client = Path(self.root) / "emulator" / "client"
        # By its path: nothing of the project can be imported while it is built.
        runpy.run_path(str(client / "generate.py"))["make"](client / "sync")
