"""`svc-emulator check`: whether a receiver of deliveries is right."""

from __future__ import annotations

import os
import re
from pathlib import Path

import click

from emulator.cli.failures import Failure, WrongUsage
from emulator.cli.options import Duration, settings_options
from emulator.cli.output import print_json, print_lines, progress
from emulator.conformance.profiles import NONE, PROFILES
from emulator.conformance.records import Receiver, Verdict
from emulator.conformance.reports import ReceiverReport, json_object, text_lines
from emulator.conformance.reports import junit_xml as junit_text
from emulator.core.language.excerpts import excerpt
from emulator.core.model.names import Headers
from emulator.core.model.options import Method
from emulator.wire.dialect import Dialect, DialectError, load
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
    """Check the receiver at URL, and tell how to mend it.

    It gets good deliveries and bad ones. No server has to run. At most 31 requests are sent to URL, nearly all
    of them one after the other, each of at most --timeout; a quick endpoint is done in about two seconds. The
    deliveries are real to the endpoint: it does its work for the good ones. Exit code 0 if no check failed, 1
    otherwise; a check that is not judged is no failure.
    """
    names = _dialect(dialect)
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
    report = _report(receiver, effect_url, profile)
    if junit_xml is not None:
        _write(junit_xml, junit_text(report))
    if as_json:
        print_json(json_object(report))
    else:
        print_lines(text_lines(report, lambda verdict, text: click.style(text, fg=_COLOURS[verdict])))
    if not report.passed:
        raise click.exceptions.Exit(1)


def _report(receiver: Receiver, effect_url: str | None, profile: str) -> ReceiverReport:
    import asyncio

    from emulator.conformance.battery import check as check_receiver
    from emulator.conformance.effects import EffectUnreadable, read_url

    effect = None if effect_url is None else read_url(effect_url)
    with progress(f"checking {receiver.url}"):
        try:
            return asyncio.run(check_receiver(receiver, effect=effect, profile=profile))
        except EffectUnreadable as error:
            raise Failure(str(error)) from error


def _dialect(name: str) -> Dialect:
    try:
        return load(name)
    except DialectError as error:
        raise WrongUsage(f"dialect: {error}") from error


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
    """Raises Failure."""
    try:
        file.write_bytes(content)
    except OSError as error:
        raise Failure(f"{file} cannot be written: {error.strerror}") from error
