"""Connections to receivers: made where the resolver lets them, kept for a moment, and used again."""

from __future__ import annotations

import asyncio
import socket
import ssl
from typing import NamedTuple

from aiohappyeyeballs import start_connection

from emulator.delivery.egress import CheckedResolver
from emulator.delivery.receiving import Budget, Connection, Turns
from emulator.wire.urls import Target

# Shorter than what servers keep an idle connection for (2 s and 5 s are common), so that the
# server closing it and our next request rarely meet.
_KEEPALIVE_S = 1.0
# So long the first address of a name has, before the next is tried beside it (RFC 8305).
_HEAD_START_S = 0.25


class CannotConnect(Exception):
    """There is no connection, for this cause."""

    def __init__(self, cause: Exception) -> None:
        super().__init__()
        self.cause = cause


class _Place(NamedTuple):
    scheme: str
    host: str
    port: int


class Connections:
    """The connections of one event loop."""

    def __init__(self, resolver: CheckedResolver, budget: Budget) -> None:
        self._loop = asyncio.get_running_loop()
        self._resolver = resolver
        self._budget = budget
        self._turns = Turns(self._loop)
        self._idle: dict[_Place, list[Connection]] = {}
        self._sweeping: asyncio.TimerHandle | None = None
        self._tls: ssl.SSLContext | None = None
        self._is_closed = False

    def idle_one(self, target: Target) -> Connection | None:
        """The connection that was used last, None without one."""
        idle = self._idle.get(_place(target))
        oldest_s = self._loop.time() - _KEEPALIVE_S
        while idle:
            found = idle.pop()
            if found.is_usable and found.idle_since_s >= oldest_s:
                return found
            found.close()
        return None

    async def new_one(self, target: Target) -> Connection:
        """Connect. Raises CannotConnect."""
        try:
            found = await self._resolver.resolve(target.host, target.port)
            addresses = [
                (each["family"], socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (each["host"], each["port"]))
                for each in found
            ]
            connected = await start_connection(addresses, happy_eyeballs_delay=_HEAD_START_S, loop=self._loop)
            is_tls = target.scheme == "https"
            _, connection = await self._loop.create_connection(
                lambda: Connection(self._loop, self._turns, self._budget),
                sock=connected,
                ssl=self._tls_context() if is_tls else None,
                server_hostname=target.host if is_tls else None,
            )
        except (OSError, RuntimeError, ValueError) as error:
            raise CannotConnect(error) from error
        return connection

    def give_back(self, target: Target, connection: Connection) -> None:
        """Keep a connection for the next request to the same place, if it can be used again."""
        if self._is_closed:
            connection.close()
        elif connection.is_usable:
            connection.idle_since_s = self._loop.time()
            self._idle.setdefault(_place(target), []).append(connection)
            if self._sweeping is None:
                self._sweeping = self._loop.call_later(_KEEPALIVE_S, self._sweep)

    def _sweep(self) -> None:
        """Close what was idle for long."""
        oldest_s = self._loop.time() - _KEEPALIVE_S
        for place, idle in list(self._idle.items()):
            kept = [each for each in idle if each.is_usable and each.idle_since_s > oldest_s]
            for each in idle:
                if each not in kept:
                    each.close()
            if kept:
                self._idle[place] = kept
            else:
                del self._idle[place]
        self._sweeping = self._loop.call_later(_KEEPALIVE_S, self._sweep) if self._idle else None

    def _tls_context(self) -> ssl.SSLContext:
        if self._tls is None:
            self._tls = ssl.create_default_context()
            self._tls.set_alpn_protocols(["http/1.1"])
        return self._tls

    def close(self) -> None:
        """Close every connection that is not in use; those in use are closed when they are given back."""
        self._is_closed = True
        if self._sweeping is not None:
            self._sweeping.cancel()
        for idle in self._idle.values():
            for each in idle:
                each.close()
        self._idle.clear()


def _place(target: Target) -> _Place:
    return _Place(target.scheme, target.host, target.port)
