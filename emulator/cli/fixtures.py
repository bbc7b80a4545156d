"""`svc-emulator fixtures`: what is wrong in a fixtures file, before a server reads it."""

from __future__ import annotations

from pathlib import Path

import click

from emulator.cli.failures import WrongUsage
from emulator.cli.options import read_settings, settings_options
from emulator.server.terminals import printable


@click.group(epilog="Example: svc-emulator fixtures check ./fixtures.yaml")
def fixtures() -> None:
    """Look at files for --fixtures."""


@fixtures.command(epilog="Example: svc-emulator fixtures check ./fixtures.yaml")
@click.argument("file", type=click.Path(path_type=Path))
@settings_options("dialect", "plan", "seed")
def check(file: Path, *, dialect: str, plan: str, seed: int) -> None:
    """Say what is wrong in FILE, or what it holds.

    A world is made of it, with --plan as the plan of its first account, so that limits count too.
    Every problem is a line `file:line: field: reason`.
    """
    from emulator.fixtures.files import FixturesError
    from emulator.server import bootstrap
    from emulator.server.settings import SettingsError

    settings = read_settings(fixtures=str(file), dialect=dialect, plan=plan, seed=seed, epoch="2026-01-01")
    try:
        found = bootstrap.read_fixtures(settings)
    except SettingsError as error:
        raise WrongUsage(str(error)) from error
    except FixturesError as error:
        for problem in error.problems:
            click.echo(printable(problem), err=True)
        raise click.exceptions.Exit(1) from None
    counts = {
        "accounts": len(found.accounts) or 1,
        "search indexes": len(found.search_indexes),
        "vector indexes": len(found.vector_indexes),
        "team members": len(found.team),
        "URL groups": len(found.url_groups),
        "queues": len(found.queues),
        "schedules": len(found.schedules),
        "destination rules": len(found.rules),
    }
    click.echo(f"{file}: good: {', '.join(f'{name} {count}' for name, count in counts.items() if count)}")
