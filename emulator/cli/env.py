"""`svc-emulator env`: the variables that clients need, as text to copy or to read by a program."""

from __future__ import annotations

from pathlib import Path

import click

from emulator.cli.control import Control, NoServer, on_world
from emulator.cli.options import read_settings, settings_options
from emulator.cli.output import Format, WrongUsage, failure_of_fixtures, written
from emulator.server.settings import Settings, SettingsError

_ON_COMMAND_LINE = click.core.ParameterSource.COMMANDLINE


@click.command(epilog='Example: eval "$(svc-emulator env)"')
@click.option(
    "--format",
    "form",
    type=click.Choice(list(Format), case_sensitive=False),
    default=Format.SHELL,
    help="Lines for sh, PowerShell or fish to evaluate, lines of an .env file, or a JSON object. Default: shell.",
)
@settings_options("dialect", "fixtures", "seed")
@on_world
def env(control: Control, *, form: Format, dialect: str, fixtures: str, seed: int) -> None:
    """Print the variables of the server at --url.

    If none runs there, they are those that a server with --dialect, --fixtures and --seed will have:
    tokens and keys follow from the seed, unless the fixtures fix them.
    """
    try:
        answer = control.call("GET", "credentials")
    except NoServer as none:
        if control.world != "default":
            raise
        _tell(f"{none.message}; these are the variables of a default one")
        values = _of_settings(control.url, read_settings(dialect=dialect, fixtures=fixtures, seed=seed))
    else:
        from emulator.client.records import read_env

        values = read_env(answer, control.url)
        _tell_what_is_not_applied(control.url, str(answer["dialect"]["name"]), dialect)
    click.echo(written(values, form))


def _tell_what_is_not_applied(url: str, spoken: str, dialect: str) -> None:
    """Options about a default server mean nothing to one that runs."""
    context = click.get_current_context()
    default = click.core.ParameterSource.DEFAULT
    if context.get_parameter_source("dialect") is not default and spoken != Path(dialect).stem:
        _tell(
            f"{url} speaks the dialect {spoken}, not {dialect}, and these are its variables "
            "(a dialect is chosen with the server: serve --dialect)"
        )
    # In the environment or the file they may be what the server itself was started with.
    given = [name for name in ("fixtures", "seed") if context.get_parameter_source(name) is _ON_COMMAND_LINE]
    if given:
        names = " and ".join(f"--{name}" for name in given)
        _tell(f"{url} runs already, so {names} {'is' if len(given) == 1 else 'are'} not applied")


def _tell(text: str) -> None:
    click.echo(f"svc-emulator: {text}", err=True)


def _of_settings(url: str, settings: Settings) -> dict[str, str]:
    """The variables of a server with these settings: one is made, in memory, and asked."""
    import asyncio

    from emulator.fixtures.files import FixturesError
    from emulator.server import bootstrap

    async def ask() -> dict[str, str]:
        emulation = await bootstrap.start(settings)
        try:
            return emulation.variables(url)
        finally:
            await emulation.close()

    try:
        return asyncio.run(ask())
    except SettingsError as error:
        raise WrongUsage(str(error)) from error
    except FixturesError as error:
        raise failure_of_fixtures(error.problems, settings.fixtures) from error
