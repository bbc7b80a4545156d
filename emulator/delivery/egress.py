"""Which destinations a delivery may reach: decided by the URL's text, and checked when its name is resolved.

The decision never asks DNS, so a captured destination costs no lookup and works without a network.
A name that was let through is checked again address by address when it is resolved, so a name whose
addresses change between the two (DNS rebinding) reaches nothing it should not.
Source: decisions D-105 to D-107.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import socket
import threading
from collections.abc import Awaitable, Callable
from enum import Enum, StrEnum
from functools import lru_cache
from typing import Any, TypedDict

from emulator.core.record import Record
from emulator.wire.urls import canonical_host, is_local_name, read_target

# -- looking up names -------------------------------------------------------------------------
# The operating system is asked in threads that do nothing else (D-275).
#
# A look-up blocks its thread until the name servers answer, and cannot be cancelled. In the event
# loop's own pool a few names without an answer would hold everything else up.

Infos = list[tuple[Any, ...]]
# As `socket.getaddrinfo`: name, port and family; what it finds.
Ask = Callable[[str, int, int], Infos]


class LookupTimeout(OSError):
    """The name servers did not answer in time."""


def ask_system(host: str, port: int, family: int) -> Infos:
    """What the operating system knows of a name. Raises: socket.gaierror."""
    return list(socket.getaddrinfo(host, port, family=family, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG))


class Lookups:
    """Look-ups of one event loop, each waited for at most `limit_s`.

    At most `threads` of them run at once, those not counted that have had no answer for `slow_s`: a
    name without an answer must not hold up the others (D-564). Of these there are at most
    `slow_threads`, given up or not, until they end. A thread is a daemon, so that the end of the
    program does not wait for name servers either.
    """

    def __init__(
        self,
        ask: Ask = ask_system,
        *,
        threads: int = 32,
        slow_threads: int = 224,
        limit_s: float = 10.0,
        slow_s: float = 0.25,
    ) -> None:
        self._ask = ask
        self._limit_s = limit_s
        self._slow_s = slow_s
        self._free = asyncio.Semaphore(threads)
        self._slow_left = slow_threads

    async def find(self, host: str, port: int, family: int) -> list[Resolved]:
        """The addresses of a name. Raises: LookupTimeout, socket.gaierror."""
        try:
            async with asyncio.timeout(self._limit_s):
                await self._free.acquire()
                infos = await asyncio.shield(self._start(host, port, family))
        except TimeoutError:
            raise LookupTimeout(f"name lookup timed out: {host}") from None
        return [_resolved(host, str(address[0]), port, found) for found, _, _, _, address in infos]

    def _start(self, host: str, port: int, family: int) -> asyncio.Future[Infos]:
        loop = asyncio.get_running_loop()
        found: asyncio.Future[Infos] = loop.create_future()
        # The caller may have given up, and asyncio would log an exception that was never retrieved.
        found.add_done_callback(lambda future: future.cancelled() or future.exception())

        is_slow = False

        def slow() -> None:
            nonlocal is_slow
            if self._slow_left:
                is_slow = True
                self._slow_left -= 1
                self._free.release()

        waiting = loop.call_later(self._slow_s, slow)

        def end(infos: Infos, error: OSError | None) -> None:
            waiting.cancel()
            if is_slow:
                self._slow_left += 1
            else:
                self._free.release()
            if error is None:
                found.set_result(infos)
            else:
                found.set_exception(error)

        def work() -> None:
            infos: Infos = []
            failure: OSError | None = None
            try:
                infos = self._ask(host, port, family)
            except OSError as error:
                failure = error
            except UnicodeError:
                failure = socket.gaierror(socket.EAI_NONAME, "Name or service not known")
            # The loop may have ended meanwhile.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(end, infos, failure)

        threading.Thread(target=work, name="name lookup", daemon=True).start()
        return found


# -- who may be contacted ---------------------------------------------------------------------

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class ExternalPolicy(StrEnum):
    """What happens to a destination outside this machine and private networks."""

    CAPTURE = "capture"
    FAIL = "fail"
    ALLOW = "allow"


class EgressVerdict(Enum):
    """What the policy says of a destination."""

    NETWORK = "network"  # really sent
    CAPTURE = "capture"  # journaled and answered 200
    FAIL = "fail"  # answered with a connection error
    FORBIDDEN = "forbidden"  # never, whatever the options


class EgressRefused(OSError):
    """A connection that the egress policy does not let happen."""


# -- addresses --------------------------------------------------------------------------------


def _networks(*texts: str) -> tuple[Network, ...]:
    return tuple(ipaddress.ip_network(text) for text in texts)


# Where a cloud's machines ask for their own credentials. Most are link-local addresses.
_METADATA_NETWORKS = _networks(
    "169.254.0.0/16",
    "100.100.100.200/32",
    "168.63.129.16/32",
    "192.0.0.192/32",
    "fe80::/10",
    "fd00:ec2::/32",
    "fd20:ce::/32",
)
_METADATA_NAMES = (
    "metadata.google.internal",
    "metadata.goog",
    "instance-data",
    "instance-data.ec2.internal",
)

# This machine, private networks, and the ranges that container and overlay networks use.
_LOCAL_NETWORKS = _networks(
    "0.0.0.0/8",
    "127.0.0.0/8",
    "10.0.0.0/8",
    "172.16.0.0/12",
    "192.168.0.0/16",
    "100.64.0.0/10",
    "198.18.0.0/15",
    "::/128",
    "::1/128",
    "fc00::/7",
)

_NAT64_NETWORKS = (ipaddress.IPv6Network("64:ff9b::/96"), ipaddress.IPv6Network("64:ff9b:1::/48"))
_COMPATIBLE = ipaddress.IPv6Network("::/96")
_ISATAP_MARKS = frozenset((0x0000_5EFE, 0x0200_5EFE))


def _embedded(address: ipaddress.IPv6Address) -> list[ipaddress.IPv4Address]:
    """The IPv4 addresses that a gateway might make of an IPv6 address."""
    number = int(address)
    found = []
    if address.ipv4_mapped is not None:
        found.append(address.ipv4_mapped)
    if address.sixtofour is not None:
        found.append(address.sixtofour)
    if address.teredo is not None:
        found.extend(address.teredo)
    is_isatap = (number >> 32) & 0xFFFF_FFFF in _ISATAP_MARKS
    if is_isatap or address in _COMPATIBLE or any(address in network for network in _NAT64_NETWORKS):
        found.append(ipaddress.IPv4Address(number & 0xFFFF_FFFF))
    return found


def is_metadata_address(address: Address) -> bool:
    """Whether a cloud answers for its machines' metadata there, in this form or behind an IPv6 one."""
    if isinstance(address, ipaddress.IPv6Address) and any(is_metadata_address(inner) for inner in _embedded(address)):
        return True
    return any(address in network for network in _METADATA_NETWORKS)


def is_local_address(address: Address) -> bool:
    """Whether the address is on this machine or a private network; the unspecified one means this machine."""
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        return is_local_address(address.ipv4_mapped)
    return any(address in network for network in _LOCAL_NETWORKS)


@lru_cache(maxsize=4096)
def _address(host: str) -> Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


# -- the policy -------------------------------------------------------------------------------


class EgressPolicy(Record):
    """What may be contacted. `allow_hosts` are names, addresses, or `*.example.com` for every name below one."""

    external: ExternalPolicy = ExternalPolicy.CAPTURE
    allow_hosts: tuple[str, ...] = ()

    def decide(self, url: str) -> EgressVerdict:
        """Where attempts at this URL go. A URL without a usable host is forbidden."""
        return _decide(self, url)

    def refusal(self, host: str, address: str) -> str | None:
        """Why the address that a host's name resolved to may not be contacted, or None if it may."""
        number = _address(address.partition("%")[0])
        if number is None:
            return f"egress refused: {host} does not resolve to an IP address"
        if is_metadata_address(number):
            return f"egress refused: {host} resolves to a cloud metadata or link-local address"
        if is_local_address(number) or self.allows(host):
            return None
        return f"egress refused: {host} resolves to an address outside private networks (--allow-host {host} allows it)"

    def allows(self, host: str) -> bool:
        """Whether a host outside this machine and private networks may be contacted."""
        return self.external is ExternalPolicy.ALLOW or any(_matches(host, allowed) for allowed in self.allow_hosts)


def _matches(host: str, allowed: str) -> bool:
    if allowed.startswith("*."):
        parent = canonical_host(allowed[2:])
        return parent is not None and host.endswith("." + parent)
    return host == canonical_host(allowed)


@lru_cache(maxsize=4096)
def _decide(policy: EgressPolicy, url: str) -> EgressVerdict:
    target = read_target(url)
    if target is None:
        return EgressVerdict.FORBIDDEN
    host, address = target.host, _address(target.host)
    if address is None:
        is_metadata = any(host == name or host.endswith("." + name) for name in _METADATA_NAMES)
        is_local = is_local_name(host)
    else:
        is_metadata, is_local = is_metadata_address(address), is_local_address(address)
    if is_metadata:
        return EgressVerdict.FORBIDDEN
    if is_local or policy.allows(host):
        return EgressVerdict.NETWORK
    return EgressVerdict.CAPTURE if policy.external is ExternalPolicy.CAPTURE else EgressVerdict.FAIL


# -- names to addresses -----------------------------------------------------------------------

_LOOPBACK = ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1"))


class Resolved(TypedDict):
    """One address of a name, in the shape that the HTTP client takes."""

    hostname: str
    host: str
    port: int
    family: int
    proto: int
    flags: int


Lookup = Callable[[str, int, socket.AddressFamily], Awaitable[list[Resolved]]]


class CheckedResolver:
    """Looks names up and lets only those addresses through that the policy allows.

    `localhost` and the names below it are this machine by definition and are not looked up (D-106).
    """

    def __init__(self, policy: EgressPolicy, lookup: Lookup | None = None) -> None:
        self._policy = policy
        self._lookup = lookup or Lookups().find

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[Resolved]:
        """Every address of a name. One that may not be contacted refuses the name.

        A numeric address is looked up nowhere. Raises: EgressRefused; OSError (socket.gaierror) if
        the name is not known, LookupTimeout without an answer in time.
        """
        if host == "localhost" or host.endswith(".localhost"):
            return [
                _resolved(host, address, port, known)
                for known, address in _LOOPBACK
                if family in (known, socket.AF_UNSPEC)
            ]
        number = _address(host)
        if number is None:
            found = await self._lookup(host, port, family)
        else:
            found = [_resolved(host, host, port, socket.AF_INET if number.version == 4 else socket.AF_INET6)]
        for resolved in found:
            refusal = self._policy.refusal(host, resolved["host"])
            if refusal is not None:
                raise EgressRefused(refusal)
        return found

    async def close(self) -> None:
        """Nothing to close; the HTTP client asks for it."""


def _resolved(host: str, address: str, port: int, family: int) -> Resolved:
    numeric = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV
    return Resolved(hostname=host, host=address, port=port, family=family, proto=0, flags=numeric)
