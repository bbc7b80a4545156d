"""`svc-emulator worlds`, `reset` and `snapshot`: the worlds of a running server, and saved ones."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import quote

import click

from emulator.cli.control import Control, on_server, on_world, shown
from emulator.cli.options import Instant, Rate
from emulator.cli.output import CommandFailed, answered, columns, status_text


@click.group(epilog="Example: svc-emulator worlds create --epoch 2026-01-01")
def worlds() -> None:
    """List, create, fork and delete the worlds of a server."""


def _table(answer: Mapping[str, Any]) -> Iterator[str]:
    clocks = {world["id"]: world["clock"] for world in answer["worlds"]}
    return columns([(id, f"{status_text(clock)}  {clock['pending']} pending") for id, clock in clocks.items()])


def _created(world: Mapping[str, Any]) -> Iterator[str]:
    url = click.get_current_context().params["url"]
    yield f"world {world['id']} created: clock {status_text(world['clock'])}"
    yield f"token: {world['credentials']['queue']['token']}"
    yield f"variables: svc-emulator env --url {url} --world {world['id']}"


@worlds.command("list", epilog="Example: svc-emulator worlds list")
@answered(_table)
@on_server
def list_(control: Control) -> Any:
    """List the worlds with their clocks."""
    return control.call("GET", "worlds")


@worlds.command(epilog="Example: svc-emulator worlds create team-a --seed 7 --epoch 2026-01-01T00:00:00Z")
@click.argument("id", required=False)
@click.option("--seed", type=int, help="Seeds every random choice. Default: the server's.")
@click.option("--epoch", type=Instant(), help="First instant of its clock, ISO 8601. Default: now.")
@click.option("--rate", type=Rate(), help="How fast its clock goes. Default: frozen.")
@click.option("--plan", type=click.Choice(("free", "paid")), help="Plan of its account. Default: the server's.")
@click.option("--token", help="Token of its account, 8 characters or more. Default: one that follows from the seed.")
@click.option("--chaos", type=click.FloatRange(0, 1), help="How much goes wrong, from 0 to 1. Default: the server's.")
@answered(_created)
@on_server
def create(control: Control, /, **wanted: Any) -> Any:
    """Create a world, named ID or by the server. Its clock is frozen unless --rate says otherwise."""
    return control.call("POST", "worlds", {name: value for name, value in wanted.items() if value is not None})


@worlds.command(epilog="Example: svc-emulator worlds fork what-if --world team-a")
@click.argument("id", required=False)
@click.option("--token", help="Token of its account, 8 characters or more. Default: one that follows from the seed.")
@shown(_created)
def fork(control: Control, /, **wanted: Any) -> Any:
    """Make a second world that continues from where --world is.

    It is named ID, or by the server. It has the same state, pending work, history and clock, and tokens of its own.
    """
    given = {name: value for name, value in wanted.items() if value is not None}
    return control.call("POST", f"worlds/{quote(control.world, safe='')}/fork", given)


@worlds.command(epilog="Example: svc-emulator worlds delete team-a")
@click.argument("id")
@answered(lambda found: [f"world {found['id']} deleted"])
@on_server
def delete(control: Control, *, id: str) -> Any:
    """Delete the world ID with everything in it."""
    control.call("DELETE", f"worlds/{quote(id, safe='')}")
    return {"id": id, "deleted": True}


@click.command(epilog="Example: svc-emulator reset --world team-a")
@shown(lambda world: [f"world {world['id']} reset: clock {status_text(world['clock'])}"])
def reset(control: Control) -> Any:
    """Make a world again as it was created.

    Credentials and seed are the same. Its clock is set to its epoch again, or, if none was given, to the present.
    """
    return control.call("POST", "reset")


_STREAM = "-"
_PIECE_BYTES = 1024 * 1024


@click.group(epilog="Example: svc-emulator snapshot save before")
def snapshot() -> None:
    """Save, restore, export and import whole worlds.

    A snapshot holds everything: clock, pending work, history, random source. What is done again
    after it was restored comes out the same again.
    """


def _restored(world: Mapping[str, Any]) -> Iterator[str]:
    name, clock = click.get_current_context().params["name"], world["clock"]
    yield f"world {world['id']} restored from {name}: clock {status_text(clock)}, {clock['pending']} pending"


def _snapshot_table(answer: Mapping[str, Any]) -> Iterator[str]:
    found = answer["snapshots"]
    if not found:
        yield f"no snapshots of the world {click.get_current_context().params['world']}"
    yield from columns([(each["name"], _summary(each)) for each in found])


@snapshot.command(epilog="Example: svc-emulator snapshot save before --world team-a")
@click.argument("name")
@shown(lambda found: [f"snapshot {found['name']} saved: {_summary(found)}"])
def save(control: Control, *, name: str) -> Any:
    """Save the world as it is now, as NAME."""
    return control.call("POST", "snapshots", {"name": name}, doing="saving")


@snapshot.command(epilog="Example: svc-emulator snapshot restore before --world team-a")
@click.argument("name")
@shown(_restored)
def restore(control: Control, *, name: str) -> Any:
    """Put the world back to what it was when NAME was saved."""
    return control.call("POST", f"snapshots/{_quoted(name)}/restore", doing="restoring")


@snapshot.command("list", epilog="Example: svc-emulator snapshot list")
@shown(_snapshot_table)
def list_snapshots(control: Control) -> Any:
    """List the snapshots of the world."""
    return control.call("GET", "snapshots")


@snapshot.command("delete", epilog="Example: svc-emulator snapshot delete before")
@click.argument("name")
@shown(lambda found: [f"snapshot {found['name']} deleted"])
def delete_snapshot(control: Control, *, name: str) -> Any:
    """Delete the snapshot NAME."""
    control.call("DELETE", f"snapshots/{_quoted(name)}")
    return {"name": name, "deleted": True}


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
@shown(lambda found: [f"snapshot {found['name']} imported: {_summary(found)}"])
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
    """A stream to read the file from. Raises CommandFailed."""
    if str(file) == _STREAM:
        yield sys.stdin.buffer
        return
    with _failures_of(file), file.open("rb") as stream:
        yield stream


@contextlib.contextmanager
def _written(file: Path) -> Iterator[BinaryIO]:
    """A stream to write the file with; it takes its place when it is complete. Raises CommandFailed."""
    if str(file) == _STREAM:
        yield sys.stdout.buffer
        return
    part = file.with_name(f".{file.name}.part")
    with _failures_of(file):
        try:
            with part.open("wb") as stream:
                yield stream
            os.replace(part, file)
        finally:
            part.unlink(missing_ok=True)


@contextlib.contextmanager
def _failures_of(file: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise CommandFailed(f"{file}: {error.strerror or error}", next="again with another file") from error


def _summary(found: Mapping[str, Any]) -> str:
    return f"at {found['created']}  {found['pending']} pending  {_size(found['size_bytes'])}"


def _size(size_bytes: int) -> str:
    kib = -(-size_bytes // 1024)
    return f"{kib} KiB" if kib < 10_000 else f"{kib // 1024} MiB"


def _quoted(name: str) -> str:
    return quote(name, safe="")
