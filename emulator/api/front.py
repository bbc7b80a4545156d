"""What every request passes first and every answer last, whatever operation it is for.

An ASGI middleware: it finds out whose request it is, refuses those that a foreign web page may have
sent, and answers the browsers of allowed pages as CORS wants it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import cast

from starlette.responses import Response
from starlette.routing import Match, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from emulator.api.endpoint import Answer, Endpoint
from emulator.api.proxies import Proxies
from emulator.api.refused import RefusedCallLog
from emulator.api.senders import Senders
from emulator.core.errors import Forbidden

_CONTROL = "/_emulator"
# A browser must not take what was delivered, or an answer in JSON, for a page.
_NOSNIFF = (b"x-content-type-options", b"nosniff")
# Longer than a page stays open between two calls, shorter than a server is used with the same settings.
_PREFLIGHT_S = 600
_HEADER_NAMES = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+(?:\s*,\s*[!#$%&'*+.^_`|~0-9A-Za-z-]+)*")
_ASKED = {
    b"host": "host",
    b":authority": "host",
    b"origin": "origin",
    b"sec-fetch-site": "sec-fetch-site",
}


class Front:
    """ASGI middleware. `messaging` are the routes that allowed pages may call; `refused` keeps what is refused."""

    def __init__(
        self, app: ASGIApp, senders: Senders, proxies: Proxies, messaging: Sequence[Route], refused: RefusedCallLog
    ) -> None:
        self._app = app
        self._senders = senders
        self._proxies = proxies
        self._messaging = messaging
        self._refused = refused

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        scope["client"] = self._proxies.client_of(scope)
        send = self._refused.watching(scope, send)
        try:
            page = self._check(scope)
        except Forbidden as forbidden:
            await Answer({"error": forbidden.text}, 403)(scope, receive, _completing(send, None))
            return
        answer = _completing(send, page)
        if page is not None and scope["method"] == "OPTIONS":
            await self._preflight(scope)(scope, receive, answer)
            return
        await self._app(scope, receive, answer)

    def _check(self, scope: Scope) -> str | None:
        """The origin of the allowed page that sent the request, None without one. Raises Forbidden."""
        found: dict[str, str] = {}
        path = scope["path"].lower()
        is_control = path == _CONTROL or path.startswith(f"{_CONTROL}/")
        for raw_name, raw_value in scope["headers"]:
            name = _ASKED.get(raw_name)
            if name is None:
                continue
            value = raw_value.decode("latin-1")
            # Of several, each has to be in order: which one a proxy went by is not known.
            if name == "host" and value:
                self._senders.check_host(value, is_control=is_control)
            found.setdefault(name, value)
        if "origin" not in found and "sec-fetch-site" not in found:
            return None
        return self._senders.check_page(found, takes_pages=self._route(scope) is not None)

    def _route(self, scope: Scope) -> Route | None:
        return next((route for route in self._messaging if route.matches(scope)[0] is not Match.NONE), None)

    def _preflight(self, scope: Scope) -> Response:
        """What a browser asks before an allowed page's call (D-271)."""
        route = self._route(scope)
        assert route is not None, "only operations of the messaging API take pages"
        endpoint = cast(Endpoint[object], route.endpoint)
        asked = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        headers = [
            ("Access-Control-Allow-Methods", ", ".join(endpoint.methods)),
            ("Access-Control-Max-Age", str(_PREFLIGHT_S)),
        ]
        wanted = asked.get("access-control-request-headers", "").strip()
        if _HEADER_NAMES.fullmatch(wanted):
            headers.append(("Access-Control-Allow-Headers", wanted))
        if asked.get("access-control-request-private-network") == "true":
            headers.append(("Access-Control-Allow-Private-Network", "true"))
        return Answer(status=204, headers=tuple(headers))


def _completing(send: Send, page: str | None) -> Send:
    """A `send` that adds to an answer's headers what every answer has, and what a page's browser asks for."""
    added = [_NOSNIFF]
    if page is not None:
        added += [
            (b"access-control-allow-origin", page.encode("latin-1")),
            (b"access-control-expose-headers", b"*"),
            (b"vary", b"Origin"),
        ]

    async def complete(message: Message) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message.get("headers", ()), *added]
        await send(message)

    return complete
