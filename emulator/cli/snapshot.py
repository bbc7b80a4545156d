"""`svc-emulator snapshot`: saved worlds of a running server."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import click

from emulator.cli.clock import status_text
from emulator.cli.control import Control, json_option, on_world, show_json
from emulator.cli.failures import Failure

_STREAM = "-"


@click.group(epilog="Example: svc-emulator snapshot save before")
def snapshot() -> None:
    """Save, restore, export and import whole worlds of a running server.

    A snapshot holds everything: clock, pending work, history, random source. What is done again
    after it was restored comes out the same again.
    """


@snapshot.command(epilog="Example: svc-emulator snapshot save before --world team-a")
@click.argument("name")
@json_option
@on_world
def save(control: Control, *, name: str, as_json: bool) -> None:
    """Save the world as it is now, as NAME."""
    _show(control.call("POST", "snapshots", {"name": name}, doing="saving"), "saved", as_json=as_json)


@snapshot.command(epilog="Example: svc-emulator snapshot restore before --world team-a")
@click.argument("name")
@json_option
@on_world
def restore(control: Control, *, name: str, as_json: bool) -> None:
    """Put the world back to what it was when NAME was saved."""
    world = control.call("POST", f"snapshots/{_quoted(name)}/restore", doing="restoring")
    if as_json:
        show_json(world)
        return
    clock = world["clock"]
    click.echo(f"world {world['id']} restored from {name}: clock {status_text(clock)}, {clock['pending']} pending")


@snapshot.command("list", epilog="Example: svc-emulator snapshot list")
@json_option
@on_world
def list_(control: Control, *, as_json: bool) -> None:
    """List the snapshots of the world."""
    answer = control.call("GET", "snapshots")
    if as_json:
        show_json(answer)
        return
    if not answer["snapshots"]:
        click.echo(f"no snapshots of the world {control.world}")
        return
    width = max(len(each["name"]) for each in answer["snapshots"])
    for each in answer["snapshots"]:
        click.echo(f"{each['name']:{width}}  {_summary(each)}")


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
    """Write the snapshot NAME to FILE, a SQLite database; - is standard output.

    Another server can import it, or be started on a copy of it with serve --db.
    """
    with _written(file) as stream:
        control.download(f"snapshots/{_quoted(name)}/file", stream)
    if str(file) != _STREAM:
        click.echo(f"snapshot {name} exported to {file} ({_size(file.stat().st_size)})")


@snapshot.command("import", epilog="Example: svc-emulator snapshot import before ./before.db")
@click.argument("name")
@click.argument("file", type=click.Path(path_type=Path))
@json_option
@on_world
def import_(control: Control, *, name: str, file: Path, as_json: bool) -> None:
    """Keep FILE, which was exported or is a stopped server's database, as NAME; - is standard input.

    It takes the place of a snapshot of that name. The world itself changes when NAME is restored.
    """
    try:
        content = sys.stdin.buffer.read() if str(file) == _STREAM else file.read_bytes()
    except OSError as error:
        raise Failure(f"{file}: {error.strerror or error}") from error
    _show(control.upload(f"snapshots/{_quoted(name)}/file", content, doing="importing"), "imported", as_json=as_json)


@contextlib.contextmanager
def _written(file: Path) -> Iterator[BinaryIO]:
    """A stream whose content is the file's once it is whole. Raises Failure."""
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


def _show(found: Mapping[str, Any], done: str, *, as_json: bool) -> None:
    if as_json:
        show_json(found)
    else:
        click.echo(f"snapshot {found['name']} {done}: {_summary(found)}")


def _summary(found: Mapping[str, Any]) -> str:
    return f"at {found['created']}  {found['pending']} pending  {_size(found['size_bytes'])}"


def _size(size_bytes: int) -> str:
    kib = -(-size_bytes // 1024)
    return f"{kib} KiB" if kib < 10_000 else f"{kib // 1024} MiB"


def _quoted(name: str) -> str:
    from urllib.parse import quote

    return quote(name, safe="")
