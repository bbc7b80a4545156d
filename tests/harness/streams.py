"""A client of `GET /_emulator/stream` that calls the application itself, reads some events and goes away."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

from emulator.wire.event_stream import StreamEvent, StreamReader
from tests.contracts.conformance import check_response
from tests.harness.emulators import Headers, InProcess, http_scope

PATH = "/_emulator/stream"


class Stream:
    """An answer that may never end, as far as it has come."""

    def __init__(self) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.content = b""
        self.pieces: list[bytes] = []
        self._events: asyncio.Queue[StreamEvent | None] = asyncio.Queue()
        self._reader = StreamReader()
        self._is_asked = False
        self.has_begun = asyncio.Event()
        self.has_left = asyncio.Event()
        # Set, nothing more is taken from the application: a reader that is slow.
        self.is_read = asyncio.Event()
        self.is_read.set()
        # Set, what is sent is refused: a server that knows that the reader has gone.
        self.is_refused = False

    async def next(self) -> StreamEvent:
        """The next event. Fails if the stream has ended."""
        event = await self._events.get()
        assert event is not None, self.content
        return event

    async def events(self, count: int) -> list[StreamEvent]:
        return [await self.next() for _ in range(count)]

    async def until(self, kind: str) -> list[StreamEvent]:
        """The events up to the first of a kind, which is the last of them."""
        found = [await self.next()]
        while found[-1].kind != kind:
            found.append(await self.next())
        return found

    async def rest(self) -> list[StreamEvent]:
        """All events until the application ends the stream."""
        found: list[StreamEvent] = []
        while (event := await self._events.get()) is not None:
            found.append(event)
        return found

    async def receive(self) -> dict[str, Any]:
        if not self._is_asked:
            self._is_asked = True
            return {"type": "http.request", "body": b"", "more_body": False}
        await self.has_left.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = {name.decode(): value.decode() for name, value in message["headers"]}
            self.has_begun.set()
            return
        await self.is_read.wait()
        if self.is_refused:
            raise OSError("nobody is there")
        body = message.get("body", b"")
        self.content += body
        self.pieces.append(body)
        # Each event is sent whole.
        for line in body.decode().split("\n")[:-1]:
            event = self._reader.take(line)
            if event is not None:
                self._events.put_nowait(event)
        if not message.get("more_body", False):
            self._events.put_nowait(None)


@contextlib.asynccontextmanager
async def streaming(emulator: InProcess, query: str = "", headers: Headers = ()) -> AsyncIterator[Stream]:
    """A stream whose answer has begun. At the end its client goes; what it got is held against the contract."""
    stream = Stream()
    pairs = [("host", "127.0.0.1:8080"), *dict(headers).items()]
    target = f"{PATH}?{query}" if query else PATH
    scope = http_scope("GET", target.encode(), pairs, "203.0.113.7")
    answering = asyncio.get_running_loop().create_task(emulator.emulation.app(scope, stream.receive, stream.send))
    try:
        await stream.has_begun.wait()
        yield stream
    finally:
        stream.has_left.set()
        await answering
    check_response("GET", PATH, stream.status, stream.headers, stream.content)
