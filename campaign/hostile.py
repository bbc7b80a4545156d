"""Receivers that do what none should, in a process of their own: `python -m campaign.hostile KIND SEED`.

Each prints its port and serves until it is ended.
"""

from __future__ import annotations

import asyncio
import socket
import struct
import sys
from collections.abc import Awaitable, Callable, Mapping
from random import Random

Behave = Callable[[asyncio.StreamReader, asyncio.StreamWriter, Random], Awaitable[None]]

_OK = b"HTTP/1.1 200 OK\r\n"


async def _for_ever(writer: asyncio.StreamWriter, data: bytes) -> None:
    """The same bytes, as fast as they are taken."""
    while not writer.is_closing():
        writer.write(data)
        await writer.drain()


async def _slowly(writer: asyncio.StreamWriter, data: bytes) -> None:
    """The same bytes, now and then: a limit on the time between reads never ends it."""
    while not writer.is_closing():
        writer.write(data)
        await writer.drain()
        await asyncio.sleep(0.05)


async def _silence(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter, _random: Random) -> None:
    await reader.read()


async def _continue(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter, _random: Random) -> None:
    await _for_ever(writer, b"HTTP/1.1 100 Continue\r\n\r\n" * 500)


async def _early_hints(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter, _random: Random) -> None:
    await _for_ever(writer, b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" * 200)


async def _headers(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter, _random: Random) -> None:
    writer.write(_OK)
    await _for_ever(writer, b"X-Filler: abcdefgh\r\n" * 500)


async def _header_line(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter, _random: Random) -> None:
    writer.write(_OK + b"X-Filler: ")
    await _for_ever(writer, b"a" * 16384)


async def _folded(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter, _random: Random) -> None:
    writer.write(_OK + b"X-Filler: a\r\n")
    await _for_ever(writer, b" folded\r\n" * 1000)


async def _status_line(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter, _random: Random) -> None:
    writer.write(b"HTTP/1.1 200 ")
    await _for_ever(writer, b"O" * 16384)


async def _tiny_chunks(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter, _random: Random) -> None:
    writer.write(_OK + b"Transfer-Encoding: chunked\r\n\r\n")
    await _for_ever(writer, b"1\r\nx\r\n" * 2000)


async def _million_pieces(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter, _random: Random) -> None:
    writer.write(_OK + b"Transfer-Encoding: chunked\r\n\r\n")
    for _ in range(500):
        writer.write(b"1\r\nx\r\n" * 2000)
        await writer.drain()
    writer.write(b"0\r\n\r\n")
    await writer.drain()


async def _chunk_extension(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter, _random: Random) -> None:
    writer.write(_OK + b"Transfer-Encoding: chunked\r\n\r\n1;x=")
    await _for_ever(writer, b"y" * 16384)


async def _trailers(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter, _random: Random) -> None:
    writer.write(_OK + b"Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n")
    await _for_ever(writer, b"X-Trailer: abcdefgh\r\n" * 500)


async def _huge(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter, _random: Random) -> None:
    writer.write(_OK + b"Content-Length: 100000000000\r\n\r\n")
    await _for_ever(writer, b"x" * 262144)


async def _endless(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter, _random: Random) -> None:
    writer.write(_OK + b"\r\n")
    await _for_ever(writer, b"x" * 262144)


async def _drip(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter, _random: Random) -> None:
    writer.write(_OK + b"\r\n")
    await _slowly(writer, b"x")


async def _drip_headers(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter, _random: Random) -> None:
    writer.write(_OK)
    await _slowly(writer, b"X-A: b\r\n")


async def _reset(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter, random: Random) -> None:
    writer.write(random.choice((b"", b"HTTP/1.1", _OK, _OK + b"Content-Length: 10\r\n\r\nabc")))
    await writer.drain()
    raw: socket.socket = writer.get_extra_info("socket")
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


async def _invalid(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter, random: Random) -> None:
    writer.write(
        random.choice(
            (
                random.randbytes(4000),
                b"\r\n" * 5000,
                b"HTTP/9.9 200 OK\r\n\r\n",
                b"HTTP/1.1 99999999999999999999 No\r\n\r\n",
                b"HTTP/1.1 -1 No\r\n\r\n",
                b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n" + b"x" * 100,
                b"ICY 200 OK\r\n\r\n",
                _OK + b"Content-Length: -5\r\n\r\n",
                _OK + b"Content-Length: " + b"9" * 5000 + b"\r\n\r\n",
                _OK + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nab",
                _OK + b"Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\nabc",
                _OK + b"Transfer-Encoding: chunked\r\n\r\nZZZ\r\nabc",
                _OK + b"Transfer-Encoding: chunked\r\n\r\n" + b"f" * 100 + b"\r\nabc",
                _OK + b"X: \x00\x1b[2J\r\n\r\n",
                _OK + b"X\xff\xfe: y\r\nContent-Length: 0\r\n\r\n",
                _OK + b"Content-Encoding: gzip\r\nContent-Length: 9\r\n\r\nnot gzip!",
                _OK + b"Retry-After: " + b"9" * 5000 + b"\r\nContent-Length: 0\r\n\r\n",
                b"HTTP/1.1 503 No\r\nRetry-After: -1\r\nX-RateLimit-Reset: nan\r\nContent-Length: 0\r\n\r\n",
            )
        )
    )
    await writer.drain()


async def _many_headers(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter, _random: Random) -> None:
    """More headers than most have, and nothing wrong with them."""
    writer.write(_OK + b"".join(b"X-%d: %d\r\n" % (number, number) for number in range(400)))
    writer.write(b"Content-Length: 2\r\n\r\nok")
    await writer.drain()


KINDS: Mapping[str, Behave] = {
    "never answering": _silence,
    "endless 100 Continue": _continue,
    "endless 103 Early Hints": _early_hints,
    "endless headers": _headers,
    "an endless header line": _header_line,
    "endless folded lines": _folded,
    "an endless status line": _status_line,
    "endless tiny chunks": _tiny_chunks,
    "a million pieces": _million_pieces,
    "an endless chunk extension": _chunk_extension,
    "endless trailers": _trailers,
    "a huge body": _huge,
    "an endless body": _endless,
    "a body that drips": _drip,
    "headers that drip": _drip_headers,
    "resets": _reset,
    "invalid HTTP": _invalid,
    "400 headers": _many_headers,
}
# Where nothing is wrong with the answer.
HARMLESS = ("400 headers",)


async def _serve(behave: Behave, random: Random) -> None:
    async def converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readuntil(b"\r\n\r\n")
            await behave(reader, writer, random)
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # The other side has had enough.
        finally:
            writer.close()

    server = await asyncio.start_server(converse, "127.0.0.1", 0, backlog=512)
    print(server.sockets[0].getsockname()[1], flush=True)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_serve(KINDS[sys.argv[1]], Random(sys.argv[2])))
