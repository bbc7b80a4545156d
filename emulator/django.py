"""Django's tests: a mounted application uses the test's own database connections.

    from django.core.wsgi import get_wsgi_application
    from django.test import TestCase
    from emulator import Emulator

    class ReminderTest(TestCase):
        def test_it(self) -> None:
            with Emulator() as emulator:
                emulator.mount("https://app.test", with_connections(get_wsgi_application()))

A delivery that comes while the test waits for the emulator runs in the test's thread, with the test's connections. Any
other runs in a thread of its own, where Django would open another one: it would not see what the test's transaction
has written, and what it writes would stay after the test. Django's live server shares connections in the same way.

In either thread Django would close the connection at the beginning and at the end of each request, and the open
transaction with it. As Django's test client does, this keeps it from that.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar, cast

try:
    from django.core.signals import request_finished, request_started
    from django.db import close_old_connections, connections
except ImportError as error:
    raise ImportError(
        "emulator.django is for projects that use Django, and there is none: pip install django"
    ) from error

from emulator.client.mounts import Function, Interface, WsgiApp, interface_of, is_asynchronous, take_turn

if TYPE_CHECKING:
    from django.dispatch import Signal

App = TypeVar("App", bound=WsgiApp | Function)


def with_connections(application: App) -> App:
    """A WSGI application or a plain function that uses the connections of the thread that calls this.

    Deliveries take turns. The test must leave the database alone while one is under way, as it does
    while it waits for `publish`, `clock.advance` or an HTTP call of its own, in a world whose clock
    is frozen. Raises TypeError for an ASGI application or an asynchronous function.
    """
    # D-352, D-749.
    interface = interface_of(application)
    if interface is Interface.ASGI or is_asynchronous(application):
        raise TypeError(
            f"expected a WSGI application or a plain function, got {application!r}, which runs on an event loop"
        )
    with_test_connections = _connection_sharing()

    @functools.wraps(application)
    def answer(*arguments: Any) -> Any:
        with with_test_connections(), _OPEN:
            answered = cast(Callable[..., Any], application)(*arguments)
            return _whole(answered) if interface is Interface.WSGI else answered

    return cast(App, answer)


class _LeftOpen:
    """While anything is inside, no request of Django's closes connections; it may be entered in several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._left: list[Signal] = []

    def __enter__(self) -> None:
        with self._lock:
            self._inside += 1
            if self._inside == 1:
                # Only what was connected: a project may have disconnected it for all of its tests.
                both = (request_started, request_finished)
                self._left = [signal for signal in both if signal.disconnect(close_old_connections)]

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                for signal in self._left:
                    signal.connect(close_old_connections)


_OPEN = _LeftOpen()


def _connection_sharing() -> Callable[[], Any]:
    """A context manager that shares the connections of this thread with another one, with one at a time."""
    own = {alias: connections[alias] for alias in connections}
    owner = threading.get_ident()
    turn = threading.Lock()

    @contextmanager
    def with_test_connections() -> Iterator[None]:
        take_turn()
        with turn:
            if threading.get_ident() == owner:
                # The application answers in the thread of the test, which waits for the emulator (D-690).
                yield
                return
            for alias, connection in own.items():
                connection.inc_thread_sharing()
                connections[alias] = connection
            try:
                yield
            finally:
                for alias, connection in own.items():
                    # The thread serves other tests later.
                    del connections[alias]
                    connection.dec_thread_sharing()

    return with_test_connections


def _whole(body: Any) -> list[bytes]:
    """The body of a WSGI response, read and closed while the connections are shared."""
    try:
        return [b"".join(body)]
    finally:
        if hasattr(body, "close"):
            body.close()
