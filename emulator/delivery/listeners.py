"""Where this process itself listens, all its emulators together: a delivery that ends there may not drive them.

A connection is judged by the two addresses that it has, not by the text of a URL: a name, `0.0.0.0`, an IPv4 address
inside an IPv6 one and a decimal number have become addresses, and DNS has no further say (D-770).
"""

from __future__ import annotations

import contextlib
import ipaddress
import socket
import threading
import weakref

from emulator.core.record import Record

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class _Listener(Record):
    """Where a socket listens. One with `takes_both` is of IPv6 and takes connections over IPv4 too."""

    address: Address
    port: int
    takes_both: bool

    def takes(self, address: Address, port: int, own: Address | None) -> bool:
        """Whether a connection to an address ends here. `own` is the address of the connection's other end."""
        if port != self.port:
            return False
        if not self.address.is_unspecified:
            return address == self.address
        is_reached = address.version == self.address.version or (self.takes_both and address.version == 4)
        return is_reached and _is_of_this_machine(address, own)


class Listeners:
    """The listening sockets of a process. One that is closed counts no more.

    All threads may use it. Each emulator has a thread of its own, so the list is replaced and never changed.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._listeners: list[tuple[weakref.ref[socket.socket], _Listener]] = []

    def add(self, listener: socket.socket) -> None:
        """Count a bound socket of the Internet from now on, until it is closed."""
        name = listener.getsockname()
        address = _read(name[0])
        if address is None:
            return
        is_ipv6 = listener.family == socket.AF_INET6
        takes_both = is_ipv6 and not listener.getsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY)
        entry = weakref.ref(listener), _Listener(address=address, port=name[1], takes_both=takes_both)
        with self._lock:
            self._listeners = [*self._open(), entry]

    def take(self, peer: tuple[object, ...] | None, own: tuple[object, ...] | None) -> bool:
        """Whether a connection ends at one of the listeners.

        `peer` and `own` are the addresses of its ends, as a socket names them. A peer that cannot be read may be any.
        """
        listeners = [listener for _, listener in self._open()]
        if not listeners:
            return False
        address = None if peer is None else _read(peer[0])
        if peer is None or address is None:
            return True
        own_address = None if own is None else _read(own[0])
        return any(listener.takes(address, int(str(peer[1])), own_address) for listener in listeners)

    def _open(self) -> list[tuple[weakref.ref[socket.socket], _Listener]]:
        return [entry for entry in self._listeners if (listener := entry[0]()) is not None and listener.fileno() >= 0]


# Of the whole process: a message of one emulator must not drive another one beside it.
OF_PROCESS = Listeners()


def _read(text: object) -> Address | None:
    """An address in the form that is compared: an IPv4 address inside an IPv6 one is that address."""
    try:
        address = ipaddress.ip_address(str(text).partition("%")[0])
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


def _is_of_this_machine(address: Address, own: Address | None) -> bool:
    """Whether this machine has an address, so that a socket that listens on all of them is reached there."""
    if address.is_loopback or address.is_unspecified or address == own:
        return True
    # Only an address that the machine has can be bound to. Nothing is sent by that.
    with contextlib.suppress(OSError):
        family = socket.AF_INET if address.version == 4 else socket.AF_INET6
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind((str(address), 0))
            return True
    return False
