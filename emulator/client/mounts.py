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
import sys
import traceback
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextvars import ContextVar
from enum import StrEnum
from http import HTTPStatus
from typing import Any, Protocol, TypeAlias, cast

import httpx

from emulator.client.asgi import Exchange, raw_headers, target_of
from emulator.client.errors import ANSWERING, HandlerErrors, add_note, is_cancellation
from emulator.client.event_loops import TAKES_UNAWAITED, AsgiApp, EventLoop, Handoff, TakesErrors
from emulator.client.records import Request, Response, read_request
from emulator.client.threads import NOT_AWAITED, HandlerTimedOut, Job, Threads, note_interrupt
from emulator.core import record
from emulator.core.language.text import near
from emulator.core.model import messages
from emulator.delivery.mounts import Mount, MountedRequest
from emulator.wire.urls import read_target

logger = logging.getLogger(__name__)

_FAILED = "a mounted application failed; the delivery is answered with 500"
_FAILED_AFTERWARDS = "a mounted application failed after it had answered the delivery with %d"

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


def interface_to_call(application: Application, interface: Interface | str | None) -> Interface:
    """How to call an application: as it is said, or by what it takes.

    Raises TypeError for what cannot be called so, ValueError for an interface that does not exist.
    """
    if interface is None:
        return interface_of(application)
    try:
        wanted = Interface(interface)
    except ValueError:
        names = ", ".join(map(repr, map(str, Interface)))
        meant = "".join(f" (did you mean {each!r}?)" for each in near(str(interface), map(str, Interface)))
        raise ValueError(f"interface: expected one of {names}, got {interface!r}{meant}") from None
    arguments = _ARGUMENTS[wanted]
    if not callable(application):
        raise TypeError(_no_application(application))
    try:
        inspect.signature(application).bind(*arguments)
    except ValueError:  # A built-in that does not say what it takes.
        pass
    except TypeError:
        raise TypeError(
            f"interface={str(wanted)!r} calls the application with ({', '.join(arguments)}), "
            f"and {application!r} does not take that"
        ) from None
    return wanted


def _no_application(application: object) -> str:
    text = f"expected an application to mount, got {application!r}"
    if isinstance(application, str):
        return f"{text}: import it and give the object itself"
    if inspect.iscoroutine(application):
        return f"{text}: give the function, without calling it"
    if inspect.ismodule(application):
        return f"{text}: give the application in it, such as {application.__name__}.app"
    return f"{text}: an ASGI or WSGI application, or a function of one request"


def interface_of(application: Application) -> Interface:
    """How to call an application, by the number of its required arguments: three, two or one.

    Raises: TypeError for what takes another number.
    """
    if not callable(application):
        raise TypeError(_no_application(application))
    try:
        parameters = inspect.signature(application).parameters.values()
    except ValueError:
        raise TypeError(f"cannot see what {application!r} takes: say interface='asgi', 'wsgi' or 'function'") from None
    wanted = sum(
        parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
        and parameter.default is parameter.empty
        for parameter in parameters
    )
    found = {3: Interface.ASGI, 2: Interface.WSGI, 1: Interface.FUNCTION}.get(wanted)
    if inspect.isclass(application) and found in (None, Interface.FUNCTION):
        name = application.__name__
        raise TypeError(f"expected an application to mount, got the class {name}: give an instance, such as {name}()")
    if found is None:
        hint = " (a factory has to be called first)" if wanted == 0 else ""
        raise TypeError(
            f"expected an ASGI application (scope, receive, send), a WSGI application (environ, start_response) or a "
            f"function of one request, got {application!r}, which takes {wanted} arguments{hint}"
        )
    return found


_ARGUMENTS = {
    Interface.ASGI: ("scope", "receive", "send"),
    Interface.WSGI: ("environ", "start_response"),
    Interface.FUNCTION: ("request",),
}


def is_asynchronous(function: Function | WsgiApp) -> bool:
    """Whether calling it gives a coroutine."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)


def origin_to_mount(url: str) -> str:
    """The origin that an application is to answer for.

    Raises: ValueError for what is none, and for one with a path, since a mount has the whole of its origin.
    """
    if not isinstance(url, str):
        raise TypeError(f"origin: expected a text such as https://app.test, got {url!r}")
    target = read_target(url)
    if target is None or target.request_target != "/":
        raise ValueError(f"expected an origin such as https://app.test, without path or query, got {url!r}")
    return target.origin


class Worlds(Protocol):
    """What a mount needs of its server."""

    turns_taken: int

    def errors_of(self, world: str) -> HandlerErrors: ...

    def take_turns(self, world: str) -> bool: ...

    def is_waited_for(self, world: str) -> bool: ...


def take_turn() -> None:
    """Say, in the code of a mounted application, that the delivery waits until no other is at work."""
    # D-576.
    answering = ANSWERING.get()
    if answering is not None:
        worlds, _ = cast(tuple[Worlds, str], answering)
        worlds.turns_taken += 1


def mount_of(
    application: Application, interface: Interface, loop: EventLoop, threads: Threads, worlds: Worlds, world: str
) -> Mount:
    """The application as the transport calls it: asynchronous ones on `loop`, the others in `threads`.

    `world` is where it is mounted; a fork of that world has it too. Code that it runs finds the server
    and the world in `ANSWERING`.
    """
    edge = _Edge(worlds, world)
    _listen_to_frameworks()
    if interface is Interface.ASGI:
        return _on_loop(_asgi(cast(AsgiApp, application), edge), loop, edge)
    if interface is Interface.WSGI:
        return _in_thread(_wsgi(cast(WsgiApp, application)), threads, edge)
    function = cast(Function, application)
    if is_asynchronous(function):

        async def answer(request: MountedRequest) -> messages.Response:
            return _response(await cast(Awaitable[Answer], function(read_request(request))))

        return _on_loop(answer, loop, edge)

    def respond(request: MountedRequest) -> messages.Response:
        return _response(cast(Answer, function(read_request(request))))

    return _in_thread(respond, threads, edge)


# What takes the exceptions that a framework answers with 500 by itself, while it answers a delivery.
_TAKES_HIDDEN: ContextVar[Callable[[BaseException], None] | None] = ContextVar("takes_hidden", default=None)


def _listen_to_frameworks() -> None:
    """Hear of the exceptions that Flask and Django hide from their server, which both send a signal for.

    Those that the application itself handles have none. A signal has each receiver once.
    """
    # D-591. Not weakly: at the end of the interpreter a weak one is taken away when half of its modules are gone.
    if (django := sys.modules.get("django.core.signals")) is not None:
        django.got_request_exception.connect(_take_hidden, weak=False)
    if (flask := sys.modules.get("flask.signals")) is not None:
        # Without blinker, early releases have no signals.
        with contextlib.suppress(RuntimeError):
            flask.got_request_exception.connect(_take_hidden, weak=False)


def _take_hidden(*_: Any, **__: Any) -> None:
    take, error = _TAKES_HIDDEN.get(), sys.exception()
    if take is not None and error is not None:
        take(error)


class _Edge:
    """Where the exceptions of one application end: each is logged, kept for the test, and answered with 500.

    The traceback of one that comes again, as in a retry, is logged once.
    """

    def __init__(self, worlds: Worlds, world: str) -> None:
        self.worlds = worlds
        # The world in which the application is mounted.
        self.home = world
        self._last = ""

    def world_of(self, request: MountedRequest) -> str:
        """The world whose delivery it is: this one or a fork of it."""
        return request.world or self.home

    def awaited_world(self, request: MountedRequest) -> str | None:
        """The world whose callers wait for this delivery, None if they do not."""
        world = self.world_of(request)
        return world if self.worlds.is_waited_for(world) else None

    def has_turn(self, request: MountedRequest) -> bool:
        """Whether no other delivery of the world may overlap with this one; those of a check of a receiver do."""
        return request.message_id is not None and self.worlds.take_turns(self.world_of(request))

    def failed(
        self, request: MountedRequest, error: BaseException, *, answered: int | None = None
    ) -> messages.Response:
        """Take in an exception. The response has it as text, the log and the test have it whole.

        `answered` is the status of a response that was complete before, and remains that of the delivery.
        """
        # D-336.
        failed = _FAILED if answered is None else _FAILED_AFTERWARDS % answered
        text = "".join(traceback.format_exception(error))
        if text == self._last:
            logger.error("%s, as before: %s", failed, _summary(error))
        else:
            logger.error(failed, exc_info=error)
        self._last = text
        response = _plain(500, _summary(error).encode("utf-8", "replace"), "text/plain; charset=utf-8")
        self.keep(request, error, is_unseen=answered is not None and answered < HTTPStatus.BAD_REQUEST)
        return response

    def keep(self, request: MountedRequest, error: BaseException, *, is_unseen: bool = False) -> None:
        """Keep an exception for the test."""
        self.worlds.errors_of(self.world_of(request)).add(
            error,
            url=request.url,
            message_id=request.message_id,
            at_ms=request.at_ms,
            of_check=request.message_id is None,
            is_unseen=is_unseen,
        )


class _Answering:
    """Lets the application's code find its world, for the length of a `with` block."""

    __slots__ = ("_edge", "_hidden", "_request", "_token", "_unawaited")

    def __init__(self, edge: _Edge, request: MountedRequest) -> None:
        self._edge = edge
        self._request = request

    def __enter__(self) -> None:
        self._token = ANSWERING.set((self._edge.worlds, self._edge.world_of(self._request)))
        self._hidden = _TAKES_HIDDEN.set(self._keep)
        self._unawaited = TAKES_UNAWAITED.set(TakesErrors(self._edge.home, self._keep_unawaited))

    def __exit__(self, *_: object) -> None:
        TAKES_UNAWAITED.reset(self._unawaited)
        _TAKES_HIDDEN.reset(self._hidden)
        ANSWERING.reset(self._token)

    def _keep(self, error: BaseException) -> None:
        self._edge.keep(self._request, error)

    def _keep_unawaited(self, error: BaseException) -> None:
        self._edge.keep(self._request, error, is_unseen=True)


# Real time for which the emulator's event loop stands still for an application.
_SOON_S = 0.001


class Pace:
    """Whether an application answers so soon that the emulator's event loop stands still for its answer.

    Otherwise the answer wakes that loop, which costs several times as much. A handler that calls the emulator over
    HTTP holds it up once by this time, and is not waited for in this way from then on.
    """

    # D-691.

    def __init__(self, soon_s: float = _SOON_S) -> None:
        self._soon_s = soon_s
        self._last: Handoff[messages.Response] | None = None

    def answer(self, handoff: Handoff[messages.Response]) -> messages.Response | None:
        """The answer, if it is likely to come within a moment and does."""
        last, self._last = self._last, handoff
        is_quick = last is None or last.took_s < self._soon_s
        return handoff.wait_briefly(self._soon_s if is_quick else 0)


def _on_loop(exchange: Callable[[MountedRequest], Awaitable[messages.Response]], loop: EventLoop, edge: _Edge) -> Mount:
    pace = Pace()

    async def guarded(request: MountedRequest) -> messages.Response:
        try:
            with _Answering(edge, request):
                return await exchange(request)
        except BaseException as error:  # An edge: an application's own failure is an answer.
            if is_cancellation(error):
                raise
            return edge.failed(request, error)

    async def wait_for(request: MountedRequest, work: Awaitable[messages.Response]) -> messages.Response:
        try:
            return await work
        except BaseException as error:
            # An application that cancels its own task does not cancel ours.
            if isinstance(error, Exception) or is_cancellation(error):
                raise
            if isinstance(error, asyncio.CancelledError):
                add_note(error, "It cancelled the task that answered the delivery.")
            return edge.failed(request, error)

    def call(request: MountedRequest) -> messages.Response | Awaitable[messages.Response]:
        if not loop.is_elsewhere:
            return wait_for(request, loop.run(lambda: guarded(request)))
        running = loop.start(lambda: guarded(request))
        return (pace.answer(running) if edge.has_turn(request) else None) or wait_for(request, running.wait())

    return call


def _in_thread(exchange: Callable[[MountedRequest], messages.Response], threads: Threads, edge: _Edge) -> Mount:
    pace = Pace()

    def guarded(request: MountedRequest) -> messages.Response:
        try:
            with _Answering(edge, request):
                return exchange(request)
        except HandlerTimedOut as error:
            logger.error("a mounted application was ended in the test's thread: %s", NOT_AWAITED, exc_info=error)
            return _plain(500, b"")
        except BaseException as error:  # An edge, as above.
            note_interrupt(error)
            return edge.failed(request, error)

    def call(request: MountedRequest) -> messages.Response | Awaitable[messages.Response]:
        job = Job(lambda: guarded(request))
        threads.start(job, edge.awaited_world(request))
        return (pace.answer(job.outcome) if edge.has_turn(request) else None) or job.outcome.wait()

    return call


def _asgi(app: AsgiApp, edge: _Edge) -> Callable[[MountedRequest], Awaitable[messages.Response]]:
    async def exchange(request: MountedRequest) -> messages.Response:
        made = Exchange(request.body)
        try:
            await made.run(app, request.method.value, target_of(request.url), raw_headers(request.headers))
        except BaseException as error:
            if is_cancellation(error):
                raise
            status = made.status
            # A web framework answers 500 before it raises, and says less. Half an answer is none.
            says_less = status == HTTPStatus.INTERNAL_SERVER_ERROR or not made.is_over
            if status is None or says_less or not isinstance(error, Exception):
                return edge.failed(request, error)
            edge.failed(request, error, answered=status)
        else:
            status = made.final_status()
        return messages.Response(status=status, headers=_texts(made.headers), body=made.body)

    return exchange


def _wsgi(app: WsgiApp) -> Callable[[MountedRequest], messages.Response]:
    def exchange(request: MountedRequest) -> messages.Response:
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
        return messages.Response(
            status=response.status_code, headers=_texts(response.headers.raw), body=response.read()
        )

    return exchange


def _summary(error: BaseException) -> str:
    return "".join(traceback.format_exception_only(error)).strip()


def _texts(headers: Iterable[tuple[bytes, bytes]]) -> record.Headers:
    return tuple((name.decode("latin-1"), value.decode("latin-1")) for name, value in headers)


def _response(answer: Answer) -> messages.Response:
    """The response for what a function returned. Raises: TypeError, and ValueError for an impossible status."""
    match answer:
        case None:
            return _plain(200, b"")
        case Response():
            return messages.Response(
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


def _plain(status: int, body: bytes, media_type: str | None = None) -> messages.Response:
    headers = () if media_type is None else (("content-type", media_type),)
    return messages.Response(status=status, headers=headers, body=body)


def _status(status: int) -> int:
    """A status that a server can answer with, as in a destination rule. Raises: ValueError."""
    if not 200 <= status <= 599:
        raise ValueError(f"a mounted function returned the status {status}, expected one from 200 to 599")
    return status
