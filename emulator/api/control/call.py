"""One call of the control API: what every handler gets, and what each route declares."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import msgspec

from emulator.api.callers import meant_world
from emulator.api.control.options import ControlOptions
from emulator.api.endpoint import Opener, Request, Route
from emulator.core.errors import InvalidInput
from emulator.core.record import Record
from emulator.wire.dialect import Dialect
from emulator.wire.json_fields import Json
from emulator.wire.parts import RequestParts
from emulator.worlds.registry import Worlds
from emulator.worlds.world import World


class ControlCall(Record, gc=True):
    """A control call. `world` is looked up only when a handler asks for it."""

    request: Request
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
        if not self.parts.body:
            return None
        try:
            content: Json = msgspec.json.decode(self.parts.body)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise InvalidInput("body", f"expected JSON: {error}") from error
        except RecursionError:
            raise InvalidInput("body", "expected JSON: too many nested values") from None
        return content


class Policy(Record):
    """Which parameters an operation has."""

    # The handler reads the query, and refuses what it does not know. Without it `world` is the only parameter.
    reads_query: bool = False
    # Whether it needs the control token, if the server has one.
    needs_token: bool = True
    # Whether it is a page, which shows itself and changes nothing: links of other sites lead there too (D-304).
    is_page: bool = False


WORLD_ONLY = Policy()
OWN_QUERY = Policy(reads_query=True)
PUBLIC = Policy(reads_query=True, needs_token=False)
PAGE = Policy(reads_query=True, needs_token=False, is_page=True)

ControlRoute: TypeAlias = Route[ControlCall, Policy]


def opener(worlds: Worlds, options: ControlOptions, policies: Mapping[str, Policy]) -> Opener[ControlCall]:
    """What makes a call of a request to one path, whose operations have these policies by method."""

    async def open_call(request: Request) -> ControlCall:
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
