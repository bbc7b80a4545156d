"""What the control API needs to know of its server.

Above all who may call it: programs with the control token, and no web page but the emulator's own (D-150).
"""

from __future__ import annotations

import hmac
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from emulator import resources
from emulator.core.errors import Forbidden, Unauthenticated
from emulator.wire.credentials import authorization_token
from emulator.wire.parts import RequestParts
from emulator.wire.urls import is_local_name

_CONTRACTS = resources.path("contracts")


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlOptions:
    """`token` is what every call must carry, None if none is needed; `allowed_hosts` are further host names.

    `contracts` is the folder of the documents that the server shows.
    """

    token: str | None
    allowed_hosts: Sequence[str]
    contracts: Path = _CONTRACTS

    def check_token(self, parts: RequestParts) -> None:
        """Raises Unauthenticated without the server's control token."""
        if self.token is not None:
            given = authorization_token(parts) or ""
            if not given:
                raise Unauthenticated("the control API needs its bearer token (--control-token)")
            if not hmac.compare_digest(given.encode(), self.token.encode()):
                raise Unauthenticated("the control API has another bearer token than the one given (--control-token)")

    def check_sender(self, parts: RequestParts) -> None:
        """A web page must not drive a developer's emulator: neither by its origin nor by a name it controls.

        Raises Forbidden for what one may have sent.
        """
        host = parts.header("host") or parts.header(":authority") or ""
        if host and not self._is_own_name(_host_name(f"//{host}")):
            raise Forbidden(f"the control API is not served to the host {host!r} (--allow-control-host)")
        http_origin = parts.header("origin")
        if http_origin is not None and _authority(http_origin) != host:
            raise Forbidden(f"the control API is not served to pages of {http_origin!r}")

    def _is_own_name(self, name: str) -> bool:
        """An address, or a name that no public web page can have."""
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return is_local_name(name) or name in {host.lower() for host in self.allowed_hosts}
        return True


def _authority(http_origin: str) -> str | None:
    try:
        return urlsplit(http_origin).netloc
    except ValueError:
        return None


def _host_name(url: str) -> str:
    try:
        return (urlsplit(url).hostname or "").rstrip(".")
    except ValueError:
        return ""
