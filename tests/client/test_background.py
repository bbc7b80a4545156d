"""An emulator belongs to the process that started it; others get its URL and token."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys

import pytest

from emulator import Emulator

# A fork hangs where it would wait for a thread that it does not have, so this has an end of its own.
FORK = """
import os, signal, sys
import httpx
from emulator import Emulator, Unreachable

with Emulator() as emulator:
    url, headers = f"{emulator.url}/v2/publish/https://app.example.com", {"Authorization": f"Bearer {emulator.token}"}
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        try:
            emulator.deliveries()
        except Unreachable as error:
            print(error, flush=True)
        assert httpx.post(url, headers=headers, trust_env=False).status_code == 200
        sys.exit(7)  # Through the end of the with block, and those of the interpreter.
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    print(status, len(emulator.deliveries()))
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="there is no fork")
def test_a_fork_is_told_and_leaves_the_emulator_as_it_is() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", FORK], capture_output=True, text=True, timeout=60, check=False
    )

    assert done.stderr == ""
    assert done.stdout.splitlines() == [
        "this emulator lives in the process that this one was forked from: use its url and token",
        "7 1",
    ]


def test_it_cannot_be_handed_to_another_process() -> None:
    emulator = Emulator()
    with pytest.raises(TypeError, match="stays in its process: hand its url and token"):
        pickle.dumps(emulator)
    with pytest.raises(TypeError, match="stays in its process"):
        copy.copy(emulator)
