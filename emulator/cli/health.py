"""`svc-emulator health`: whether the server answers that is named, or that `serve` starts here."""

from __future__ import annotations

import contextlib
import json
import ssl
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any
from urllib.parse import urlsplit

import click

from emulator.cli.options import Duration, Url, ca_option, read_settings, settings_options
from emulator.cli.output import ANOTHER_ADDRESS, START, CommandFailed, WrongUsage, progress
from emulator.server.logs import printable
from emulator.server.serving import local_url
from emulator.server.settings import PREFIX, SettingsError

# Below the usual timeout of a container's health check.
_PATIENCE_S = 2.0
# Between two questions of one that waits.
_BETWEEN_S = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class _Server:
    """The server to ask. One that was named is trusted by `ca`, or by the system's authorities without it."""

    url: str
    token: str
    is_named: bool
    ca: str | None


@click.command(epilog="Example: svc-emulator health --wait 30s")
@settings_options("host", "port", "tls_cert", "tls_key", "control_token", "control_token_file")
@click.option(
    "--url",
    type=Url(),
    envvar=f"{PREFIX}URL",
    show_envvar=True,
    help="Address of the server. Default: where a server with these settings is.",
)
@ca_option
@click.option("--wait", type=Duration(), metavar="DURATION", help="Ask again until it is well, for so long at most.")
@click.option("--json", "as_json", is_flag=True, help="Print what the server answers.")
def health(*, url: str | None, ca: str | None, wait: int | None, as_json: bool, **values: Any) -> None:
    """Ask the server whether it is well.

    It is the server at --url, or else what `serve` starts with the same options, variables and emulator.toml,
    which makes this the health check of a container. Exit code 0 if it serves, 1 if it does not answer or a world
    needs help. A world whose disk is full continues by itself: it is named, and the exit code stays 0.
    """
    server = _server(url, ca, values)
    ask = partial(_ask, server)
    with progress(f"waiting for {server.url}"):
        text = ask() if wait is None else ask_until(ask, wait / 1000)
    click.echo(text if as_json else _in_words(json.loads(text)))


def _in_words(answer: Mapping[str, Any]) -> str:
    """What is printed of a server that serves: `ok`, or each world that waits for room on the disk; what is held."""
    lines = [
        f"{answer['status']}: world {each['id']}: {each['error']}; it continues by itself once the disk has room"
        for each in answer.get("problems", ())
    ]
    held = [
        printable(f"{destination['why']} (world {world['id']})")
        for world in answer.get("held", ())
        for destination in world["held"]
    ]
    return "\n".join([*(lines or ["ok"]), *held])


def _server(url: str | None, ca: str | None, values: Mapping[str, Any]) -> _Server:
    """The server that is named, or else the one of the settings (D-461). Raises WrongUsage.

    A port or a host of the command line goes before a variable with an address. A token of the file is for the
    server of the file alone.
    """
    source = click.get_current_context().get_parameter_source
    by_hand = {name for name in (*values, "url") if source(name) is click.core.ParameterSource.COMMANDLINE}
    if "url" not in by_hand and by_hand & {"host", "port"}:
        url = None
    if url is not None:
        in_file = [name for name in values if source(name) is click.core.ParameterSource.DEFAULT_MAP]
        values = {name: value for name, value in values.items() if name not in in_file}
    settings = read_settings(**values)
    try:
        token = settings.read_control_token()
        if url is not None:
            return _Server(url=url, token=token, is_named=True, ca=ca)
        if settings.port == 0:
            raise WrongUsage("port: expected the server's own, 0 names none")
        url = local_url(settings.scheme, settings.host, settings.port)
        return _Server(url=url, token=token, is_named=False, ca=None)
    except SettingsError as error:
        raise WrongUsage(str(error)) from error


def ask_until(
    ask: Callable[[], str],
    patience_s: float,
    *,
    clock: Callable[[], float] = time.monotonic,
    pause: Callable[[float], None] = time.sleep,
) -> str:
    """What `ask` answers as soon as it does. Raises the last CommandFailed when so many seconds have passed."""
    end = clock() + patience_s
    while True:
        try:
            return ask()
        except CommandFailed as failure:
            if clock() + _BETWEEN_S > end:
                raise CommandFailed(f"{failure.message}; waited for {patience_s:g} s", next=failure.next) from failure
        pause(_BETWEEN_S)


def _ask(server: _Server) -> str:
    """What a server that is well says. Raises CommandFailed."""
    try:
        status, text = _answer(server)
    except ssl.SSLCertVerificationError as error:
        reason = error.verify_message.removesuffix(".")
        text = f"{server.url}: its certificate is not trusted: {reason} (--ca FILE)"
        raise CommandFailed(text, next="again with --ca FILE") from error
    except (OSError, HTTPException) as error:
        said = error.strerror if isinstance(error, OSError) else None
        raise CommandFailed(f"no server answers at {server.url}: {said or error}", next=START) from error
    if status == HTTPStatus.SERVICE_UNAVAILABLE:
        advice = "read the server's log; svc-emulator db check FILE looks at its database"
        raise CommandFailed(f"the server at {server.url} is not well: {text}", next=advice)
    if status == HTTPStatus.UNAUTHORIZED:
        text = f"the server at {server.url} answers 401 (--control-token)"
        raise CommandFailed(text, next="again with --control-token TOKEN")
    if status != 200 or not _is_emulators(text):
        text = f"{server.url} is not an emulator: it answered {status}, but not as one does"
        raise CommandFailed(text, next=ANOTHER_ADDRESS)
    return text


def _is_emulators(text: str) -> bool:
    """Whether a health answer is that of an emulator, and not of another program with the same port."""
    try:
        answer = json.loads(text)
    except ValueError:
        return False
    return isinstance(answer, dict) and {"status", "version", "worlds"} <= answer.keys()


def _trusting(server: _Server) -> ssl.SSLContext:
    if server.is_named and server.ca is not None:
        from emulator.client.control import trusted

        return trusted(server.ca)
    context = ssl.create_default_context()
    if not server.is_named:
        # Only asks whether the server runs, over loopback.
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _answer(server: _Server) -> tuple[int, str]:
    """The status of the health operation, and what it says. Raises OSError, HTTPException."""
    address = urlsplit(server.url)
    host = address.hostname or ""
    if address.scheme == "https":
        context = _trusting(server)
        connection: HTTPConnection = HTTPSConnection(host, address.port, timeout=_PATIENCE_S, context=context)
    else:
        connection = HTTPConnection(host, address.port, timeout=_PATIENCE_S)
    headers = {"Authorization": f"Bearer {server.token}"} if server.token else {}
    with contextlib.closing(connection):
        connection.request("GET", f"{address.path}/_emulator/health", headers=headers)
        response = connection.getresponse()
        return response.status, response.read().decode("utf-8", "replace")
