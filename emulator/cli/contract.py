"""`svc-emulator contract`: the OpenAPI description of every API."""

from __future__ import annotations

import click

from emulator.cli.control import DEFAULT_URL
from emulator.cli.failures import Failure, WrongUsage
from emulator.cli.options import settings_options
from emulator.cli.values import Url
from emulator.wire.contract import ALL, Api, Format, read_apis
from emulator.wire.dialect import Dialect, DialectError

_api = click.option(
    "--api",
    type=click.Choice([*Api, ALL], case_sensitive=False),
    default=ALL,
    show_default=True,
    help="One of the APIs, or all of them in one document.",
)


@click.group(invoke_without_command=True, epilog="Example: svc-emulator contract --api messaging > openapi.yaml")
@_api
@click.option(
    "--format",
    "form",
    type=click.Choice(list(Format), case_sensitive=False),
    default=Format.YAML,
    show_default=True,
    help="How it is written.",
)
@settings_options("dialect")
@click.option(
    "--url", type=Url(), default=DEFAULT_URL, show_default=True, help="Address of the server that it describes."
)
@click.pass_context
def contract(context: click.Context, *, api: str, form: str, dialect: str, url: str) -> None:
    """Print the OpenAPI description of the APIs, in a dialect's names. No server has to run."""
    if context.invoked_subcommand is not None:
        return
    from emulator import contract_files

    try:
        document = contract_files.document(read_apis(api), _dialect(dialect), url)
    except contract_files.UnreadableContract as error:
        raise Failure(str(error)) from error
    click.echo(contract_files.written(document, Format(form)), nl=False)


def _dialect(name: str) -> Dialect:
    from emulator.wire import dialect

    try:
        return dialect.load(name)
    except DialectError as error:
        raise WrongUsage(f"dialect: {error}") from error
