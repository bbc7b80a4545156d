"""One call of the control API: what every handler gets, what each route declares, and its query parameters."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TypeAlias

from emulator import resources
from emulator.api.callers import meant_world
from emulator.api.endpoint import Gate, Opener, Route, RoutedRequest
from emulator.core.errors import InvalidInput, Unauthenticated
from emulator.core.record import Record
from emulator.telemetry.counts import Counts
from emulator.telemetry.received import ReceivedSpans
from emulator.wire.dialect import Dialect
from emulator.wire.json_reader import Json, read_json
from emulator.wire.parts import CONTROL_TOKEN, RequestParts, authorization_token
from emulator.wire.query_reader import Pairs, control_query
from emulator.worlds.registry import Worlds
from emulator.worlds.world import World


class ControlCall(Record, gc=True):
    """A control call. `world` is looked up only when a handler asks for it."""

    request: RoutedRequest
    worlds: Worlds
    options: ControlOptions

    @property
    def parts(self) -> RequestParts:
        return self.request.parts

    @property
    def dialect(self) -> Dialect:
        return self.worlds.dialect

    @property
    def world(self) -> World:
        """The world that the call is about; see `meant_world`. Raises NotFound."""
        return meant_world(self.worlds, self.parts)

    @property
    def name(self) -> str:
        return self.request.path_parameters["name"]

    @property
    def body(self) -> Json:
        """The JSON body, None without one. Raises InvalidInput."""
        return read_json(self.parts.body) if self.parts.body else None


class ControlPolicy(Record):
    """Which parameters an operation has."""

    # The handler reads the query, and refuses what it does not know. Without it `world` is the only parameter.
    reads_query: bool = False
    # Whether it needs the control token, if the server has one.
    needs_token: bool = True
    # Whether it is a page, which shows itself and changes nothing: links of other sites lead there too (D-304).
    is_page: bool = False


WORLD_ONLY = ControlPolicy()
OWN_QUERY = ControlPolicy(reads_query=True)
PUBLIC = ControlPolicy(reads_query=True, needs_token=False)
PAGE = ControlPolicy(reads_query=True, needs_token=False, is_page=True)

ControlRoute: TypeAlias = Route[ControlCall, ControlPolicy]


def gate(options: ControlOptions, policies: Mapping[str, ControlPolicy]) -> Gate:
    """What asks for the control token, where one is needed, before a body is received (D-812)."""

    def check(parts: RequestParts) -> None:
        if policies[parts.method].needs_token:
            options.check_token(parts)

    return check


def opener(worlds: Worlds, options: ControlOptions, policies: Mapping[str, ControlPolicy]) -> Opener[ControlCall]:
    """What makes a call of a request to one path, whose operations have these policies by method."""

    async def open_call(request: RoutedRequest) -> ControlCall:
        policy = policies[request.parts.method]
        if not policy.reads_query:
            for name, _ in request.parts.query:
                if name != "world":
                    # A misspelt `world` must not act on the default one (D-127).
                    raise InvalidInput(name, "unknown parameter, expected world")
        if policy.needs_token:
            options.check_token(request.parts)
        return ControlCall(request=request, worlds=worlds, options=options)

    return open_call


class Inspector(StrEnum):
    """What the web page may do (D-321)."""

    ON = "on"
    READ_ONLY = "read-only"
    OFF = "off"


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlOptions:
    """`token` is what every call must carry, None if none is needed; `contracts` the folder of the documents shown,
    `book` that of the documentation, which need not be there (D-746).

    `is_strict`: the server checks every call against the contract, `counts` is what its
    metrics count, and `spans` are those of applications.
    """

    token: str | None
    inspector: Inspector = Inspector.ON
    contracts: Path = field(default_factory=partial(resources.path, "contracts"))
    book: Path = field(default_factory=partial(resources.path, "book"))
    is_strict: bool = False
    counts: Counts = field(default_factory=Counts)
    spans: ReceivedSpans = field(default_factory=ReceivedSpans)

    def check_token(self, parts: RequestParts) -> None:
        """Raises Unauthenticated without the server's control token.

        It may have a header of its own, where `Authorization` says which world is meant (D-433).
        """
        if self.token is not None:
            given = parts.header(CONTROL_TOKEN.lower()) or authorization_token(parts) or ""
            if not given:
                raise Unauthenticated("the control API needs its bearer token (--control-token)")
            if not hmac.compare_digest(given.encode(), self.token.encode()):
                raise Unauthenticated("the control API has another bearer token than the one given (--control-token)")


def read_run_shown(pairs: Pairs) -> tuple[int | None, bool]:
    """Which of the runs that have used an id is meant, None for the latest (D-692), and `redact` as `read_shown`.

    Raises: InvalidInput.
    """
    given = control_query(pairs, "number", "redact")
    return given.integer("number", 1, 2**53, 0) or None, given.flag("redact", default=True)


def read_shown(pairs: Pairs) -> bool:
    """The one parameter of what hides unless it is asked not to: `redact=false` (D-514). Raises: InvalidInput."""
    return control_query(pairs, "redact").flag("redact", default=True)
