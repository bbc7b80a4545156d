"""Applications in this process as destinations: an ASGI app, a WSGI app, or a plain function.

Each becomes a `Mount` of the delivery transport. A delivery to it is the request that would have
gone over the network, every header and the signature included; what it raises is logged and
answered with 500, as a server around it would do.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from concurrent.futures import Executor
from enum import StrEnum
from typing import Any, TypeAlias, cast

import httpx

from emulator.client.bridges import AsgiApp, Home
from emulator.client.records import Request, Response
from emulator.core import model
from emulator.delivery.mounts import Mount, MountedRequest
from emulator.wire.urls import read_target

logger = logging.getLogger(__name__)

# What a mounted function may return: nothing for 200, a status, a body, something to send as JSON, or all of it.
Answer: TypeAlias = Response | int | str | bytes | Mapping[str, Any] | list[Any] | None
Function: TypeAlias = Callable[[Request], Answer | Awaitable[Answer]]
WsgiApp: TypeAlias = Callable[[Any, Any], Any]
Application: TypeAlias = AsgiApp | WsgiApp | Function


class Interface(StrEnum):
    """How an application is called."""

    ASGI = "asgi"
    WSGI = "wsgi"
    FUNCTION = "function"


def interface_of(application: Application) -> Interface:
    """How to call an application, told by how many arguments it wants: three, two or one.

    Raises: TypeError for what takes another number.
    """
    if not callable(application):
        raise TypeError(f"expected an application to mount, got {application!r}")
    try:
        parameters = inspect.signature(application).parameters.values()
    except ValueError:
        raise TypeError(f"cannot see what {application!r} takes: say interface='asgi', 'wsgi' or 'function'") from None
    wanted = sum(
        parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
        and parameter.default is parameter.empty
        for parameter in parameters
    )
    try:
        return {3: Interface.ASGI, 2: Interface.WSGI, 1: Interface.FUNCTION}[wanted]
    except KeyError:
        raise TypeError(
            f"expected an ASGI application (scope, receive, send), a WSGI application (environ, start_response) or a "
            f"function of one request, got {application!r}, which takes {wanted} arguments"
        ) from None


def origin_to_mount(url: str) -> str:
    """The origin that an application is to answer for.

    Raises: ValueError for what is none, and for one with a path, since a mount has the whole of its origin.
    """
    target = read_target(url)
    if target is None or target.request_target != "/":
        raise ValueError(f"expected an origin such as https://app.test, without path or query, got {url!r}")
    return target.origin


def mount_of(application: Application, interface: Interface, home: Home, threads: Executor) -> Mount:
    """The application as the transport calls it: asynchronous ones at `home`, the others in `threads`."""
    match interface:
        case Interface.ASGI:
            return _asgi(cast(AsgiApp, application), home)
        case Interface.WSGI:
            return _wsgi(cast(WsgiApp, application), threads)
        case Interface.FUNCTION:
            return _function(cast(Function, application), home, threads)


def _asgi(app: AsgiApp, home: Home) -> Mount:
    async def told(scope: Any, receive: Any, send: Any) -> None:
        try:
            await app(scope, receive, send)
        except Exception:
            _log_failure()
            raise

    transport = httpx.ASGITransport(told, raise_app_exceptions=False)

    async def call(request: MountedRequest) -> model.Response:
        async def exchange() -> model.Response:
            sent = httpx.Request(
                request.method.value, request.url, headers=list(request.headers), stream=_Body(request.body)
            )
            response = await transport.handle_async_request(sent)
            return _from_httpx(response, await response.aread())

        return await home.run(exchange)

    return call


class _Body(httpx.AsyncByteStream):
    """A body in one piece.

    httpx would make an asynchronous generator of it, and trio warns of one that an application does
    not read to its end.
    """

    def __init__(self, body: bytes) -> None:
        self._parts = iter((body,))

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        for part in self._parts:
            return part
        raise StopAsyncIteration


def _wsgi(app: WsgiApp, threads: Executor) -> Mount:
    transport = httpx.WSGITransport(app)

    def exchange(request: MountedRequest) -> model.Response:
        try:
            response = transport.handle_request(_as_httpx(request))
            return _from_httpx(response, response.read())
        except Exception:  # An edge: the application's own failures are answers, those in its iterator too.
            _log_failure()
            return _BROKEN

    return _in_thread(exchange, threads)


def _function(function: Function, home: Home, threads: Executor) -> Mount:
    if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__):

        async def call(request: MountedRequest) -> model.Response:
            async def answer() -> model.Response:
                try:
                    return _response(await cast(Awaitable[Answer], function(_as_request(request))))
                except Exception:  # An edge, as below.
                    _log_failure()
                    return _BROKEN

            return await home.run(answer)

        return call

    def answer_in_thread(request: MountedRequest) -> model.Response:
        try:
            return _response(cast(Answer, function(_as_request(request))))
        except Exception:  # An edge: the user's function may raise whatever it likes.
            _log_failure()
            return _BROKEN

    return _in_thread(answer_in_thread, threads)


def _in_thread(exchange: Callable[[MountedRequest], model.Response], threads: Executor) -> Mount:
    async def call(request: MountedRequest) -> model.Response:
        return await asyncio.get_running_loop().run_in_executor(threads, exchange, request)

    return call


_BROKEN = model.Response(
    status=500, headers=(("content-type", "text/plain; charset=utf-8"),), body=b"Internal Server Error"
)


def _log_failure() -> None:
    logger.exception("a mounted application failed; the delivery is answered with 500")


def _as_httpx(request: MountedRequest) -> httpx.Request:
    return httpx.Request(request.method.value, request.url, headers=list(request.headers), content=request.body)


def _from_httpx(response: httpx.Response, body: bytes) -> model.Response:
    headers = tuple((name.decode("latin-1"), value.decode("latin-1")) for name, value in response.headers.raw)
    return model.Response(status=response.status_code, headers=headers, body=body)


def _as_request(request: MountedRequest) -> Request:
    return Request(
        method=request.method.value,
        url=request.url,
        headers=httpx.Headers(list(request.headers)),
        body=request.body,
    )


def _response(answer: Answer) -> model.Response:
    """What a function returned. Raises: TypeError for what is no answer, ValueError for what is no status."""
    match answer:
        case None:
            return model.Response(status=200, headers=(), body=b"")
        case Response():
            return model.Response(
                status=_status(answer.status), headers=tuple(answer.headers.multi_items()), body=answer.body
            )
        case bool():
            raise TypeError(f"a mounted function returned {answer!r}, expected a status, a body or a Response")
        case int():
            return model.Response(status=_status(answer), headers=(), body=b"")
        case bytes():
            return model.Response(status=200, headers=(), body=answer)
        case str():
            return model.Response(
                status=200, headers=(("content-type", "text/plain; charset=utf-8"),), body=answer.encode()
            )
        case Mapping() | list():
            return model.Response(
                status=200, headers=(("content-type", "application/json"),), body=json.dumps(answer).encode()
            )
        case _:
            raise TypeError(f"a mounted function returned {answer!r}, expected a status, a body or a Response")


def _status(status: int) -> int:
    """A status that a server can answer with, as in a destination rule. Raises: ValueError."""
    if not 200 <= status <= 599:
        raise ValueError(f"a mounted function returned the status {status}, expected one from 200 to 599")
    return status
