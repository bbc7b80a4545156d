"""Strict mode: a middleware that holds every request and every answer against the contract.

What does not match is logged and named in a header of the answer. Options that the emulator takes
and does not apply are refused.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from emulator.api.callers import known_caller, meant_world
from emulator.api.endpoint import RoutedRequest, read_request, refusal
from emulator.contract import files
from emulator.contract.check import Contract
from emulator.contract.document import Api, Match
from emulator.core.errors import NotFound, Refused, WorldBroken
from emulator.core.world_setup import DEFAULT
from emulator.wire.parts import RequestParts, is_control
from emulator.worlds.registry import Worlds
from emulator.worlds.world import World

logger = logging.getLogger(__name__)

# The same in every dialect, because it is the emulator's own.
HEADER = "Svc-Emulator-Contract"
_MOST_CHARACTERS = 2_000


class StrictMode:
    """ASGI middleware. The contract is read at the first request."""

    def __init__(self, app: ASGIApp, worlds: Worlds) -> None:
        self._app = app
        self._worlds = worlds
        self._dialect = worlds.dialect
        self._contract: Contract | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        raw_path = scope.get("raw_path") or scope["path"].encode()
        found = self._opened().find(scope["method"], raw_path.decode("latin-1")).operation
        if found is not None and found.content.get("x-streamed") is True:
            # Its body may be larger than the memory, and is held against nothing but itself.
            await self._app(scope, receive, send)
            return
        try:
            request = await read_request(scope, receive)
        except Refused as refused:
            await refusal(refused, scope["path"], self._dialect)(scope, receive, send)
            return
        contract = self._opened()
        match = contract.find(request.parts.method, request.parts.path)
        findings = contract.request(match, request.parts)
        for each in findings.wrong:
            self._world_of(request.parts).mismatches.add(_name(match, request.parts), each)
        answer = _Answer(contract, match, request, findings.wrong, send)
        if findings.refusal is not None:
            response = refusal(findings.refusal, scope["path"], self._dialect, request.parts.query)
            await response(scope, receive, answer.send)
            return
        await self._app(scope, _replay(request.parts.body, receive), answer.send)

    def _world_of(self, parts: RequestParts) -> World:
        """The world that a call is about, the default one if it names none: tests in parallel see their own (D-337)."""
        if is_control(parts.path):
            try:
                return meant_world(self._worlds, parts)
            except (NotFound, WorldBroken):
                return self._worlds.get(DEFAULT)
        caller = known_caller(self._worlds, parts)
        return self._worlds.get(DEFAULT) if caller is None else caller.world

    def _opened(self) -> Contract:
        if self._contract is None:
            try:
                documents = files.documents(tuple(Api), self._dialect)
            except files.UnreadableContract as error:
                logger.error("strict mode has no contract: %s", error)
                documents = {}
            self._contract = Contract(documents, self._dialect)
        return self._contract


def _replay(body: bytes, receive: Receive) -> Receive:
    """A receive function that gives the body in one piece, and then what the server sends."""
    waiting: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> Message:
        return waiting.pop() if waiting else await receive()

    return again


class _Answer:
    """An answer that is being sent. JSON is held back until it is whole; anything else is passed on piece by piece."""

    def __init__(
        self, contract: Contract, match: Match, request: RoutedRequest, wrong: Sequence[str], send: Send
    ) -> None:
        self._contract = contract
        self._match = match
        self._request = request
        self._wrong = wrong
        self._send = send
        self._start: Message | None = None
        self._pieces: list[bytes] = []

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._start = message
            if not self._is_held:
                await self._begin(None)
        elif self._start is None or message["type"] != "http.response.body":
            await self._send(message)
        else:
            self._pieces.append(message.get("body", b""))
            if not message.get("more_body", False):
                body = b"".join(self._pieces)
                await self._begin(body)
                await self._send({"type": "http.response.body", "body": body, "more_body": False})

    @property
    def _is_held(self) -> bool:
        content_type = dict(_pairs(self._start)).get("content-type", "")
        return not content_type or content_type.startswith("application/json")

    async def _begin(self, body: bytes | None) -> None:
        start, self._start = self._start, None
        assert start is not None
        parts = self._request.parts
        checked = self._contract.answer(self._match, start["status"], _pairs(start), body)
        wrong = [*(f"request: {each}" for each in self._wrong), *(f"response: {each}" for each in checked)]
        name = _name(self._match, parts)
        for each in wrong:
            logger.warning("contract: %s: %s", name, each)
        if wrong:
            start = {**start, "headers": [*start.get("headers", ()), (HEADER.lower().encode(), _header_value(wrong))]}
        await self._send(start)


def _name(match: Match, parts: RequestParts) -> str:
    """The operation by its template, because a path may hold secrets; the method alone if there is none."""
    return parts.method if match.operation is None else match.operation.name


def _pairs(start: Message | None) -> tuple[tuple[str, str], ...]:
    headers = () if start is None else start.get("headers", ())
    return tuple((name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in headers)


def _header_value(wrong: list[str]) -> bytes:
    line = " | ".join(wrong).encode("ascii", "replace").decode()
    line = "".join(character if character.isprintable() else " " for character in line)
    return (line if len(line) <= _MOST_CHARACTERS else f"{line[:_MOST_CHARACTERS]}...").encode()
