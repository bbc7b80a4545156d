"""Makes the blocking face of the Python API from the awaiting one: `python -m tests.client.faces`."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

_CLIENT = Path(__file__).parents[2] / "emulator" / "client"
SOURCE, TARGET = _CLIENT / "awaiting.py", _CLIENT / "blocking.py"

_HEAD = '''"""`Emulator`: an emulator for tests that do not await.

Made from `awaiting.py` by `python -m tests.client.faces`; edit that file, not this one.
"""
'''
_TEXTS = (
    (
        "from emulator.client.bridges import Door, home, wait",
        "from emulator.client.bridges import Door, blocking_wait, no_home",
    ),
    (
        "An ASGI application or an asynchronous function runs on the caller's event loop, and its\n"
        "        start-up and shutdown are the caller's affair.",
        "ASGI applications and asynchronous functions run on an event loop in a thread of their own,\n"
        "        between their own start-up and shutdown; one whose connections belong to another loop\n"
        "        goes with `AsyncEmulator`.",
    ),
)
_WORDS = (
    (r"\bAsync(Emulator|Clock|Destinations|Snapshots)\b", r"\1"),
    (r"\basync (def|with|for)\b", r"\1"),
    (r"\bawait ", ""),
    (r"\b__a(enter|exit)__\b", r"__\1__"),
    (r"(?<![_.])\bwait\(", "blocking_wait("),
    (r"\bhome\(\)", "no_home()"),
)


def blocking_face() -> str:
    """The text of `blocking.py` as it should be."""
    text = SOURCE.read_text(encoding="utf-8")
    text = _HEAD + text[text.index('"""', 3) + 4 :]
    for old, new in _TEXTS:
        assert old in text, old
        text = text.replace(old, new)
    for pattern, new in _WORDS:
        text = re.sub(pattern, new, text)
    for arguments in (("check", "--fix", "--select", "I"), ("format",)):
        command = [sys.executable, "-m", "ruff", *arguments, "--quiet", "--stdin-filename", str(TARGET), "-"]
        text = subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout
    return text


if __name__ == "__main__":
    TARGET.write_text(blocking_face(), encoding="utf-8")
