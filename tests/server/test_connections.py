"""Connections without a request, with both servers, and what is written to them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

import pytest
from starlette.responses import PlainTextResponse

from emulator.server import serving
from emulator.server.connections import ConnectionLimits, JoiningTransport
from tests.harness.loops import PATIENCE_S, on_loop

pytestmark = pytest.mark.slow
SERVERS = pytest.mark.parametrize("name", ["uvicorn", "hypercorn"])
REQUEST = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"

Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@asynccontextmanager
async def served(name: str, limits: ConnectionLimits) -> AsyncIterator[int]:
    """The port of a server."""
    listener, stop = serving.listen("127.0.0.1", 0), asyncio.Event()
    port = listener.getsockname()[1]
    running = asyncio.create_task(
        serving.serve(PlainTextResponse("hello"), listener, server=name, stop=stop, limits=limits)
    )
    try:
        yield port
    finally:
        stop.set()
        await running


async def answer(connection: Connection) -> bytes:
    reader, writer = connection
    writer.write(REQUEST)
    head = await reader.readuntil(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200")
    return await reader.readexactly(5)


async def is_closed(connection: Connection) -> bool:
    reader, writer = connection
    try:
        return await reader.read() == b""
    except ConnectionError:
        return True
    finally:
        writer.close()


@SERVERS
@pytest.mark.parametrize("begin", [b"", b"GET / HT", b"GET / HTTP/1.1\r\nHost: x\r\nX: "])
@on_loop
async def test_a_head_that_does_not_end_is_given_up(name: str, begin: bytes) -> None:
    """D-278."""
    async with served(name, ConnectionLimits(head_s=0.05)) as port:
        for has_asked in (False, True):
            connection = await asyncio.open_connection("127.0.0.1", port)
            if has_asked:
                assert await answer(connection) == b"hello"
            connection[1].write(begin)
            assert await is_closed(connection)


@SERVERS
@on_loop
async def test_a_connection_that_is_used_is_kept_longer_than_one_wait(name: str) -> None:
    """D-278."""
    async with served(name, ConnectionLimits(head_s=0.4)) as port:
        connection = await asyncio.open_connection("127.0.0.1", port)
        loop = asyncio.get_running_loop()
        ends_s = loop.time() + 0.6
        while loop.time() < ends_s:
            assert await answer(connection) == b"hello"
        assert await is_closed(connection)


@SERVERS
@on_loop
async def test_of_too_many_idle_connections_the_oldest_is_closed(name: str) -> None:
    """D-278."""
    async with served(name, ConnectionLimits(most_idle=3)) as port:
        connections = [await asyncio.open_connection("127.0.0.1", port) for _ in range(3)]
        for connection in connections:
            assert await answer(connection) == b"hello"
        # The last caller has waited least.
        assert await answer(connections[0]) == b"hello"
        connections.append(await asyncio.open_connection("127.0.0.1", port))
        assert await answer(connections[3]) == b"hello"
        assert await is_closed(connections[1])
        for number in (0, 2, 3):
            assert await answer(connections[number]) == b"hello"
            connections[number][1].close()


class Written(asyncio.Transport):
    """A transport that notes what it is asked to send at once."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[bytes] = []

    def write(self, data: bytes | bytearray | memoryview[int]) -> None:
        self.calls.append(bytes(data))

    def writelines(self, data: Iterable[bytes | bytearray | memoryview[int]]) -> None:
        self.calls.append(b"".join(data))

    def close(self) -> None:
        self.calls.append(b"closed")


@on_loop
async def test_head_and_body_of_an_answer_leave_together_and_what_nothing_follows_at_once() -> None:
    """A stream of events begins with a head, and may then be silent for long."""
    written = Written()
    transport = JoiningTransport(written, asyncio.get_running_loop())
    for answer in (b"1", b"2"):
        transport.write(b"head")
        transport.write(b"body" + answer)
    await asyncio.sleep(0)
    for alone in (b"head", b"event"):
        transport.write(alone)
        await asyncio.sleep(0)
    # What was written leaves before the end of the connection.
    transport.write(b"last")
    transport.close()
    await asyncio.sleep(0)

    assert written.calls == [b"headbody1", b"headbody2", b"head", b"event", b"last", b"closed"]


@SERVERS
@pytest.mark.parametrize("line", ["GET /a HTTP/1.1", "CONNECT /a HTTP/1.1"])
@on_loop
async def test_a_request_for_a_web_socket_leaves_no_line_in_the_log(
    name: str, line: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither needs a token."""
    upgrade = "Connection: upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhl\r\n"
    async with served(name, ConnectionLimits()) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(f"{line}\r\nHost: localhost\r\n{upgrade}\r\n".encode())
        async with asyncio.timeout(PATIENCE_S):
            assert (await reader.readline()).startswith(b"HTTP/1.1 ")
        writer.close()
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []
