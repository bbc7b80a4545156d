"""What the parts of an `AsyncEmulator` share: its session while it runs, and how they wait for work."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Coroutine, Mapping
from typing import Any, TypeVar

from emulator.client.errors import (
    EmulatorError,
    EmulatorWarning,
    HandlerErrors,
    Unreachable,
    is_emulator_error,
    may_be_replaced,
)
from emulator.client.event_loops import async_wait
from emulator.client.session import Session, SessionSource
from emulator.client.threads import AsyncCaller
from emulator.client.verify.unused_rules import questions_about_rules

T = TypeVar("T")

__tracebackhide__ = is_emulator_error


class AsyncLink:
    """The session of an emulator, between `open` and `close`."""

    def __init__(self, source: SessionSource, session: Session | None = None) -> None:
        """With a session it is open already."""
        self._source = source
        self._session = session

    @property
    def is_open(self) -> bool:
        return self._session is not None

    @property
    def session(self) -> Session:
        """Raises Unreachable unless it is open."""
        if self._session is None:
            raise Unreachable("this emulator is not running: use it in a with block, or call start()")
        return self._session

    async def open(self) -> None:
        """Open the session. Raises EmulatorError if it is open already."""
        if self._session is not None:
            raise EmulatorError("this emulator is running already")
        self._session = await async_wait(self._source.begin())
        self._session.errors.thread = threading.get_ident()

    @property
    def errors(self) -> HandlerErrors | None:
        """What mounted code has raised, None unless it is open."""
        return None if self._session is None else self._session.errors

    async def close(self, failure: BaseException | None = None) -> None:
        """End the session and what began with it; does nothing if it is not open.

        Raises what mounted code has raised and no call has. It may replace the failure that ends the session.
        """
        session, self._session = self._session, None
        # In a fork the session is a copy; the process that opened it ends it.
        if session is None or not session.server.background.is_here:
            return
        questions: list[str] = []
        if failure is None:
            # It passes by what is captured, as if the application had answered 200.
            near = session.server.near_mounts(session.world)
            questions += [f"no application is mounted at {origin}: {question}" for origin, question in near.items()]
            if session.rules:
                questions += await async_wait(session.server.background.submit(questions_about_rules(session)))
        error_at_end: BaseException | None = None
        was_due = session.errors.has_due
        try:
            await async_wait(self._source.end(session))
            session.server.background.join()
        except Exception as error:
            error_at_end = error
        # What a shutdown raises is no reason for the failure before it (D-471).
        if failure is not None and not may_be_replaced(failure, by_shutdown=not was_due):
            session.errors.note_on(failure)
        due = session.errors.due_at_end() or error_at_end
        if due is not None:
            session.errors.note_on(due)
            raise due
        for question in questions:
            warnings.warn(question, EmulatorWarning, stacklevel=3)

    async def run(self, work: Coroutine[Any, Any, T], caller: AsyncCaller | None = None) -> T:
        """Run a coroutine on the session's background loop, and wait for it; `caller` does what it calls meanwhile.

        Raises what mounted code has raised meanwhile or before.
        """
        # D-470.
        session = self.session
        due = session.errors.due_here()
        if due is None:
            try:
                future = session.server.background.submit(work)
                result = await (caller or AsyncCaller()).wait(future, session.server.threads, session.world)
            except KeyboardInterrupt as error:
                session.errors.forget(error)
                raise
            except Exception:
                due = session.errors.due_here()
                if due is None:
                    raise
            else:
                due = session.errors.due_here()
                if due is None:
                    return result
        else:
            work.close()
        raise due

    async def control(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        query: Mapping[str, str] | None = None,
        refresh: bool = False,
    ) -> Any:
        """The JSON of a control call; see `Session.control`."""
        return await self.run(self.session.control(method, path, body, query=query, refresh=refresh))

    async def messaging(
        self,
        method: str,
        path: str,
        content: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        *,
        body: Any = None,
        query: Mapping[str, str] | None = None,
    ) -> Any:
        """The JSON of a call of the messaging API, None without content; see `Session.messaging`."""
        return await self.run(self.session.messaging(method, path, content, headers, body=body, query=query))


class Part:
    """A part of an emulator, which reaches its world by the link of that."""

    def __init__(self, link: AsyncLink) -> None:
        self._link = link
