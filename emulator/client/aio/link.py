"""What the parts of an `AsyncEmulator` share: its session while it runs, and how they wait for work."""

from __future__ import annotations

from collections.abc import Coroutine, Mapping
from typing import Any, TypeVar

from emulator.client.bridges import async_wait
from emulator.client.errors import EmulatorError, is_emulator_error
from emulator.client.session import Session, SessionSource

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
        """Raises EmulatorError unless it is open."""
        if self._session is None:
            raise EmulatorError("this emulator is not running: use it in a with block, or call start()")
        return self._session

    async def open(self) -> None:
        """Open the session. Raises EmulatorError if it is open already."""
        if self._session is not None:
            raise EmulatorError("this emulator is running already")
        self._session = await async_wait(self._source.begin())

    async def close(self) -> None:
        """End the session and what began with it; does nothing if it is not open."""
        session, self._session = self._session, None
        # In a fork the session is a copy; the process that opened it ends it.
        if session is not None and session.server.background.is_here:
            await async_wait(self._source.end(session))
            session.server.background.join()

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the session's background loop, and wait for it."""
        return await async_wait(self.session.server.background.submit(work))

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
