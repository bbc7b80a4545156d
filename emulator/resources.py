"""Where the files that lie outside the package are: `fixtures/`, `contracts/` and the built `book/`.

A wheel carries them as `emulator/_data/`; in a source checkout, and so in an editable install,
they stand beside the package. Paths are worked out from this file alone, because every command
imports this module and `importlib.resources` would slow all of them down.
"""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent
_INSTALLED = _PACKAGE / "_data"
_ROOT = _INSTALLED if _INSTALLED.is_dir() else _PACKAGE.parent


def path(*parts: str) -> Path:
    """The data file or directory of that name, such as `path("fixtures", "dialects", "svc.toml")`.

    Raises: nothing; whether the file exists shows when it is opened.
    """
    return _ROOT.joinpath(*parts)
