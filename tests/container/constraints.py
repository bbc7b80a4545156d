"""The versions that the image installs: those of the environment the tests run in, and all that they need.

Write them anew with `python -m tests.container.constraints > constraints.txt`, after a run of the
tests with newer versions.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
FILE = ROOT / "constraints.txt"

HEADER = """\
# What the image installs, and nothing else: see Dockerfile. Made from the environment in which the
# tests passed, with `python -m tests.container.constraints > constraints.txt`.
"""
# The image is made for Linux, whatever runs here.
_IMAGE = {"python_version": "3.13", "python_full_version": "3.13.0", "sys_platform": "linux", "os_name": "posix"}


def requirements() -> list[Requirement]:
    """What the project asks for when it runs and when it is built."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    return [Requirement(text) for text in (*project["project"]["dependencies"], *project["build-system"]["requires"])]


def needed() -> dict[str, list[Requirement]]:
    """Every package that the image needs, with all that is asked of its version."""
    found: dict[str, list[Requirement]] = {}
    waiting = requirements()
    seen: set[str] = set()
    while waiting:
        requirement = waiting.pop()
        name = canonicalize_name(requirement.name)
        if not _holds(requirement, ""):
            continue
        found.setdefault(name, []).append(requirement)
        for extra in ("", *sorted(requirement.extras)):
            if f"{name}[{extra}]" not in seen:
                seen.add(f"{name}[{extra}]")
                waiting += _of_package(name, extra)
    return found


def _of_package(name: str, extra: str) -> Iterator[Requirement]:
    for text in metadata.requires(name) or ():
        requirement = Requirement(text)
        if _holds(requirement, extra) and (not extra or not _holds(requirement, "")):
            # It held for the extra; what it asks for is asked for plainly.
            requirement.marker = None
            yield requirement


def _holds(requirement: Requirement, extra: str) -> bool:
    return requirement.marker is None or requirement.marker.evaluate({**_IMAGE, "extra": extra})


def pinned() -> Mapping[str, str]:
    """The versions that `constraints.txt` gives, by package."""
    lines = [line for line in FILE.read_text("utf-8").splitlines() if line and not line.startswith("#")]
    return dict(line.split("==") for line in lines)


def text() -> str:
    """The file for the versions that are installed here."""
    lines = [f"{name}=={metadata.version(name)}\n" for name in sorted(needed())]
    return HEADER + "".join(lines)


if __name__ == "__main__":
    print(text(), end="")
