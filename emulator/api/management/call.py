"""A call of the management API: who makes it, and what every handler gets.

Source: interface document, "Management API". No limit on calls is shown, and there is none (D-188).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from starlette.responses import Response

from emulator.api.endpoint import Answer, Opener, Request, Route
from emulator.core.commands import Command
from emulator.core.errors import Unauthenticated
from emulator.core.model.names import AccountId, IndexId
from emulator.core.record import Record
from emulator.wire.credentials import basic_credentials
from emulator.wire.dialect import Dialect
from emulator.wire.media_types import check_accepts_json, check_is_json
from emulator.wire.parts import RequestParts
from emulator.worlds.registry import Worlds
from emulator.worlds.world import World

CHALLENGE = 'Basic realm="management API", charset="UTF-8"'


class ManagementCall(Record, gc=True):
    """A call of whoever owns a world. `owned` is None for an operation that needs no login."""

    request: Request
    dialect: Dialect
    owned: World | None

    @property
    def world(self) -> World:
        assert self.owned is not None, "this operation is declared to need no login"
        return self.owned

    @property
    def parts(self) -> RequestParts:
        return self.request.parts

    @property
    def body(self) -> bytes:
        """The body, which is JSON or says nothing of what it is. Raises InvalidInput."""
        check_is_json(self.parts)
        return self.parts.body

    @property
    def index_id(self) -> IndexId:
        return IndexId(self.request.path_parameters["name"])

    @property
    def account_id(self) -> AccountId:
        return AccountId(self.request.path_parameters["name"])

    async def carry_out(self, command: Command[object]) -> Response:
        """Submit a command whose reply is not shown; the answer is what the service gives then (D-167)."""
        await self.world.submit(command)
        return Answer("OK")

    @property
    def period(self) -> str | None:
        """The period of statistics as the query names it, None without one."""
        given = [value for name, value in self.parts.query if name == "period" and value]
        return given[-1] if given else None


class Policy(Record):
    """Who may call an operation."""

    needs_login: bool = True


OWNER = Policy()
ANYBODY = Policy(needs_login=False)

ManagementRoute: TypeAlias = Route[ManagementCall, Policy]


def opener(worlds: Worlds, policies: Mapping[str, Policy]) -> Opener[ManagementCall]:
    """What makes a call of a request to one path, whose operations have these policies by method."""

    async def open_call(request: Request) -> ManagementCall:
        owned: World | None = None
        if policies[request.parts.method].needs_login:
            given = basic_credentials(request.parts)
            owned = None if given is None else worlds.by_login(given.username, given.password)
            if owned is None:
                raise Unauthenticated("unable to authenticate: the management API needs a user name and password")
        check_accepts_json(request.parts)
        if owned is not None:
            await owned.current_state()
        return ManagementCall(request=request, dialect=worlds.dialect, owned=owned)

    return open_call
