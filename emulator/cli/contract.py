"""`svc-emulator contract`: the OpenAPI description of every API."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from emulator.cli.control import DEFAULT_URL
from emulator.cli.options import Url, read_dialect, settings_options
from emulator.cli.output import CommandFailed, WrongUsage, columns, counted, print_json, print_lines
from emulator.contract import files
from emulator.contract.diff import Difference, Side, common_paths, compare
from emulator.contract.document import Api
from emulator.contract.files import ALL, DocumentFormat, read_apis
from emulator.server.logs import printable
from emulator.wire.dialect import Dialect
from emulator.wire.json_reader import JsonObject

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
    type=click.Choice(list(DocumentFormat), case_sensitive=False),
    default=DocumentFormat.YAML,
    help="How it is written. Default: yaml.",
)
@settings_options("dialect")
@click.option(
    "--url", type=Url(), default=DEFAULT_URL, show_default=True, help="Address of the server that it describes."
)
@click.pass_context
def contract(context: click.Context, *, api: str, form: str, dialect: str, url: str) -> None:
    """Print the OpenAPI description of the APIs.

    It is in a dialect's names. No server has to run.
    """
    if context.invoked_subcommand is not None:
        for parameter in context.command.params:
            if context.get_parameter_source(str(parameter.name)) is click.core.ParameterSource.COMMANDLINE:
                raise click.UsageError(f"{parameter.opts[0]} goes behind {context.invoked_subcommand}", context)
        return
    with _unreadable_is_a_failure():
        document = files.document(read_apis(api), read_dialect(dialect), url)
    text = files.written(document, DocumentFormat(form))
    # In UTF-8, as others read it, unless a person does.
    click.echo(text if sys.stdout.isatty() else text.encode(), nl=False)


@contextlib.contextmanager
def _unreadable_is_a_failure() -> Iterator[None]:
    try:
        yield
    except files.UnreadableContract as error:
        raise CommandFailed(str(error), next="again with a file that is an OpenAPI document") from error


# -- diff -------------------------------------------------------------------------------------


@contract.command(epilog="Example: svc-emulator contract diff ./their-openapi.yaml --api messaging")
@click.argument("other", type=click.Path(path_type=Path), metavar="OTHER")
@click.option(
    "--api",
    type=click.Choice([*Api, ALL], case_sensitive=False),
    help="Compare with this API. Default: those that have a path in common with OTHER.",
)
@click.option(
    "--clients",
    type=click.Choice(["theirs", "ours", "both"], case_sensitive=False),
    default="both",
    show_default=True,
    help="Whose clients must not break: those written for OTHER, on the emulator; those tried on the emulator, "
    "where OTHER holds; or both.",
)
@settings_options("dialect")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object instead of a table.")
def diff(other: Path, *, api: str | None, clients: str, dialect: str, as_json: bool) -> None:
    """Compare an OpenAPI file with the emulator's contract.

    Both directions are compared: paths, methods, parameters, fields, what is required, types and enumerations.
    OTHER is compared in the names that it is written in, unless --dialect names others. Exit code 1 if a
    difference breaks a client, 0 if none does.
    """
    try:
        theirs = files.read(other)
    except files.UnreadableContract as error:
        raise WrongUsage(str(error)) from error
    names = _recognized(other, theirs, read_dialect(dialect))
    apis, ours = _ours(theirs, None if api is None else read_apis(api), names)
    found = compare(ours, theirs)
    sides = {Side(clients)} if clients in (*Side,) else set(Side)
    breaking = [each for each in found if each.breaks & sides]
    if as_json:
        print_json(
            {
                "other": str(other),
                "apis": list(apis),
                "dialect": names.name,
                "breaking": len(breaking),
                "differences": [
                    {
                        "operation": each.operation,
                        "what": each.what,
                        "theirs": each.theirs,
                        "ours": each.ours,
                        "breaks": sorted(each.breaks),
                        "breaking": bool(each.breaks & sides),
                    }
                    for each in found
                ],
            }
        )
    else:
        _show_table(found, breaking)
    if breaking:
        raise click.exceptions.Exit(1)


def _recognized(other: Path, theirs: JsonObject, expected: Dialect) -> Dialect:
    """The dialect to compare in, which is said if nobody asked for it (D-295)."""
    with _unreadable_is_a_failure():
        found = files.dialect_of(theirs, expected)
    if found.header_prefix == expected.header_prefix:
        return expected
    source = click.get_current_context().get_parameter_source("dialect")
    is_chosen = source is click.core.ParameterSource.COMMANDLINE
    does = f"is compared in those of {expected.name}, as --dialect says" if is_chosen else "is compared in them"
    written_in = f"has the names of the dialect {found.name} ({found.header_prefix}*)"
    click.echo(f"svc-emulator: {other} {written_in} and {does}", err=True)
    return expected if is_chosen else found


def _ours(theirs: JsonObject, apis: tuple[Api, ...] | None, dialect: Dialect) -> tuple[tuple[Api, ...], JsonObject]:
    """The contract to compare with, and of which APIs it is."""
    with _unreadable_is_a_failure():
        if apis is None:
            documents = files.documents(tuple(Api), dialect)
            shared = tuple(each for each, document in documents.items() if common_paths(document, theirs))
            apis = shared or tuple(documents)
        return apis, files.document(apis, dialect, DEFAULT_URL)


def _show_table(found: Sequence[Difference], breaking: Sequence[Difference]) -> None:
    """A table on a terminal, aligned columns elsewhere; one row for all operations with the same difference."""
    operations: dict[tuple[str, str, str, str], list[str]] = {}
    for each in found:
        key = (each.what, each.theirs, each.ours, " and ".join(sorted(each.breaks)) or "nobody")
        operations.setdefault(key, []).append(each.operation)
    head = ("operation", "difference", "theirs", "ours", "breaks clients of")
    rows = [
        (names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more", *key)
        for key, names in operations.items()
    ]
    if rows and sys.stdout.isatty():
        _show_rich(head, rows)
    elif rows:
        print_lines(columns([head, *rows]))
    click.echo(f"{counted(len(found), 'difference')}, {len(breaking)} breaking" if found else "no difference")


def _show_rich(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(*head)
    for row in rows:
        style = "" if row[-1] == "nobody" else "red"
        # As Text, because a document's words are not mark-up.
        table.add_row(
            *(Text(printable(cell), style=style if number == len(row) - 1 else "") for number, cell in enumerate(row))
        )
    Console().print(table)
