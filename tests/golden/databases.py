"""Recorded databases, and the records of how the worlds in them go on.

A database is made by the emulator itself: started through its Python API, used over HTTP, and ended
by a stop or by a crash in the middle of a delivery. What belongs to it (the other worlds' files,
snapshots, the write-ahead log of a crash) lies beside it in one archive, named by the format of the
file. The record of an archive is what a server answers that opens it.

    python -m tests.golden.databases make                  make archives of the present format, and their records
    python -m tests.golden.databases record                record the archives there are again
    python -m tests.golden.databases show NAME OUT [CHECKOUT]   write the record of a checkout as plain text

Archives are made once for each format, and by the code that first had it. Afterwards they stay.
"""

from __future__ import annotations

import asyncio
import io
import lzma
import os
import signal
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from emulator import Emulator, Request
from emulator.journal import schema
from tests.golden import lives, servers
from tests.golden.client import Client
from tests.golden.recording import Recording
from tests.golden.worlds import World

# How the process that wrote it came to its end.
_VARIANTS = ("stopped", "crashed")
# Format 2 was that of no released version.
NAMES = tuple(f"format-{number}-{variant}" for number in (1, 3, 4) for variant in _VARIANTS)

_HERE = Path(__file__).parent
_PRESET = 9 | lzma.PRESET_EXTREME
_STATE = "state.db"
_BESIDE = "beside"


def archive(name: str) -> Path:
    """A database and all that belongs to it."""
    return _HERE / f"{name}.tar.xz"


def record(name: str) -> Path:
    """How the worlds of an archive went on when that was recorded."""
    return _HERE / f"{name}.ndjson.xz"


def go_on(name: str, checkout: Path, folder: Path, recording: Recording) -> None:
    """Unpack an archive into an empty folder, open it with a checkout's server, and use it for three days and more."""
    with tarfile.open(archive(name)) as packed:
        for entry in packed:
            content = packed.extractfile(entry)
            assert content is not None
            path = folder / entry.name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.read())
    for life in (lives.go_on, lives.still_there):
        with (
            servers.serving(checkout, "--db", str(folder / _STATE)) as server,
            Client(server.port) as client,
        ):
            life(World(client, recording, "default"), World(client, recording, _BESIDE))


# -- making -------------------------------------------------------------------------------------


def _live(life: str, folder: Path) -> None:
    """One life of the database in a process of its own, which this function may end."""
    with Emulator(db=folder / _STATE, epoch=servers.EPOCH, seed=100) as emulator:
        port = int(emulator.url.rpartition(":")[2])
        with Client(port) as client:
            unread = Recording()
            world = World(client, unread, "default")
            if life == "stopped":
                lives.first_life(world, World.create(client, unread, _BESIDE, seed=104, epoch=servers.EPOCH))
            else:
                lives.second_life(world, World(client, unread, _BESIDE))
            emulator.mount(lives.HANGING, _hang)
            lives.leave_under_way(world)
            if life == "crashed":
                os.kill(os.getpid(), signal.SIGKILL)


async def _hang(request: Request) -> None:
    """Answers when the process ends, which is never."""
    await asyncio.Event().wait()


def _make() -> None:
    with tempfile.TemporaryDirectory() as folder:
        for variant in _VARIANTS:
            command = [sys.executable, "-m", "tests.golden.databases", "live", variant, folder]
            child = subprocess.run(command, env=servers.environment(servers.HERE), check=False)
            if child.returncode != (0 if variant == "stopped" else -signal.SIGKILL):
                raise RuntimeError(f"the life that ends {variant} ended with {child.returncode}")
            packed = lzma.compress(_packed(Path(folder)), preset=_PRESET)
            archive(f"format-{schema.FORMAT}-{variant}").write_bytes(packed)


def _packed(folder: Path) -> bytes:
    """The files of a folder as an archive that tells nothing of who made it, and when."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as packed:
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                entry = tarfile.TarInfo(path.relative_to(folder).as_posix())
                entry.size = path.stat().st_size
                with path.open("rb") as content:
                    packed.addfile(entry, content)
    return buffer.getvalue()


def _recorded(name: str, checkout: Path) -> bytes:
    recording = Recording()
    with tempfile.TemporaryDirectory() as folder:
        go_on(name, checkout, Path(folder), recording)
    return recording.text()


def main(arguments: list[str]) -> int:
    match arguments:
        case ["live", life, folder]:
            _live(life, Path(folder))
        case ["make"] | ["record"]:
            if arguments == ["make"]:
                _make()
            for name in NAMES:
                record(name).write_bytes(lzma.compress(_recorded(name, servers.HERE), preset=_PRESET))
        case ["show", name, out, *rest]:
            checkout = Path(rest[0]).resolve() if rest else servers.HERE
            Path(out).write_bytes(_recorded(name, checkout))
        case _:
            print(__doc__, file=sys.stderr)
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
