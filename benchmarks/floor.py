"""A program: a bare handler that reads a body and answers JSON, which no emulator on Starlette can beat."""

from __future__ import annotations

import socket

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route


async def _echo(request: Request) -> JSONResponse:
    body = await request.body()
    return JSONResponse({"messageId": "msg_floor", "size": len(body)})


def main() -> None:
    """Listen on a port that the system chooses, and say which."""
    app = Starlette(routes=[Route("/{path:path}", _echo, methods=["POST"])])
    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)
    config = uvicorn.Config(
        app, http="httptools", ws="none", lifespan="off", log_config=None, access_log=False, server_header=False
    )
    uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
    main()
