"""The account behind a request, found by its credentials; what they permit is checked elsewhere."""

from __future__ import annotations

from emulator.core.errors import Refused
from emulator.core.record import AccountId, Record
from emulator.core.world_setup import DEFAULT
from emulator.wire.parts import RequestParts, authorization_token, basic_credentials, bearer_token
from emulator.worlds.registry import Worlds
from emulator.worlds.world import World


class Known(Record, gc=True):
    """A world whose credentials a request has, and the account if they are an account's."""

    world: World
    account_id: AccountId | None = None
    is_read_only: bool = False


def known_caller(worlds: Worlds, parts: RequestParts) -> Known | None:
    """Whose credentials a request of the messaging or management API has, None for unknown ones."""
    login = basic_credentials(parts)
    if login is not None:
        world = worlds.by_login(login.username, login.password)
        return None if world is None else Known(world=world)
    try:
        token = bearer_token(parts, worlds.dialect)
    except Refused:
        return None
    return None if token is None else known_token(worlds, token)


def meant_world(worlds: Worlds, parts: RequestParts) -> World:
    """The world that a control call is about (D-433). Raises NotFound.

    The query's, or else that of the token in `Authorization`, or else `default`.
    """
    named = [value for name, value in parts.query if name == "world"]
    if named:
        return worlds.get(named[-1])
    token = authorization_token(parts)
    caller = None if token is None else worlds.by_token(token)
    return worlds.get(DEFAULT) if caller is None else caller.world


def known_token(worlds: Worlds, token: str) -> Known | None:
    """Whose token this is, None for an unknown one."""
    caller = worlds.by_token(token)
    if caller is None:
        return None
    return Known(world=caller.world, account_id=caller.account_id, is_read_only=caller.is_read_only)
