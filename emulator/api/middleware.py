"""What every request passes first and every answer last, whatever operation it is for.

An ASGI middleware: it finds out whose request it is, refuses those that a foreign web page may have
sent, and answers the browsers of allowed pages as CORS wants it.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from typing import cast
from urllib.parse import unquote

from starlette.responses import Response
from starlette.routing import Match, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from emulator.api.endpoint import Answer, Bodies, PathEndpoint
from emulator.api.next_steps import with_next_step
from emulator.api.origins import AllowedOrigins, Proxies, follows_link
from emulator.api.refused import RefusedCallLog, timed
from emulator.core.errors import Forbidden
from emulator.wire.messaging.outgoing import is_delivery
from emulator.wire.parts import NOT_BY_MESSAGE, TAKES_NO_DELIVERIES, is_control, leads_to_control

# In a scope: the status of its answer, once that has begun.
_STATUS = "emulator.status"
# More than any client has; servers have such a limit, of 100 or so (D-810).
_MOST_HEADERS = 1_000
# A browser must not take what was delivered, or an answer in JSON, for a page.
_NOSNIFF = (b"x-content-type-options", b"nosniff")
# Longer than a page stays open between two calls, shorter than a server is used with the same settings.
_PREFLIGHT_S = 600
_READS = frozenset(("GET", "HEAD", "OPTIONS"))
_HEADER_NAMES = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+(?:\s*,\s*[!#$%&'*+.^_`|~0-9A-Za-z-]+)*")
_ENCODED_SLASH = re.compile("%(2f)", re.IGNORECASE)
# What the base URL of a client begins a path with that ends in a slash.
_SLASHES = re.compile(rb"/+(?=/v2/)", re.IGNORECASE)
_ASKED = {
    b"host": "host",
    b":authority": "host",
    b"origin": "origin",
    b"sec-fetch-site": "sec-fetch-site",
    b"sec-fetch-mode": "sec-fetch-mode",
    b"sec-fetch-dest": "sec-fetch-dest",
}


class RequestGuard:
    """ASGI middleware. Allowed pages may call the routes `messaging`, and any site may link to the routes `pages`.

    `refused` keeps what is refused. `answered` is called after each answer, with the path of the operation,
    the status, and the seconds that it took; a path without an operation is "none".
    """

    def __init__(
        self,
        app: ASGIApp,
        allowed_origins: AllowedOrigins,
        proxies: Proxies,
        messaging: Sequence[Route],
        pages: Sequence[Route],
        refused: RefusedCallLog,
        answered: Callable[[str, int, float], None],
    ) -> None:
        self._app = app
        self._senders = allowed_origins
        self._proxies = proxies
        self._messaging = messaging
        self._pages = pages
        self._refused = refused
        self._answered = answered
        self._bodies = Bodies()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began_s = time.perf_counter()
        # An application around this one may have a limit of its own.
        bodies: Bodies = scope.setdefault(Bodies.ALL, self._bodies)
        try:
            await self._answer(scope, receive, send)
        finally:
            bodies.release(scope)
            status, endpoint = scope.get(_STATUS), scope.get("endpoint")
            # Without a status the client has gone.
            if status is not None:
                path = endpoint.path if isinstance(endpoint, PathEndpoint) else "none"
                self._answered(path, status, time.perf_counter() - began_s)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["client"] = self._proxies.client_of(scope)
        raw_path = scope.get("raw_path") or b""
        if (slashes := _SLASHES.match(raw_path)) is not None:
            # Only of the service's own paths, so that no other is found by a second spelling (D-803).
            raw_path = scope["raw_path"] = raw_path[slashes.end() :]
            scope["path"] = scope["path"].removeprefix(slashes[0].decode())
        if b"%2f" in raw_path.lower():
            # An encoded slash belongs to a name, and is no end of one: the operation is found so (D-303).
            scope["path"] = unquote(_ENCODED_SLASH.sub(r"%25\1", raw_path.decode("latin-1")))
        send = timed(scope, send)
        if len(scope["headers"]) > _MOST_HEADERS:
            text = f"expected at most {_MOST_HEADERS} header fields, got {len(scope['headers'])}"
            answer = Answer(with_next_step({"error": text}, scope["path"], 431), 431)
            await answer(scope, receive, self._completing(scope, send, None))
            return
        try:
            page = self._check(scope)
        except Forbidden as forbidden:
            answer = Answer(with_next_step({"error": forbidden.text}, scope["path"], 403, forbidden), 403)
            await answer(scope, receive, self._completing(scope, send, None))
            return
        complete = self._completing(scope, send, page)
        if page is not None and scope["method"] == "OPTIONS":
            await self._preflight(scope)(scope, receive, complete)
            return
        await self._app(scope, receive, complete)

    def _check(self, scope: Scope) -> str | None:
        """The origin of the allowed page that sent the request, None without one. Raises Forbidden."""
        found: dict[str, str] = {}
        hosts: list[str] = []
        is_signed = False
        for raw_name, raw_value in scope["headers"]:
            name = _ASKED.get(raw_name)
            if name is None:
                is_signed = is_signed or raw_name[-9:].lower() == b"signature"
                continue
            value = raw_value.decode("latin-1")
            if name == "host" and value:
                hosts.append(value)
            found.setdefault(name, value)
        if is_signed:
            # Before the host, which another option would let in.
            _refuse_delivery_to_control(scope)
        # Of several, each has to be in order: which one a proxy went by is not known.
        for host in hosts:
            self._senders.check_host(host, is_control=is_control(_path_below_mount(scope)))
        if "origin" not in found and "sec-fetch-site" not in found:
            return None
        if scope["method"] == "GET" and follows_link(found) and _route(self._pages, scope) is not None:
            return None
        takes_pages = _route(self._messaging, scope) is not None
        return self._senders.check_page(found, takes_pages=takes_pages, is_read=scope["method"] in _READS)

    def _preflight(self, scope: Scope) -> Response:
        """What a browser asks before an allowed page's call (D-271)."""
        route = _route(self._messaging, scope)
        assert route is not None, "only operations of the messaging API take pages"
        endpoint = cast(PathEndpoint[object], route.endpoint)
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

    def _completing(self, scope: Scope, send: Send, page: str | None) -> Send:
        """A `send` that adds to an answer's headers what every answer has, and what a page's browser asks for.

        A refusal is recorded as it is sent, which is in one piece.
        """
        added = [_NOSNIFF]
        if page is not None:
            added += [
                (b"access-control-allow-origin", page.encode("latin-1")),
                (b"access-control-expose-headers", b"*"),
                (b"vary", b"Origin"),
            ]
        refused = 0

        async def complete(message: Message) -> None:
            nonlocal refused
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *added]
                scope[_STATUS] = message["status"]
                if 400 <= message["status"] < 500:
                    refused = message["status"]
            elif refused:
                # Before its client has it, who may ask for the list at once.
                self._refused.keep(scope, refused, message.get("body", b""))
                refused = 0
            await send(message)

        return complete


def _refuse_delivery_to_control(scope: Scope) -> None:
    """Raises Forbidden for a delivery to the control API, however it came here and however its path is spelt (D-771).

    It may have come through a proxy, a published port, another emulator or a mount, so that the transport that sent
    it did not know where it would end.
    """
    if not is_delivery(name for name, _ in scope["headers"]):
        return
    readings = (_path_below_mount(scope), scope["path"], (scope.get("raw_path") or b"").decode("latin-1"))
    if any(leads_to_control(reading) for reading in readings):
        raise Forbidden(TAKES_NO_DELIVERIES, NOT_BY_MESSAGE)


def _path_below_mount(scope: Scope) -> str:
    """The path as the router sees it: where an application around this one mounts it, without that part."""
    path: str = scope["path"]
    root: str = scope.get("root_path", "")
    return path[len(root) :] if root and path.startswith(f"{root}/") else path


def _route(routes: Sequence[Route], scope: Scope) -> Route | None:
    return next((route for route in routes if route.matches(scope)[0] is not Match.NONE), None)
