"""`svc-emulator health`: whether the server answers that `serve` starts here."""

from __future__ import annotations

import contextlib
import ssl
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any

import click

from emulator.cli.failures import Failure, WrongUsage
from emulator.cli.options import read_settings, settings_options
from emulator.server.serving import local_host
from emulator.server.settings import Settings, SettingsError

# Below the usual timeout of a container's health check.
_PATIENCE_S = 2.0


@click.command(epilog="Example: svc-emulator health --port 8080")
@settings_options("host", "port", "tls_cert", "tls_key", "control_token", "control_token_file")
def health(**values: Any) -> None:
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
    name = f"{scheme}://{local_host(settings.host)} port {settings.port}"
    try:
        status = _status(settings, scheme, token)
    except (OSError, HTTPException) as error:
        raise Failure(f"no server answers at {name}: {error}") from error
    if status != 200:
        hint = " (--control-token)" if status == HTTPStatus.UNAUTHORIZED else ""
        raise Failure(f"the server at {name} answers {status}{hint}")
    click.echo("ok")


def _status(settings: Settings, scheme: str, token: str) -> int:
    """The status of the health operation. Raises OSError, HTTPException."""
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
        return connection.getresponse().status
