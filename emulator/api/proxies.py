"""Whose request it is, behind proxies that the user trusts (D-272)."""

from __future__ import annotations

import ipaddress

from starlette.types import Scope

from emulator.core.record import Record

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
