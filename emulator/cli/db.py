"""`svc-emulator db`: databases that no server uses at the moment."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

from emulator.cli.failures import Failure
from emulator.cli.output import counted, progress


@click.group(epilog="Example: svc-emulator db check ./state.db")
def db() -> None:
    """Look at the databases of `serve --db`."""


@db.command(epilog="Example: svc-emulator db check ./state.db")
@click.argument("file", type=click.Path(path_type=Path))
def check(*, file: Path) -> None:
    """Read the database FILE, and tell all that is damaged.

    It is read from its beginning to its end, and so are the databases of its other worlds and their snapshots,
    which lie beside it. Nothing is changed. A start checks only what it needs; what is read of history is
    checked when it is read. Exit code 0 if everything is whole, 1 if something is damaged, or a server uses the
    file.
    """
    from emulator.journal.examination import examine
    from emulator.journal.files import UnusableDatabase

    damaged = 0
    for path in _all_of(file):
        try:
            with progress(f"reading {path}"):
                found = examine(path)
        except UnusableDatabase as error:
            # The file's own name is in front already.
            raise Failure(str(error)) from error
        for line in found.damage:
            click.echo(f"{path}: damaged: {line}")
        if not found.damage:
            entries = f"{found.entries} {'entry' if found.entries == 1 else 'entries'} of history"
            click.echo(f"{path}: whole: {counted(found.messages, 'message')} and {entries}")
        damaged += bool(found.damage)
    if damaged:
        raise Failure(f"{damaged} damaged; a snapshot that is whole can be served instead: serve --db SNAPSHOT")


def _all_of(file: Path) -> Iterator[Path]:
    """A database, those of the other worlds, and all snapshots."""
    from emulator.journal.files import found_in

    yield file
    yield from sorted(found_in(file.with_name(f"{file.name}-worlds"), "[!.]*.db"))
    yield from sorted(found_in(file.with_name(f"{file.name}-snapshots"), "*/[!.]*.db"))
