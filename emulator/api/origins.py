"""Where a request may come from: programs, the emulator's own pages, and the pages that were allowed (D-150, D-270).

A browser sends requests to this machine for any page that asks it to, and the default token is
the same in every installation. So what a foreign page may have sent is refused whatever it carries.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from functools import lru_cache
from urllib.parse import urlsplit

from starlette.types import Scope

from emulator.core.errors import Forbidden
from emulator.core.record import Record
from emulator.wire.urls import is_local_name, origin_of

_FROM_A_PROGRAM = "call it from a program, or from the page that this server shows"
_OPENS_TO_HOSTS = (
    "--public-host opens the messaging and management APIs under a name such as a tunnel's, "
    "--allow-control-host all APIs"
)


class AllowedOrigins(Record):
    """Host names and web origins that were allowed, in the spelling of `host_name` and `origin_of`.

    `public_hosts` reach the messaging and management APIs alone, `control_hosts` every API.
    `origins` are those of pages that may call the messaging API. `own_pages_write` says whether pages of
    the called server itself may change anything.
    """

    control_hosts: tuple[str, ...] = ()
    public_hosts: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    own_pages_write: bool = True

    def check_host(self, host: str, *, is_control: bool) -> None:
        """Raises Forbidden for a `Host` that a foreign page can have, by DNS rebinding (D-150)."""
        name = host_name(host)
        if _is_own_name(name) or name in self.control_hosts:
            return
        if is_control:
            text = f"the control API is not served to the host {host!r} (--allow-control-host)"
            raise Forbidden(text, "svc-emulator serve --allow-control-host NAME")
        if name not in self.public_hosts:
            raise Forbidden(f"this server does not answer to the host {host!r} ({_OPENS_TO_HOSTS})")

    def check_page(self, headers: Mapping[str, str], *, takes_pages: bool, is_read: bool) -> str | None:
        """The allowed origin of the page that sent a request; None for a program or the emulator's own page.

        `takes_pages` says that the operation may be called by allowed pages, `is_read` that its method
        changes nothing. Raises Forbidden (D-150, D-271, D-321).
        """
        origin = headers.get("origin")
        if origin is not None and not _is_same(origin, headers.get("host", "")):
            if takes_pages and origin_of(origin) in self.origins:
                return origin
            raise Forbidden(_not_for_pages(f"pages of {origin!r}", takes_pages=takes_pages), _FROM_A_PROGRAM)
        if origin is None and headers.get("sec-fetch-site", "").strip().lower() == "cross-site":
            raise Forbidden(_not_for_pages("pages of other sites", takes_pages=takes_pages), _FROM_A_PROGRAM)
        if not (self.own_pages_write or is_read):
            # A page cannot leave out the headers by which its browser tells who sends.
            text = "the inspector is read-only here (--inspector read-only), so no page changes anything"
            raise Forbidden(text, "svc-emulator serve --inspector on")
        return None


def follows_link(headers: Mapping[str, str]) -> bool:
    """Whether a browser opens a page as a whole, wherever the link to it was: no script of the other site sees it."""
    return (
        "origin" not in headers
        and headers.get("sec-fetch-mode") == "navigate"
        and headers.get("sec-fetch-dest") == "document"
    )


def _not_for_pages(pages: str, *, takes_pages: bool) -> str:
    if takes_pages:
        return f"the messaging API is not served to {pages} (--allow-origin)"
    return f"this is not served to {pages}; --allow-origin opens the messaging API to pages, and nothing else"


def host_name(host: str) -> str:
    """The name or address in a `Host` header, in one spelling; empty if there is none."""
    return _known_host_name(host) if len(host) <= _LONGEST_KNOWN_HOST else _read_host_name(host)


def _read_host_name(host: str) -> str:
    try:
        return (urlsplit(f"//{host}").hostname or "").rstrip(".")
    except ValueError:
        return ""


# All calls of a client have the same. What is longer than a name and a port can be must not fill the memory.
_LONGEST_KNOWN_HOST = 300
_known_host_name = lru_cache(maxsize=256)(_read_host_name)


@lru_cache(maxsize=256)
def _is_own_name(name: str) -> bool:
    """An address, or a name that no public web page can have."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return is_local_name(name)
    return True


def _is_same(origin: str, host: str) -> bool:
    """Whether an origin is that of the host that is called. Behind a proxy the scheme may be another."""
    scheme, _, _ = origin.partition("://")
    found = origin_of(origin)
    return found is not None and found == origin_of(f"{scheme}://{host}")


# -- whose request it is, behind proxies that the user trusts (D-272) -------------------------

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class Proxies(Record):
    """The addresses whose `X-Forwarded-For` is believed. By default there are none."""

    networks: tuple[Network, ...] = ()

    def client_of(self, scope: Scope) -> tuple[str, int] | None:
        """Address and port of the client that an ASGI request came from.

        Each proxy adds the address it was called from at the end, so the last one that is no
        trusted proxy's is the client; what stands before it could be anybody's invention.
        """
        client: tuple[str, int] | None = scope.get("client")
        if not self.networks or client is None or not self._trusts(_address(client[0])):
            return client
        given = [value.decode("latin-1") for name, value in scope["headers"] if name.lower() == b"x-forwarded-for"]
        found: Address | None = None
        for text in reversed(",".join(given).split(",")):
            address = _address(text.strip())
            if address is None:
                break
            found = address
            if not self._trusts(address):
                break
        return client if found is None else (str(found), 0)

    def _trusts(self, address: Address | None) -> bool:
        return address is not None and any(address in network for network in self.networks)


def _address(text: str) -> Address | None:
    """An address as proxies write it, with a port or without. None if it is none."""
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
    mapped = getattr(address, "ipv4_mapped", None)
    return address if mapped is None else mapped
