"""What the calls under way are told when their server ends."""

from __future__ import annotations

from dataclasses import dataclass

from starlette.responses import Response
from starlette.types import Scope

from emulator.api.callers import known_caller
from emulator.api.endpoint import Answer
from emulator.core.errors import Refused
from emulator.core.world_setup import DEFAULT
from emulator.wire.instants import iso
from emulator.wire.parts import RequestParts, read_parts
from emulator.worlds.registry import Worlds
from emulator.worlds.world import World

STATUS = 503
TEXT = "the server is stopping"


@dataclass(frozen=True, slots=True)
class Ending:
    """The end of a server, as the worlds behind it see it."""

    worlds: Worlds

    def begin(self) -> None:
        """Let calls answer now that only wait for the deliveries they caused."""
        for world in self.worlds.all():
            world.driver.hurry()

    def answer(self, scope: Scope) -> Response:
        """The answer to a call that is cut off: where the clock of its world stands (D-291)."""
        world = self._world_of(scope)
        where = "" if world is None else f", the clock stands at {iso(world.clock.now_ms)}"
        return Answer({"error": f"{TEXT}{where}"}, STATUS)

    def _world_of(self, scope: Scope) -> World | None:
        """The world that a call is about, None if it names none."""
        try:
            parts = read_parts(
                method=scope["method"],
                raw_path=scope.get("raw_path") or scope["path"].encode(),
                query_string=scope["query_string"],
                raw_headers=scope["headers"],
                body=b"",
                client_ip="",
            )
            return self._by_name(parts) if parts.path.startswith("/_emulator") else self._by_credentials(parts)
        except Refused:
            return None

    def _by_name(self, parts: RequestParts) -> World:
        return self.worlds.get(dict(parts.query).get("world", DEFAULT))

    def _by_credentials(self, parts: RequestParts) -> World | None:
        caller = known_caller(self.worlds, parts)
        return None if caller is None else caller.world
