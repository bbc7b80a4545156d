"""Applications in this process as destinations: an ASGI app, a WSGI app, or a plain function.

Each becomes a `Mount` of the delivery transport. It gets the request that would have gone over the
network, with every header and the signature. An exception is logged and answered with 500.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import json
import logging
import traceback
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from concurrent.futures import Executor
from contextvars import ContextVar
from enum import StrEnum
from http import HTTPStatus
from typing import Any, TypeAlias, cast

import httpx

from emulator.client.asgi import Exchange, raw_headers, target_of
from emulator.client.bridges import AsgiApp, EventLoop
from emulator.client.records import Request, Response
from emulator.core.model import answers, names
from emulator.delivery.mounts import Mount, MountedRequest
from emulator.wire.urls import read_target

logger = logging.getLogger(__name__)

_FAILED = "a mounted application failed; the delivery is answered with 500"

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
    """How to call an application, by the number of its required arguments: three, two or one.

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


def is_asynchronous(function: Function | WsgiApp) -> bool:
    """Whether calling it gives a coroutine."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)


def origin_to_mount(url: str) -> str:
    """The origin that an application is to answer for.

    Raises: ValueError for what is none, and for one with a path, since a mount has the whole of its origin.
    """
    target = read_target(url)
    if target is None or target.request_target != "/":
        raise ValueError(f"expected an origin such as https://app.test, without path or query, got {url!r}")
    return target.origin


# The server and the world whose delivery the application answers at this moment, if it does.
ANSWERING: ContextVar[object] = ContextVar("answering", default=None)


@contextlib.contextmanager
def _answering(delivered_by: object) -> Iterator[None]:
    token = ANSWERING.set(delivered_by)
    try:
        yield
    finally:
        ANSWERING.reset(token)


def mount_of(
    application: Application, interface: Interface, loop: EventLoop, threads: Executor, delivered_by: object = None
) -> Mount:
    """The application as the transport calls it: asynchronous ones on `loop`, the others in `threads`.

    Code that it runs finds `delivered_by` in `ANSWERING`.
    """
    log = _FailureLog()
    if interface is Interface.ASGI:
        return _on_loop(_asgi(cast(AsgiApp, application), log), loop, delivered_by, log)
    if interface is Interface.WSGI:
        return _in_thread(_wsgi(cast(WsgiApp, application)), threads, delivered_by, log)
    function = cast(Function, application)
    if is_asynchronous(function):

        async def answer(request: MountedRequest) -> answers.Response:
            return _response(await cast(Awaitable[Answer], function(_as_request(request))))

        return _on_loop(answer, loop, delivered_by, log)

    def respond(request: MountedRequest) -> answers.Response:
        return _response(cast(Answer, function(_as_request(request))))

    return _in_thread(respond, threads, delivered_by, log)


class _FailureLog:
    """Logs the exceptions of one application; the traceback of one that comes again, as in a retry, once."""

    def __init__(self) -> None:
        self._last = ""

    def add(self, error: Exception) -> None:
        text = "".join(traceback.format_exception(error))
        if text == self._last:
            logger.error("%s, as before: %s", _FAILED, _summary(error))
        else:
            logger.error(_FAILED, exc_info=error)
        self._last = text


def _on_loop(
    exchange: Callable[[MountedRequest], Awaitable[answers.Response]],
    loop: EventLoop,
    delivered_by: object,
    log: _FailureLog,
) -> Mount:
    async def call(request: MountedRequest) -> answers.Response:
        async def guarded() -> answers.Response:
            try:
                with _answering(delivered_by):
                    return await exchange(request)
            except Exception as error:  # An edge: an application's own failure is an answer.
                log.add(error)
                return _failure(error)

        return await loop.run(guarded)

    return call


def _in_thread(
    exchange: Callable[[MountedRequest], answers.Response], threads: Executor, delivered_by: object, log: _FailureLog
) -> Mount:
    def guarded(request: MountedRequest) -> answers.Response:
        try:
            with _answering(delivered_by):
                return exchange(request)
        except Exception as error:  # An edge, as above.
            log.add(error)
            return _failure(error)

    async def call(request: MountedRequest) -> answers.Response:
        return await asyncio.get_running_loop().run_in_executor(threads, guarded, request)

    return call


def _asgi(app: AsgiApp, log: _FailureLog) -> Callable[[MountedRequest], Awaitable[answers.Response]]:
    async def exchange(request: MountedRequest) -> answers.Response:
        made = Exchange(request.body)
        try:
            await made.run(app, request.method.value, target_of(request.url), raw_headers(request.headers))
        except Exception as error:
            log.add(error)
            status = made.status
            # A web framework answers 500 before it raises, and says less.
            if status is None or status == HTTPStatus.INTERNAL_SERVER_ERROR:
                return _failure(error)
        else:
            status = made.final_status()
        return answers.Response(status=status, headers=_texts(made.headers), body=made.body)

    return exchange


def _wsgi(app: WsgiApp) -> Callable[[MountedRequest], answers.Response]:
    def exchange(request: MountedRequest) -> answers.Response:
        # WSGI has bytes as characters of Latin-1. The transport takes ASCII alone.
        ours = {
            f"HTTP_{name.upper().replace('-', '_')}": value.encode().decode("latin-1")
            for name, value in request.headers
            if not value.isascii()
        }
        ours["PATH_INFO"] = target_of(request.url).path.encode().decode("latin-1")

        def called(environ: Any, start_response: Any) -> Any:
            return app(environ | ours, start_response)

        headers = [pair for pair in request.headers if pair[1].isascii()]
        asked = httpx.Request(request.method.value, request.url, headers=headers, content=request.body)
        response = httpx.WSGITransport(called).handle_request(asked)
        return answers.Response(status=response.status_code, headers=_texts(response.headers.raw), body=response.read())

    return exchange


def _failure(error: Exception) -> answers.Response:
    """The answer of an application that raised: 500 with the exception, which the log has in full (D-336)."""
    return _plain(500, _summary(error).encode("utf-8", "replace"), "text/plain; charset=utf-8")


def _summary(error: Exception) -> str:
    return "".join(traceback.format_exception_only(error)).strip()


def _texts(headers: Iterable[tuple[bytes, bytes]]) -> names.Headers:
    return tuple((name.decode("latin-1"), value.decode("latin-1")) for name, value in headers)


def _as_request(request: MountedRequest) -> Request:
    return Request(
        method=request.method.value,
        url=request.url,
        headers=httpx.Headers(list(request.headers), encoding="utf-8"),
        body=request.body,
    )


def _response(answer: Answer) -> answers.Response:
    """The response for what a function returned. Raises: TypeError, and ValueError for an impossible status."""
    match answer:
        case None:
            return _plain(200, b"")
        case Response():
            return answers.Response(
                status=_status(answer.status), headers=tuple(answer.headers.multi_items()), body=answer.body
            )
        case int() if not isinstance(answer, bool):
            return _plain(_status(answer), b"")
        case bytes():
            return _plain(200, answer)
        case str():
            return _plain(200, answer.encode(), "text/plain; charset=utf-8")
        case Mapping() | list():
            return _plain(200, json.dumps(answer).encode(), "application/json")
        case _:
            raise TypeError(f"a mounted function returned {answer!r}, expected a status, a body or a Response")


def _plain(status: int, body: bytes, media_type: str | None = None) -> answers.Response:
    headers = () if media_type is None else (("content-type", media_type),)
    return answers.Response(status=status, headers=headers, body=body)


def _status(status: int) -> int:
    """A status that a server can answer with, as in a destination rule. Raises: ValueError."""
    if not 200 <= status <= 599:
        raise ValueError(f"a mounted function returned the status {status}, expected one from 200 to 599")
    return status
