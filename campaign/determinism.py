"""The scripted run of `tests/golden`, in processes that differ in all that must not matter: the records are equal."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from random import Random

from campaign.programs import ROOT, environment
from campaign.rounds import Report, Round
from tests.golden.recording import first_difference

_TIMEOUT_S = 240
_ZONES = ("UTC", "Asia/Kolkata", "America/St_Johns", "Pacific/Apia", "Africa/Casablanca")
_LANGUAGES = ("C", "C.UTF-8", "POSIX")
_FLAGS: tuple[tuple[str, ...], ...] = ((), ("-O",), ("-X", "dev"), ("-X", "utf8=0"))
# What the server needs beyond the standard library.
_NEEDED = "import aiohttp, aiosqlite, click, croniter, jwt, msgspec, starlette, uvicorn, yaml"


def play(round: Round) -> None:
    """One variant; the first run of the process is what all are compared with."""
    if not round.shared:
        round.shared["pythons"] = "\n".join(_pythons(round.report)).encode()
        found = _record(sys.executable, (), {}, round.folder / "first", round.report)
        if found is None:
            return
        round.shared["record"] = found
    random = round.random
    pythons = round.shared["pythons"].decode().splitlines()
    # Each version has its turn, whatever the seed.
    python = pythons[round.number % len(pythons)]
    flags = random.choice(_FLAGS)
    variables = _variables(random)
    found = _record(python, flags, variables, round.folder / "run", round.report)
    if found is None or "record" not in round.shared:
        return
    difference = first_difference(round.shared["record"], found)
    variant = f"{python} {' '.join(flags)} {variables}"
    round.report.expect(not difference, "the record of a run differs", f"{variant}: {difference}")
    round.report.count("runs compared")
    round.report.count("bytes compared", len(found))


def _variables(random: Random) -> dict[str, str]:
    return {
        "PYTHONHASHSEED": str(random.choice((0, 1, random.randrange(2**32)))),
        "TZ": random.choice(_ZONES),
        "LC_ALL": random.choice(_LANGUAGES),
        "PYTHONDONTWRITEBYTECODE": random.choice(("", "1")),
        "COLUMNS": str(random.choice((40, 80, 300))),
    }


def _record(python: str, flags: tuple[str, ...], variables: dict[str, str], out: Path, report: Report) -> bytes | None:
    """The record of one run, or None after a report of why there is none."""
    done = subprocess.run(
        [python, *flags, "-m", "tests.golden.scripted_run", str(out)],
        cwd=ROOT,
        env=environment(variables),
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        timeout=_TIMEOUT_S,
        check=False,
    )
    if done.returncode != 0:
        report.found("the scripted run failed", f"{python} {flags} {variables}: {done.stderr[-500:]}")
        return None
    return out.read_bytes()


def _pythons(report: Report) -> list[str]:
    """This interpreter, and those of other versions that can run the server.

    They are found on the path, and in `CAMPAIGN_PYTHONS`, which lists programs like the path does.
    """
    named = [each for each in os.environ.get("CAMPAIGN_PYTHONS", "").split(os.pathsep) if each]
    found = [sys.executable]
    versions = {sys.version_info[:2]}
    on_path = [shutil.which(f"python3.{minor}") for minor in range(11, 20)]
    for python in [*named, *(each for each in on_path if each)]:
        version = _version(python)
        if version is not None and version not in versions:
            versions.add(version)
            found.append(python)
    report.count("Python versions", len(found))
    return found


def _version(python: str) -> tuple[int, int] | None:
    """The version of an interpreter that can run the server."""
    done = subprocess.run(
        [python, "-c", f"import sys; print(*sys.version_info[:2]); {_NEEDED}"],
        capture_output=True,
        encoding="utf-8",
        timeout=_TIMEOUT_S,
        check=False,
    )
    if done.returncode != 0:
        return None
    major, minor = done.stdout.split()
    return int(major), int(minor)
