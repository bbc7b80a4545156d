"""Play parts of the campaign, and say what they found.

A size of 1 takes seconds for each part, 10 some minutes, 50 about the counts of a release. Every
part has a process of its own, which is ended with all that it started when its time is up.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from random import SystemRandom

from campaign.parts import PARTS
from campaign.programs import ROOT
from campaign.rounds import Part

# How long a process may take to end what it started, before all of it is killed.
_GRACE_S = 20


def main(given: Sequence[str]) -> int:
    arguments = _parser().parse_args(given)
    unknown = [name for name in arguments.parts if name not in PARTS]
    if unknown:
        print(f"no such part: {', '.join(unknown)}; there are {', '.join(PARTS)}", file=sys.stderr)
        return 2
    if arguments.size < 1:
        print("--size: expected 1 or more", file=sys.stderr)
        return 2
    failed = []
    for name in arguments.parts or PARTS:
        options = [name, "--seed", str(arguments.seed), "--size", str(arguments.size)]
        only = [] if arguments.round is None else ["--round", str(arguments.round)]
        print(f"==> python -m campaign {' '.join(options + only)}", flush=True)
        rounds = arguments.size if arguments.round is None else 1
        if _play(PARTS[name], [*options, *only], limit_s=60 + rounds * PARTS[name].limit_s) != 0:
            failed.append(f"python -m campaign {' '.join(options + only)}")
    print("\n".join(["", "these found something:", *failed] if failed else ["", "nothing found"]))
    return 1 if failed else 0


def _parser() -> argparse.ArgumentParser:
    listed = "\n".join(f"  {name:12} {part.what}" for name, part in PARTS.items())
    parser = argparse.ArgumentParser(
        prog="python -m campaign",
        description=f"{__doc__}\nparts:\n{listed}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("parts", nargs="*", metavar="PART", help="what to play; all without one")
    parser.add_argument("--seed", type=int, default=SystemRandom().randrange(10**6), help="repeats a run")
    parser.add_argument("--size", type=int, default=1, help="how many rounds of each part")
    parser.add_argument("--round", type=int, help="play only this round, counted from 0")
    return parser


def _play(part: Part, options: Sequence[str], *, limit_s: float) -> int:
    """Play in a process of its own; its exit code, or 1 if its time was up."""
    began = time.monotonic()
    scratch = tempfile.mkdtemp(prefix="campaign-")
    process = subprocess.Popen(
        [*_isolated(part.namespaces), sys.executable, "-m", "campaign.playing", *options],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": scratch},
        start_new_session=True,
    )
    try:
        code = process.wait(limit_s)
    except subprocess.TimeoutExpired:
        print(f"FOUND not done after {limit_s:.0f} s\n      again: python -m campaign {' '.join(options)}")
        code = 1
    finally:
        _end(process)
        shutil.rmtree(scratch, ignore_errors=True)
    print(f"    {time.monotonic() - began:.0f} s", flush=True)
    return code


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a process in order, then all that it left behind: they share its group."""
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_GRACE_S)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _isolated(namespaces: Sequence[str]) -> list[str]:
    """The command that runs another one in namespaces of its own; none where that is not allowed."""
    if not namespaces or shutil.which("unshare") is None:
        return []
    for found in (["unshare", *namespaces], ["unshare", "--map-root-user", *namespaces]):
        if subprocess.run([*found, "true"], capture_output=True, check=False).returncode == 0:
            return found
    return []


if __name__ == "__main__":
    # A terminal's Ctrl-C and a supervisor's SIGTERM both end the part that is played.
    signal.signal(signal.SIGTERM, lambda _number, _frame: sys.exit(143))
    sys.exit(main(sys.argv[1:]))
