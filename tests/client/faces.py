"""Makes the blocking modules of the Python API from the awaiting ones: `python -m tests.client.faces`."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

_CLIENT = Path(__file__).parents[2] / "emulator" / "client"
_QUOTES = '"""'
_TEXTS = (
    ("an emulator for tests on asyncio or trio.", "an emulator for tests that do not await."),
    (
        "from emulator.client.bridges import AsgiBridge, home, wait",
        "from emulator.client.bridges import AsgiBridge, blocking_wait, no_home",
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
    (r"\bemulator\.client\.aio\b", "emulator.client.sync"),
    (r"\bAsync(Emulator|Clock|Destinations|Snapshots)\b", r"\1"),
    (r"\basync (def|with|for)\b", r"\1"),
    (r"\bawait ", ""),
    (r"\b__a(enter|exit)__\b", r"__\1__"),
    (r"(?<![_.])\bwait\(", "blocking_wait("),
    (r"\bhome\(\)", "no_home()"),
)


def blocking_faces() -> dict[Path, str]:
    """Each blocking module, and its text as it should be."""
    sources = {path: path.read_text(encoding="utf-8") for path in sorted((_CLIENT / "aio").glob("[a-z]*.py"))}
    for old, _ in _TEXTS:
        assert any(old in text for text in sources.values()), old
    return {_CLIENT / "sync" / path.name: _made_from(f"aio/{path.name}", text) for path, text in sources.items()}


def _made_from(name: str, text: str) -> str:
    title = text[: text.index("\n")].removesuffix(_QUOTES)
    made = f"Made from `{name}` by `python -m tests.client.faces`; edit that file, not this one."
    text = f"{title}\n\n{made}\n{_QUOTES}\n\n{text[text.index('from __future__') :]}"
    for pattern, new in _WORDS:
        text = re.sub(pattern, new, text)
    for old, new in _TEXTS:
        text = text.replace(old, new)
    for arguments in (("check", "--fix", "--select", "I"), ("format",)):
        command = [sys.executable, "-m", "ruff", *arguments, "--quiet", "--stdin-filename", str(_CLIENT / "x.py"), "-"]
        text = subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout
    return text


if __name__ == "__main__":
    for path, text in blocking_faces().items():
        path.write_text(text, encoding="utf-8")
