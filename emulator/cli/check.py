"""`svc-emulator check`, `db check` and `fixtures check`: whether a receiver, a database or a fixtures file is right."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import click

from emulator.cli.options import Duration, read_dialect, read_settings, settings_options
from emulator.cli.output import (
    CommandFailed,
    WrongUsage,
    counted,
    look_again_at_fixtures,
    print_json,
    print_lines,
    print_next,
    progress,
)
from emulator.conformance.reports import NONE, PROFILES, Receiver, Verdict, json_object, text_lines
from emulator.conformance.reports import junit_xml as junit_text
from emulator.core.language.text import excerpt
from emulator.core.model.options import Method
from emulator.core.record import Headers
from emulator.server.logs import printable
from emulator.wire.dialect import Dialect
from emulator.wire.urls import read_target

_COLOURS = {Verdict.PASSED: "green", Verdict.FAILED: "red", Verdict.TOLERATED: "yellow", Verdict.NOT_JUDGED: "cyan"}


# A header's name (RFC 9110), and what of a value every server reads alike.
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile(r"[\t -~]*")


def _read_url(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    if value is not None and (read_target(value) is None or not value.isprintable()):
        raise click.BadParameter(
            f"expected a URL such as http://localhost:3000/jobs, got {value!r}", context, parameter
        )
    return value


@click.command(epilog='Example: svc-emulator check http://localhost:3000/jobs --body \'{"email": "a@example.com"}\'')
@click.argument("url", callback=_read_url)
@click.option(
    "--effect-url",
    callback=_read_url,
    metavar="URL",
    help="Its body is a state to compare before and after: effects and idempotency are judged by it. A number, a "
    "list or JSON of these lets effects be counted.",
)
@click.option(
    "--effect-delay",
    type=Duration(),
    default="0s",
    show_default=True,
    metavar="DURATION",
    help="How long the endpoint may work after its answer: wait so long before each look at --effect-url.",
)
@click.option("--body", default="{}", show_default=True, help="A body that the endpoint accepts; @FILE reads one.")
@click.option(
    "--header", "headers", multiple=True, metavar="'NAME: VALUE'", help="A header to send along; may be repeated."
)
@click.option(
    "--method",
    type=click.Choice(list(Method), case_sensitive=False),
    default=Method.POST,
    help="The method that messages are published with. Default: post.",
)
@click.option(
    "--timeout",
    type=Duration(),
    default="10s",
    show_default=True,
    metavar="DURATION",
    help="How long each request may take. Half of it is what a good delivery should take at most.",
)
@click.option("--callbacks", is_flag=True, help="The endpoint takes callbacks and failure callbacks as well.")
@click.option(
    "--profile",
    type=click.Choice(list(PROFILES)),
    default=NONE,
    show_default=True,
    help="The client that it verifies with: its known tolerances are named, and are no failures.",
)
@click.option("--current-signing-key", metavar="KEY", help="Default: the variable that `svc-emulator env` prints.")
@click.option("--next-signing-key", metavar="KEY", help="Default: as above, or the published key of the dialect.")
@settings_options("dialect")
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
@click.option(
    "--junit-xml",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write the report as JUnit XML as well.",
)
def check(
    *,
    url: str,
    effect_url: str | None,
    effect_delay: int,
    body: str,
    headers: tuple[str, ...],
    method: Method,
    timeout: int,
    callbacks: bool,
    profile: str,
    current_signing_key: str | None,
    next_signing_key: str | None,
    dialect: str,
    as_json: bool,
    junit_xml: Path | None,
) -> None:
    """Check the receiver at URL, and show how to repair it.

    It gets good deliveries and bad ones. No server has to run. At most 37 requests are sent to URL, nearly all
    of them one after the other, each of at most --timeout; a quick endpoint is done in about two seconds. The
    deliveries are real to the endpoint: it does its work for the good ones. Exit code 0 if no check failed, 1
    otherwise; a check that is not judged is no failure.
    """
    import asyncio

    from emulator.conformance.battery import check as check_receiver
    from emulator.conformance.sending import EffectUnreadable, read_url

    names = read_dialect(dialect)
    current, following = _keys(names, current_signing_key, next_signing_key)
    receiver = Receiver(
        url=url,
        current_signing_key=current,
        next_signing_key=following,
        header_prefix=names.header_prefix,
        issuer=names.issuer,
        user_agent=names.user_agent,
        method=Method(method),
        headers=_headers(headers),
        body=_body(body),
        timeout_ms=timeout,
        effect_delay_ms=effect_delay,
        takes_callbacks=callbacks,
    )
    effect = None if effect_url is None else read_url(effect_url)
    with progress(f"checking {url}"):
        try:
            report = asyncio.run(check_receiver(receiver, effect=effect, profile=profile))
        except EffectUnreadable as error:
            raise CommandFailed(str(error)) from error
    if junit_xml is not None:
        _write(junit_xml, junit_text(report))
    if as_json:
        print_json(json_object(report))
    else:
        print_lines(text_lines(report, lambda verdict, text: click.style(text, fg=_COLOURS[verdict])))
    if not report.passed:
        raise click.exceptions.Exit(1)


def _keys(names: Dialect, current: str | None, following: str | None) -> tuple[str, str]:
    """The signing keys: given, of the variables that receivers read, or of the dialect. Raises WrongUsage."""
    variables, published = names.environment, names.credentials
    current = current or os.environ.get(variables.current_signing_key)
    following = following or os.environ.get(variables.next_signing_key)
    if published is not None:
        current, following = current or published.current_signing_key, following or published.next_signing_key
    if not current or not following:
        raise WrongUsage(
            f"expected the endpoint's signing keys: {variables.current_signing_key} and {variables.next_signing_key} "
            "(svc-emulator env prints those of a server), or --current-signing-key and --next-signing-key"
        )
    return current, following


def _headers(given: tuple[str, ...]) -> Headers:
    """Raises WrongUsage."""
    headers = []
    for text in given:
        name, colon, value = text.partition(":")
        if not colon or not _NAME.fullmatch(name.strip()) or not _VALUE.fullmatch(value.strip()):
            raise WrongUsage(f"--header: expected NAME: VALUE in ASCII, got {excerpt(text)}")
        headers.append((name.strip(), value.strip()))
    if not any(name.lower() == "content-type" for name, _ in headers):
        headers.append(("Content-Type", "application/json"))
    return tuple(headers)


def _body(given: str) -> bytes:
    """Raises WrongUsage."""
    if not given.startswith("@"):
        return given.encode("utf-8", "surrogateescape")
    try:
        return Path(given[1:]).read_bytes()
    except OSError as error:
        raise WrongUsage(f"--body: {given[1:]} cannot be read: {error.strerror}") from error


def _write(file: Path, content: bytes) -> None:
    """Raises CommandFailed."""
    try:
        file.write_bytes(content)
    except OSError as error:
        raise CommandFailed(f"{file} cannot be written: {error.strerror}") from error


@click.group(epilog="Example: svc-emulator db check ./state.db")
def db() -> None:
    """Look at the databases of `serve --db`."""


@db.command("check", epilog="Example: svc-emulator db check ./state.db")
@click.argument("file", type=click.Path(path_type=Path))
def check_database(*, file: Path) -> None:
    """Check the database FILE, and list all that is damaged.

    SQLite checks it from its beginning to its end (integrity_check), and so the databases of its other worlds and
    their snapshots, which lie beside it. Nothing is changed. SQLite does not notice a changed byte inside a value.
    Exit code 0 if everything is whole, 1 if something is damaged, or a server uses the file.
    """
    from emulator.journal.files import UnusableDatabase, examine

    damaged = 0
    for path in _all_of(file):
        try:
            with progress(f"reading {path}"):
                found = examine(path)
        except UnusableDatabase as error:
            # The file's own name is in front already.
            raise CommandFailed(str(error), next="again with the file that serve --db names") from error
        for line in found.damage:
            click.echo(f"{path}: damaged: {line}")
        if not found.damage:
            entries = f"{found.entries} {'entry' if found.entries == 1 else 'entries'} of history"
            click.echo(f"{path}: whole: {counted(found.messages, 'message')} and {entries}")
        damaged += bool(found.damage)
    if damaged:
        raise CommandFailed(
            f"{damaged} damaged; a snapshot that is whole can be served instead: serve --db SNAPSHOT",
            next="svc-emulator serve --db SNAPSHOT, with a file that is whole",
        )


def _all_of(file: Path) -> Iterator[Path]:
    """A database, those of the other worlds, and all snapshots."""
    from emulator.journal.files import found_in

    yield file
    yield from sorted(found_in(file.with_name(f"{file.name}-worlds"), "[!.]*.db"))
    yield from sorted(found_in(file.with_name(f"{file.name}-snapshots"), "[!.]*/[!.]*.db"))


@click.group(epilog="Example: svc-emulator fixtures check ./fixtures.yaml")
def fixtures() -> None:
    """Look at files for --fixtures."""


@fixtures.command("check", epilog="Example: svc-emulator fixtures check ./fixtures.yaml")
@click.argument("file", type=click.Path(path_type=Path))
@settings_options("dialect", "plan", "seed")
def check_fixtures(file: Path, *, dialect: str, plan: str, seed: int) -> None:
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
        print_next(f"mend that, then {look_again_at_fixtures(str(file))}")
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
