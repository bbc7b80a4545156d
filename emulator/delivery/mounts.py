"""Applications in this process that answer the deliveries to one origin."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable
from typing import Protocol

from emulator.core.model.answers import Response
from emulator.core.model.names import Headers
from emulator.core.model.options import Method
from emulator.core.record import Record
from emulator.core.rules.attempts import TIMEOUT_ERROR
from emulator.delivery.http import Failure

logger = logging.getLogger(__name__)


class MountedRequest(Record):
    """A delivery to a mounted application: the request as a receiver at `url` would get it."""

    method: Method
    url: str
    headers: Headers
    body: bytes


class Mount(Protocol):
    """An application in this process that answers the deliveries to one origin."""

    def __call__(self, request: MountedRequest, /) -> Awaitable[Response]: ...


async def call(mount: Mount, request: MountedRequest, *, timeout_ms: int) -> Response | Failure:
    """Let a mounted application answer, in at most `timeout_ms` of real time. Raises: nothing but cancellation."""
    try:
        async with asyncio.timeout(timeout_ms / 1000):
            return await mount(request)
    except TimeoutError:
        return Failure(text=TIMEOUT_ERROR)
    except Exception as error:  # An edge: an application that breaks is a failed attempt, not ours.
        logger.warning("a mounted application could not be called: %s: %s", type(error).__name__, error)
        return Failure(text=f"mounted application failed: {type(error).__name__}")
