"""Requests that are sent as they are given: the HTTP client adds nothing.

Imports aiohttp, so import this at the first request and not before.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, cast

from aiohttp import ClientConnectorError, ClientOSError, ClientRequest, ClientResponse, ServerDisconnectedError
from multidict import CIMultiDict

from emulator.core.model.names import Headers
from emulator.delivery.receiving import PacedHandler

if TYPE_CHECKING:
    from aiohttp import ClientHandlerType, ClientMiddlewareType
    from aiohttp.connector import Connection
    from aiohttp.typedefs import LooseHeaders


class ConnectionLost(Exception):
    """The connection ended before a response began.

    aiohttp sends again by itself after exceptions that it knows, and this is none of them.
    `is_reused` says whether the connection was used before.
    """

    def __init__(self, cause: Exception, *, is_reused: bool) -> None:
        super().__init__()
        self.cause = cause
        self.is_reused = is_reused


class ExactRequest(ClientRequest):
    """A request without headers of its own; `sending_exactly` gives it some."""

    # No Content-Type is made up for any method.
    POST_METHODS: Final[set[str]] = set()  # type: ignore[misc]  # not final there
    is_reused = False

    def update_headers(self, headers: LooseHeaders | None) -> None:
        """Begin with none."""
        self.headers = CIMultiDict()

    def update_auto_headers(self, skip_auto_headers: Iterable[str] | None) -> None:
        """Add none."""

    async def send(self, conn: Connection) -> ClientResponse:
        """Send on a connection, and remember whether it was used before."""
        self.is_reused = cast(PacedHandler, conn.protocol).is_reused
        return await super().send(conn)


def sending_exactly(headers: Headers) -> ClientMiddlewareType:
    """Middleware that gives a request these headers and no others, in their order, case and number.

    Raises ConnectionLost.
    """

    async def send(request: ClientRequest, handler: ClientHandlerType) -> ClientResponse:
        request.headers = CIMultiDict(headers)
        try:
            return await handler(request)
        except ClientConnectorError:
            raise
        except (ClientOSError, ServerDisconnectedError) as error:
            raise ConnectionLost(error, is_reused=cast(ExactRequest, request).is_reused) from error

    return send
