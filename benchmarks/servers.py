"""The processes that benchmarks measure against: the emulator, a bare floor, a receiver."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import cast

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


async def _echo(request: Request) -> JSONResponse:
    body = await request.body()
    return JSONResponse({"messageId": "msg_floor", "size": len(body)})


def floor_app() -> Starlette:
    """A bare handler that reads the body and answers JSON: what no emulator on Starlette can beat."""
    return Starlette(routes=[Route("/{path:path}", _echo, methods=["POST"])])


class _Receiver(asyncio.Protocol):
    """Answers every request with 200 and as little work as possible."""

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


async def _receive() -> None:
    server = await asyncio.get_running_loop().create_server(_Receiver, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


async def _floor() -> None:
    from emulator.server import serving

    listener = serving.listen("127.0.0.1", 0)
    stop = asyncio.Event()
    serving.stop_on_signals(stop)
    print(listener.getsockname()[1], flush=True)
    await serving.serve(floor_app(), listener, server="uvicorn", stop=stop)


@contextlib.contextmanager
def process(what: str) -> Iterator[int]:
    """Run `floor` or `receiver` in a process of its own; gives its port."""
    command = [sys.executable, "-m", "benchmarks.servers", what]
    with _running(command) as child:
        assert child.stdout is not None
        yield int(child.stdout.readline())


@contextlib.contextmanager
def emulator(*options: str) -> Iterator[str]:
    """Run `svc-emulator serve` on a free port; gives its base URL."""
    command = [sys.executable, "-m", "emulator", "serve", "--port", "0", "--log-level", "error", *options]
    with _running(command) as child:
        assert child.stdout is not None
        for line in child.stdout:
            for word in line.split():
                if word.startswith("http://"):
                    yield word.rstrip("/")
                    return
        raise RuntimeError("the emulator did not start")


@contextlib.contextmanager
def _running(command: list[str]) -> Iterator[subprocess.Popen[str]]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("EMULATOR_")}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as child:
        try:
            yield child
        finally:
            child.send_signal(signal.SIGTERM)
            child.wait(10)


if __name__ == "__main__":
    from emulator.server import serving

    serving.run({"floor": _floor, "receiver": _receive}[sys.argv[1]])
