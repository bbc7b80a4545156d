"""One call of the control API: who may make it, and what every handler gets."""

from __future__ import annotations

import hmac
import ipaddress
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import msgspec
from starlette.responses import Response

from emulator import resources
from emulator.api.endpoint import Request
from emulator.core.errors import Forbidden, InvalidInput, Unauthenticated
from emulator.wire.credentials import authorization_token
from emulator.wire.json_fields import Json
from emulator.wire.parts import RequestParts
from emulator.wire.urls import is_local_name
from emulator.worlds.registry import Worlds
from emulator.worlds.setup import DEFAULT, WorldSetup
from emulator.worlds.world import World

_CONTRACTS = resources.path("contracts")


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlOptions:
    """Who may call the control API, what a new world takes over from the server, and where the contracts are."""

    token: str | None
    allowed_hosts: Sequence[str]
    new_world: WorldSetup
    contracts: Path = _CONTRACTS


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A control call. `world` is found only when a handler asks for it."""

    request: Request
    worlds: Worlds
    options: ControlOptions

    @property
    def parts(self) -> RequestParts:
        return self.request.parts

    @property
    def world(self) -> World:
        """The world that the query names, `default` without one. Raises NotFound."""
        named = [value for name, value in self.parts.query if name == "world"]
        return self.worlds.get(named[-1] if named else DEFAULT)

    @property
    def name(self) -> str:
        return self.request.path_parameters["name"]

    @property
    def body(self) -> Json:
        """The JSON body, None without one. Raises InvalidInput."""
        if not self.parts.body:
            return None
        try:
            content: Json = msgspec.json.decode(self.parts.body)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise InvalidInput("body", f"expected JSON: {error}") from error
        except RecursionError:
            raise InvalidInput("body", "expected JSON: too many nested values") from None
        return content


Handler = Callable[[Call], Awaitable[Response]]


def check_caller(parts: RequestParts, options: ControlOptions) -> None:
    """Raises Forbidden for what a web page may have sent, Unauthenticated without the server's control token."""
    _check_origin(parts, options.allowed_hosts)
    if options.token is not None:
        given = authorization_token(parts) or ""
        if not given:
            raise Unauthenticated("the control API needs its bearer token (--control-token)")
        if not hmac.compare_digest(given.encode(), options.token.encode()):
            raise Unauthenticated("the control API has another bearer token than the one given (--control-token)")


def _check_origin(parts: RequestParts, allowed_hosts: Sequence[str]) -> None:
    """A web page must not drive a developer's emulator: neither by its origin nor by a name it controls.

    Raises Forbidden. Source: decision D-150.
    """
    host = parts.header("host") or parts.header(":authority") or ""
    if host and not _is_own_name(_host_name(f"//{host}"), allowed_hosts):
        raise Forbidden(f"the control API is not served to the host {host!r} (--allow-control-host)")
    origin = parts.header("origin")
    if origin is not None and _authority(origin) != host:
        raise Forbidden(f"the control API is not served to pages of {origin!r}")


def _authority(origin: str) -> str | None:
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return None


def _host_name(url: str) -> str:
    try:
        return (urlsplit(url).hostname or "").rstrip(".")
    except ValueError:
        return ""


def _is_own_name(name: str, allowed_hosts: Sequence[str]) -> bool:
    """Addresses, and names that no public page can have: a web page's own name is none of them."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return is_local_name(name) or name in {host.lower() for host in allowed_hosts}
    return True
