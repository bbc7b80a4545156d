"""`svc-emulator health`: whether the server answers that `serve` starts here."""

from __future__ import annotations

import contextlib
import ssl
import time
from collections.abc import Callable
from functools import partial
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any

import click

from emulator.cli.failures import Failure, WrongUsage
from emulator.cli.options import Duration, read_settings, settings_options
from emulator.server.serving import local_host
from emulator.server.settings import Settings, SettingsError

# Below the usual timeout of a container's health check.
_PATIENCE_S = 2.0
# Between two questions of one that waits.
_BETWEEN_S = 0.1


@click.command(epilog="Example: svc-emulator health --wait 30s")
@settings_options("host", "port", "tls_cert", "tls_key", "control_token", "control_token_file")
@click.option("--wait", type=Duration(), metavar="DURATION", help="Ask again until it is well, for so long at most.")
@click.option("--json", "as_json", is_flag=True, help="Print what the server answers.")
def health(*, wait: int | None, as_json: bool, **values: Any) -> None:
    """Ask the server that `serve` starts here whether it is well.

    It is found by the same options, variables and emulator.toml, which makes this the health check
    of a container. Exit code 0 if it is well, 1 if it does not answer.
    """
    settings = read_settings(**values)
    if settings.port == 0:
        raise WrongUsage("port: expected the server's own, 0 names none")
    try:
        scheme, token = settings.scheme, settings.read_control_token()
    except SettingsError as error:
        raise WrongUsage(str(error)) from error
    ask = partial(_ask, settings, scheme, token)
    text = ask() if wait is None else ask_until(ask, wait / 1000)
    click.echo(text if as_json else "ok")


def ask_until(
    ask: Callable[[], str],
    patience_s: float,
    *,
    clock: Callable[[], float] = time.monotonic,
    pause: Callable[[float], None] = time.sleep,
) -> str:
    """What `ask` answers as soon as it does. Raises the last Failure when so many seconds have passed."""
    end = clock() + patience_s
    while True:
        try:
            return ask()
        except Failure as failure:
            if clock() + _BETWEEN_S > end:
                raise Failure(f"{failure.message}; waited for {patience_s:g} s") from failure
        pause(_BETWEEN_S)


def _ask(settings: Settings, scheme: str, token: str) -> str:
    """What a server that is well says. Raises Failure."""
    name = f"{scheme}://{local_host(settings.host)} port {settings.port}"
    try:
        status, text = _answer(settings, scheme, token)
    except (OSError, HTTPException) as error:
        raise Failure(f"no server answers at {name}: {error}") from error
    if status == HTTPStatus.SERVICE_UNAVAILABLE:
        raise Failure(f"the server at {name} is not well: {text}")
    if status != 200:
        hint = " (--control-token)" if status == HTTPStatus.UNAUTHORIZED else ""
        raise Failure(f"the server at {name} answers {status}{hint}")
    return text


def _answer(settings: Settings, scheme: str, token: str) -> tuple[int, str]:
    """The status of the health operation, and what it says. Raises OSError, HTTPException."""
    host, port = local_host(settings.host), settings.port
    if scheme == "https":
        # Only asks whether the server runs, over loopback, so the certificate is not verified.
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        connection: HTTPConnection = HTTPSConnection(host, port, timeout=_PATIENCE_S, context=context)
    else:
        connection = HTTPConnection(host, port, timeout=_PATIENCE_S)
    with contextlib.closing(connection):
        connection.request("GET", "/_emulator/health", headers={"Authorization": f"Bearer {token}"} if token else {})
        response = connection.getresponse()
        return response.status, response.read().decode("utf-8", "replace")
