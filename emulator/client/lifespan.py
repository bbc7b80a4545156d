"""An ASGI application between its start-up and its shutdown."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from asgi_lifespan import LifespanManager, LifespanNotSupported

from emulator.client.bridges import AsgiApp

logger = logging.getLogger(__name__)

# A start-up may open connections and fill caches.
_PATIENCE_S = 30


def _answering(app: AsgiApp) -> AsgiApp:
    """The application, for the manager that waits for answers about its lifespan.

    One that returns without an answer, or answers as it would a request, does not implement the protocol,
    and is not waited for. Servers treat it in the same way.
    """

    async def answering(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "lifespan":
            await app(scope, receive, send)
            return
        answers = {}

        async def send_own(message: Any) -> None:
            kind = message["type"]
            if not kind.startswith("lifespan."):
                raise LifespanNotSupported(f"the application answered its start-up with {kind}")
            answers[kind] = message
            await send(message)

        await app(scope, receive, send_own)
        if failed := answers.get("lifespan.startup.failed"):
            raise RuntimeError(f"the application did not start: {failed.get('message', '')}")
        if "lifespan.startup.complete" not in answers:
            raise LifespanNotSupported("the application did not answer its start-up")
        await send({"type": "lifespan.shutdown.complete"})

    return answering


class Lifespan:
    """One application's lifespan, in its own task. Begin and end it on the same event loop."""

    def __init__(self, app: AsgiApp) -> None:
        self.app = app
        self._over = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @staticmethod
    async def begin(app: AsgiApp) -> Lifespan:
        """Start the application up, if it implements the lifespan protocol. Raises whatever its start-up raises."""
        lifespan = Lifespan(app)
        started = asyncio.get_running_loop().create_future()
        lifespan._task = asyncio.get_running_loop().create_task(
            lifespan._run(started), name="lifespan of a mounted app"
        )
        await started
        return lifespan

    async def _run(self, started: asyncio.Future[None]) -> None:
        try:
            async with LifespanManager(_answering(self.app), _PATIENCE_S, _PATIENCE_S) as manager:
                # This wrapper adds the state of the start-up to every request.
                self.app = manager.app
                started.set_result(None)
                await self._over.wait()
        except LifespanNotSupported:
            started.set_result(None)
        except Exception as error:  # An edge: what the user's application raises.
            if started.done():
                logger.exception("the shutdown of a mounted application failed")
            else:
                started.set_exception(error)

    async def end(self) -> None:
        """Shut it down, and wait for that."""
        self._over.set()
        if self._task is not None:
            await asyncio.wait((self._task,))
