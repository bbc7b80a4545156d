"""A program: a destination that answers every request with 200 and as little work as possible."""

from __future__ import annotations

import asyncio
from typing import cast

import uvloop

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class _Receiver(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are no asyncio.Transport by class, but by what they do.
        self._transport = cast(asyncio.Transport, transport)
        self._buffer = b""

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while True:
            head, separator, rest = self._buffer.partition(b"\r\n\r\n")
            if not separator:
                return
            lower = head.lower()
            start = lower.find(b"content-length:")
            length = int(lower[start + 15 :].split(b"\r\n", 1)[0]) if start >= 0 else 0
            if len(rest) < length:
                return
            self._buffer = rest[length:]
            self._transport.write(ANSWER)


async def main() -> None:
    """Listen on a port that the system chooses, and say which."""
    server = await asyncio.get_running_loop().create_server(_Receiver, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(main())
