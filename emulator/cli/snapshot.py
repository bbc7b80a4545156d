"""`svc-emulator snapshot`: saved worlds of a running server."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import quote

import click

from emulator.cli.clock import status_text
from emulator.cli.control import Control, on_world
from emulator.cli.failures import Failure
from emulator.cli.output import answered, columns

_STREAM = "-"
_PIECE_BYTES = 1024 * 1024


@click.group(epilog="Example: svc-emulator snapshot save before")
def snapshot() -> None:
    """Save, restore, export and import whole worlds.

    A snapshot holds everything: clock, pending work, history, random source. What is done again
    after it was restored comes out the same again.
    """


def _saved(found: Mapping[str, Any]) -> Iterator[str]:
    yield f"snapshot {found['name']} saved: {_summary(found)}"


def _restored(world: Mapping[str, Any]) -> Iterator[str]:
    name, clock = click.get_current_context().params["name"], world["clock"]
    yield f"world {world['id']} restored from {name}: clock {status_text(clock)}, {clock['pending']} pending"


def _listed(answer: Mapping[str, Any]) -> Iterator[str]:
    found = answer["snapshots"]
    if not found:
        yield f"no snapshots of the world {click.get_current_context().params['world']}"
    yield from columns([(each["name"], _summary(each)) for each in found])


def _imported(found: Mapping[str, Any]) -> Iterator[str]:
    yield f"snapshot {found['name']} imported: {_summary(found)}"


@snapshot.command(epilog="Example: svc-emulator snapshot save before --world team-a")
@click.argument("name")
@answered(_saved)
@on_world
def save(control: Control, *, name: str) -> Any:
    """Save the world as it is now, as NAME."""
    return control.call("POST", "snapshots", {"name": name}, doing="saving")


@snapshot.command(epilog="Example: svc-emulator snapshot restore before --world team-a")
@click.argument("name")
@answered(_restored)
@on_world
def restore(control: Control, *, name: str) -> Any:
    """Put the world back to what it was when NAME was saved."""
    return control.call("POST", f"snapshots/{_quoted(name)}/restore", doing="restoring")


@snapshot.command("list", epilog="Example: svc-emulator snapshot list")
@answered(_listed)
@on_world
def list_(control: Control) -> Any:
    """List the snapshots of the world."""
    return control.call("GET", "snapshots")


@snapshot.command(epilog="Example: svc-emulator snapshot delete before")
@click.argument("name")
@on_world
def delete(control: Control, *, name: str) -> None:
    """Delete the snapshot NAME."""
    control.call("DELETE", f"snapshots/{_quoted(name)}")
    click.echo(f"snapshot {name} deleted")


@snapshot.command(epilog="Example: svc-emulator snapshot export before ./before.db")
@click.argument("name")
@click.argument("file", type=click.Path(path_type=Path))
@on_world
def export(control: Control, *, name: str, file: Path) -> None:
    """Write the snapshot NAME to FILE, a SQLite database.

    A FILE of - is standard output. Another server can import it, or be started on a copy of it with serve --db.
    """
    with _written(file) as stream:
        control.download(f"snapshots/{_quoted(name)}/file", stream)
    if str(file) != _STREAM:
        click.echo(f"snapshot {name} exported to {file} ({_size(file.stat().st_size)})")


@snapshot.command("import", epilog="Example: svc-emulator snapshot import before ./before.db")
@click.argument("name")
@click.argument("file", type=click.Path(path_type=Path))
@answered(_imported)
@on_world
def import_(control: Control, *, name: str, file: Path) -> Any:
    """Keep FILE as the snapshot NAME.

    FILE was exported, or is a stopped server's database; - is standard input. It takes the place of a snapshot
    of that name. The world itself changes when NAME is restored.
    """
    source = "standard input" if str(file) == _STREAM else str(file)
    with _read(file) as stream:
        content = iter(lambda: stream.read(_PIECE_BYTES), b"")
        return control.call(
            "PUT", f"snapshots/{_quoted(name)}/file", content=content, doing="importing", named={"body": source}
        )


@contextlib.contextmanager
def _read(file: Path) -> Iterator[BinaryIO]:
    """A stream to read the file from. Raises Failure."""
    if str(file) == _STREAM:
        yield sys.stdin.buffer
        return
    try:
        with file.open("rb") as stream:
            yield stream
    except OSError as error:
        raise Failure(f"{file}: {error.strerror or error}") from error


@contextlib.contextmanager
def _written(file: Path) -> Iterator[BinaryIO]:
    """A stream to write the file with; it takes its place when it is complete. Raises Failure."""
    if str(file) == _STREAM:
        yield sys.stdout.buffer
        return
    part = file.with_name(f".{file.name}.part")
    try:
        try:
            with part.open("wb") as stream:
                yield stream
            os.replace(part, file)
        finally:
            part.unlink(missing_ok=True)
    except OSError as error:
        raise Failure(f"{file}: {error.strerror or error}") from error


def _summary(found: Mapping[str, Any]) -> str:
    return f"at {found['created']}  {found['pending']} pending  {_size(found['size_bytes'])}"


def _size(size_bytes: int) -> str:
    kib = -(-size_bytes // 1024)
    return f"{kib} KiB" if kib < 10_000 else f"{kib // 1024} MiB"


def _quoted(name: str) -> str:
    return quote(name, safe="")
