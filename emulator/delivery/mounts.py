"""Applications in this process that answer the deliveries to one origin."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Iterable, Iterator
from typing import Protocol

from emulator.core.model.messages import Response
from emulator.core.model.options import Method
from emulator.core.record import Headers, Record
from emulator.core.rules.attempts import TIMEOUT_ERROR
from emulator.delivery.http import SendFailure
from emulator.wire.times import format_duration
from emulator.wire.urls import origin_of, read_target

logger = logging.getLogger(__name__)


# Real time that an application may take. After a sixth of it, and 5 s at the latest, it is named as slow.
MOUNT_TIMEOUT_MS = 30_000
_SLOW_S = 5.0


class MountedRequest(Record):
    """A delivery to a mounted application: the request as a receiver at `url` would get it.

    `world`, `message_id` and `at_ms`, the virtual instant of the attempt, say whose delivery it is; a request of
    a check of the receiver has none of them.
    """

    method: Method
    url: str
    headers: Headers
    body: bytes
    world: str = ""
    message_id: str | None = None
    at_ms: int | None = None


class MountUnusable(RuntimeError):
    """A mounted application cannot be called; the text is the emulator's own and may be logged."""


class Mount(Protocol):
    """An application in this process that answers the deliveries to one origin."""

    def __call__(self, request: MountedRequest, /) -> Response | Awaitable[Response]:
        """The response, or what to wait for if that takes more than a moment."""


def near_mount(url: str, origins: Iterable[str]) -> str | None:
    """Ask whether a mounted application is meant by a URL that none answers for, None if none is near (D-473).

    An origin is near that differs in scheme or port, or by `www.`; letter case and a trailing dot make no difference.
    """
    target = read_target(url)
    if target is None:
        return None
    mounted = [each for each in map(read_target, origins) if each is not None]
    host = target.host.removeprefix("www.")
    near = [each for each in mounted if each.host.removeprefix("www.") == host]
    if not near or any(each.origin == target.origin for each in near):
        return None
    meant = min(near, key=lambda each: each.host != target.host)
    is_scheme = meant.origin.partition("://")[2] == target.origin.partition("://")[2]
    return f"{meant.origin} is mounted; is {meant.scheme if is_scheme else meant.origin} meant?"


async def call(
    mount: Mount, request: MountedRequest, *, timeout_ms: int, mount_timeout_ms: int = MOUNT_TIMEOUT_MS
) -> Response | SendFailure:
    """Let a mounted application answer, within both limits of real time. Raises: nothing but cancellation.

    `timeout_ms` is the message's own limit.
    """
    origin = origin_of(request.url) or request.url
    limit_ms = min(timeout_ms, mount_timeout_ms)
    try:
        answer = mount(request)
        if isinstance(answer, Response):
            return answer
        limit_s = limit_ms / 1000
        with named_when_slow(f"the application mounted at {origin}", "has not answered a delivery", limit_s):
            async with asyncio.timeout(limit_s):
                return await answer
    except TimeoutError:
        if timeout_ms <= mount_timeout_ms:
            return SendFailure(text=TIMEOUT_ERROR)
        limit = format_duration(limit_ms)
        text = f"timeout: the application mounted at {origin} did not answer within {limit} of real time"
        logger.error("%s (mount_timeout)", text)
        return SendFailure(text=f"{text} (mount_timeout)")
    except Exception as error:  # An edge: an application that breaks is a failed attempt, not ours.
        # The text of another's exception may repeat the delivery (D-775).
        why = str(error) if isinstance(error, MountUnusable) else type(error).__name__
        logger.warning("the application mounted at %s could not be called: %s", origin, why)
        return SendFailure(text=f"mounted application failed: {type(error).__name__}")


@contextlib.contextmanager
def named_when_slow(who: str, does: str, limit_s: float) -> Iterator[None]:
    """Log who takes long while it does: the clock waits for it, and so may the person before the screen (D-472)."""
    slow_s = min(_SLOW_S, limit_s / 6)

    def warn() -> None:
        logger.warning("%s %s for %.3g s of real time", who, does, slow_s)

    timer = asyncio.get_running_loop().call_later(slow_s, warn)
    try:
        yield
    finally:
        timer.cancel()
