"""One call of the control API: what every handler gets, and what a route consists of."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

import msgspec
from starlette.responses import Response

from emulator.api.endpoint import Request
from emulator.core.errors import InvalidInput
from emulator.core.world_setup import DEFAULT
from emulator.wire.dialect import Dialect
from emulator.wire.json_fields import Json
from emulator.wire.parts import RequestParts
from emulator.worlds.registry import Worlds
from emulator.worlds.world import World


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlCall:
    """A control call. `world` is looked up only when a handler asks for it."""

    request: Request
    worlds: Worlds

    @property
    def parts(self) -> RequestParts:
        return self.request.parts

    @property
    def dialect(self) -> Dialect:
        return self.worlds.dialect

    @property
    def world(self) -> World:
        """The world that the query names, `default` without one. Raises NotFound."""
        named = [value for name, value in self.parts.query if name == "world"]
        return self.worlds.get(named[-1] if named else DEFAULT)

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


Handler = Callable[[ControlCall], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class Route:
    """A path under `/_emulator` and its operations by method.

    The handlers of a route that `reads_query` check the query themselves. For others `world` is
    the only parameter there is.
    """

    path: str
    handlers: Mapping[str, Handler]
    reads_query: bool = False
