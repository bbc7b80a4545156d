"""Makes the blocking Python API, `emulator.client.sync`, from the asynchronous one, `emulator.client.aio`.

The build runs it (`hatch_build.py`), and `emulator.client.sync` does in a checkout; the wheel has
what it made, and not this module. It needs the standard library only.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import tempfile
from pathlib import Path

_AIO = Path(__file__).with_name("aio")

_WORDS = (
    (r"\bemulator\.client\.aio\b", "emulator.client.sync"),
    (
        r"\bAsync(Emulator|Clock|Destinations|Link|Snapshots|Schedules|Queues|UrlGroups|DeadLetters|Messages|Workflows|World|FlowControlKeys|SigningKeys)\b",
        r"\1",
    ),
    (r"(?m)^(@has_to_be_awaited|from emulator\.client\.errors import has_to_be_awaited)\n", ""),
    (r"\bhas_to_be_awaited, ", ""),
    (r"\basync (def|with|for)\b", r"\1"),
    (r"\bawait ", ""),
    (r"\b__a(enter|exit)__\b", r"__\1__"),
    (r"\basync_wait\b", "blocking_wait"),
    (r"\bAsyncCaller\b", "BlockingCaller"),
    (r"\bcaller_loop\b", "no_loop"),
)
# Sentences that are true of one of them only.
_TEXTS = {
    "an emulator for tests on asyncio or trio.": "an emulator for tests that do not await.",
    "An ASGI application or an asynchronous function runs on the caller's event loop, and its\n"
    "        start-up and shutdown are the caller's affair.": "ASGI applications and asynchronous functions run on an "
    "event loop in a thread of their own,\n"
    "        between their own start-up and shutdown; one whose connections belong to another loop\n"
    "        goes with `AsyncEmulator`.",
    "The others run in a thread of the emulator's;\n"
    "        `emulator.django` shares the database connections of the test with them.": "The others answer in\n"
    "        the main thread while that waits in a call of the emulator, with the database session and whatever\n"
    "        else is bound to it. A delivery that comes at another moment, as when the code under test\n"
    "        publishes over HTTP, answers in a thread of the emulator's; `emulator.django` shares the\n"
    "        database connections of the test with it.",
}


def make(directory: Path) -> None:
    """Write each module that is missing or was made from other sources, remove those without one. Raises OSError.

    Safe beside other processes that do the same: a module is written whole, then renamed.
    """
    rules = Path(__file__).read_bytes()
    for old in directory.glob("[!_.]*.py"):
        if not (_AIO / old.name).is_file():
            old.unlink(missing_ok=True)
    for source in sorted(_AIO.glob("[!_.]*.py")):
        text = source.read_bytes()
        digest = hashlib.sha256(rules + text).hexdigest()
        header = f"# Made from ../aio/{source.name} by ../generate.py ({digest}). Edit that file instead.\n"
        target = directory / source.name
        if not _starts_with(target, header):
            _replace(target, header + _blocking(text.decode()))


def _blocking(text: str) -> str:
    for pattern, replacement in _WORDS:
        text = re.sub(pattern, replacement, text)
    for old, new in _TEXTS.items():
        text = text.replace(old, new)
    return text


def _starts_with(file: Path, header: str) -> bool:
    try:
        with file.open(encoding="utf-8") as lines:
            return lines.readline() == header
    except FileNotFoundError:
        return False


def _replace(file: Path, text: str) -> None:
    descriptor, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
    try:
        with open(descriptor, "w", encoding="utf-8", newline="\n") as part:
            part.write(text)
        # What other users may read of the checkout, they may read of this.
        os.chmod(name, 0o644)
        os.replace(name, file)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise
