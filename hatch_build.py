"""The build hook: makes the blocking Python API before files are collected, and the book that the emulator serves."""

from __future__ import annotations

import importlib.util
import runpy
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class MakeGeneratedFiles(BuildHookInterface[Any]):
    """Writes `emulator/client/sync/*.py` into the tree, for every target, editable installs included.

    The book is made beside the tree and goes into wheels and sdists (D-746).
    """

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        root = Path(self.root)
        client = root / "emulator" / "client"
        # By its path: nothing of the project can be imported while it is built.
        runpy.run_path(str(client / "generate.py"))["make"](client / "sync")
        if version == "editable":
            return
        book = root / "book"
        if importlib.util.find_spec("sphinx") and importlib.util.find_spec("myst_parser"):
            # Anew, whatever was made in the checkout.
            self._made = tempfile.TemporaryDirectory()
            book = Path(self._made.name) / "book"
            command = [sys.executable, "-m", "sphinx", "--fail-on-warning", "-q"]
            command += ["-d", str(book.parent / "doctrees"), str(root / "docs"), str(book)]
            # What it prints belongs on standard error: a frontend may read standard output.
            subprocess.run(command, check=True, stdout=sys.stderr.fileno())
            (book / ".buildinfo").unlink()
        if (book / "index.html").is_file():
            inside = "book" if self.target_name == "sdist" else "emulator/_data/book"
            build_data["force_include"][str(book)] = inside
        else:
            self.app.display_warning("without Sphinx and MyST, and without a book/, the documentation is left out")

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if hasattr(self, "_made"):
            self._made.cleanup()
