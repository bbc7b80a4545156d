"""A checkout of the project, whose emulator is measured."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

_BYTECODE = Path(tempfile.gettempdir()) / "svc-emulator-benchmarks"


class NoCheckout(Exception):
    """The folder is no checkout of the project; the text says why, in one line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkout:
    """Where it is. Its processes run there, and import from there."""

    path: Path

    @classmethod
    def at(cls, path: str) -> Checkout:
        """Raises NoCheckout."""
        found = Path(path).resolve()
        if not (found / "emulator" / "__main__.py").is_file():
            raise NoCheckout(f"{path}: is no checkout of this project, it has no emulator/__main__.py")
        return cls(path=found)

    @property
    def environment(self) -> dict[str, str]:
        """The variables of this process, without any that would change what the emulator does.

        Modules are compiled once, as they are where the emulator is installed, and the checkout stays as it is.
        """
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(("EMULATOR_", "PYTHON"))}
        return {
            **inherited,
            "PYTHONPATH": str(self.path),
            "PYTHONIOENCODING": "utf-8",
            "PYTHONPYCACHEPREFIX": str(_BYTECODE),
        }

    @property
    def commit(self) -> str:
        """What it is called: the commit it is at, or without one the name of its folder."""
        command = ["git", "-C", str(self.path), "rev-parse", "--short", "HEAD"]
        try:
            return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
        except (OSError, subprocess.CalledProcessError):
            return self.path.name

    def serve(self, *options: str, program: Path | None = None) -> list[str]:
        """The command that runs a server, by another program than the emulator's own if one is given."""
        # Without its folder on the path: modules here have names that are those of others too.
        run = ["-m", "emulator"] if program is None else ["-P", str(program)]
        return [sys.executable, *run, "serve", "--log-level", "error", *options]


HERE = Checkout(path=Path(__file__).resolve().parent.parent)
