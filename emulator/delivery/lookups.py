"""Asking the operating system for the addresses of names, in threads that do nothing else (D-275).

A look-up blocks its thread until the name servers answer, and cannot be cancelled. In the event
loop's own pool a few names that nobody answers for would hold everything else up.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import Callable
from typing import Any

Infos = list[tuple[Any, ...]]
# As `socket.getaddrinfo`: name, port and family; what it finds.
Ask = Callable[[str, int, int], Infos]


class LookupTimeout(OSError):
    """The name servers did not answer in time."""


def ask_system(host: str, port: int, family: int) -> Infos:
    """What the operating system knows of a name. Raises: socket.gaierror."""
    return list(socket.getaddrinfo(host, port, family=family, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG))


class Lookups:
    """Look-ups of one event loop: at most `threads` at once, each waited for at most `limit_s`.

    A thread whose look-up is given up counts until it ends. It is a daemon, so that the end of the
    program does not wait for name servers either.
    """

    def __init__(self, ask: Ask = ask_system, *, threads: int = 32, limit_s: float = 10.0) -> None:
        self._ask = ask
        self._limit_s = limit_s
        self._free = asyncio.Semaphore(threads)

    async def find(self, host: str, port: int, family: int) -> Infos:
        """The addresses of a name. Raises: LookupTimeout, socket.gaierror."""
        try:
            async with asyncio.timeout(self._limit_s):
                await self._free.acquire()
                return await asyncio.shield(self._start(host, port, family))
        except TimeoutError:
            raise LookupTimeout(f"name lookup timed out: {host}") from None

    def _start(self, host: str, port: int, family: int) -> asyncio.Future[Infos]:
        loop = asyncio.get_running_loop()
        found: asyncio.Future[Infos] = loop.create_future()
        # Nobody may be waiting any more, and asyncio would report an exception that nobody has looked at.
        found.add_done_callback(lambda future: future.cancelled() or future.exception())

        def end(infos: Infos, error: OSError | None) -> None:
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
