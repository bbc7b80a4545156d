"""`svc-emulator env`: the variables that clients need."""

from __future__ import annotations

import click
from msgspec import structs

from emulator.cli.control import Control, NoServer, on_world
from emulator.cli.failures import Failure, WrongUsage
from emulator.cli.options import read_settings, settings_options
from emulator.cli.variables import Format, variables_of, written
from emulator.server.settings import Settings, SettingsError
from emulator.wire.dialect import Environment


@click.command(epilog='Example: eval "$(svc-emulator env)"')
@click.option(
    "--format",
    "form",
    type=click.Choice(list(Format), case_sensitive=False),
    default=Format.SHELL,
    show_default=True,
    help="Lines for a shell to evaluate, lines of an .env file, or a JSON object.",
)
@settings_options("dialect", "fixtures", "seed")
@on_world
def env(control: Control, *, form: Format, dialect: str, fixtures: str, seed: int) -> None:
    """Print the variables of the server at --url.

    If none runs there, they are those that a server with --dialect, --fixtures and --seed will have:
    tokens and keys follow from the seed, unless the fixtures fix them.
    """
    try:
        values = _of_server(control)
    except NoServer as none:
        if control.world != "default":
            raise
        click.echo(f"svc-emulator: {none.message}; these are the variables of a default one", err=True)
        values = _of_settings(control.url, read_settings(dialect=dialect, fixtures=fixtures, seed=seed))
    click.echo(written(values, form))


def _of_server(control: Control) -> dict[str, str]:
    answer = control.call("GET", "credentials")
    names, queue = answer["environment"], answer["queue"]
    return Environment(**{entry.name: names[entry.name] for entry in structs.fields(Environment)}).variables(
        url=control.url,
        token=queue["token"],
        current_signing_key=queue["current_signing_key"],
        next_signing_key=queue["next_signing_key"],
    )


def _of_settings(url: str, settings: Settings) -> dict[str, str]:
    """What a server with these settings would say: one is made, in memory, and asked."""
    import asyncio

    from emulator.fixtures.files import FixturesError
    from emulator.server import bootstrap

    async def ask() -> dict[str, str]:
        emulation = await bootstrap.start(settings)
        try:
            return variables_of(emulation, url)
        finally:
            await emulation.close()

    try:
        return asyncio.run(ask())
    except SettingsError as error:
        raise WrongUsage(str(error)) from error
    except FixturesError as error:
        raise Failure(str(error)) from error
