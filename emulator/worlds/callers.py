"""Who a token or a login belongs to, in whichever world, found in the same time whatever they are (D-276)."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b

from emulator.core import facts
from emulator.core.model.names import AccountId
from emulator.core.state_view import StateView
from emulator.worlds.credentials import accounts_of
from emulator.worlds.world import World

_CHANGES = frozenset((facts.AccountChanged, facts.AccountTokenRotated))


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who makes a messaging call: the world and account behind a token."""

    world: World
    account_id: AccountId
    is_read_only: bool


class Callers:
    """The credentials of all worlds.

    They are found by a digest whose key nobody else knows: how long a search takes says nothing of
    how much of a guess is right, and nothing of how many worlds there are.
    """

    def __init__(self) -> None:
        self._key = secrets.token_bytes(32)
        self._by_token: dict[bytes, Caller] = {}
        self._by_login: dict[bytes, World] = {}
        self._of_world: dict[str, list[bytes]] = {}

    def by_token(self, token: str) -> Caller | None:
        """Whose messaging token this is; None for nobody's."""
        return self._by_token.get(self._digest(token))

    def by_login(self, username: str, password: str) -> World | None:
        """Which world's management credentials these are."""
        return self._by_login.get(self._digest(username, password))

    def observe(self, world: World, state: StateView, produced: Sequence[facts.Fact]) -> None:
        """An observer of worlds: without facts the world has begun, or begun again."""
        if not produced or not _CHANGES.isdisjoint(map(type, produced)):
            self._learn(world, state)

    def _learn(self, world: World, state: StateView) -> None:
        self.forget(world.id)
        found: dict[bytes, Caller] = {}
        for account in accounts_of(state):
            for token, is_read_only in ((account.token, False), (account.read_only_token, True)):
                found[self._digest(token)] = Caller(world=world, account_id=account.id, is_read_only=is_read_only)
        login = self._digest(*world.login)
        self._by_token.update(found)
        self._by_login[login] = world
        self._of_world[world.id] = [login, *found]

    def forget(self, world_id: str) -> None:
        """A world has gone, or has other credentials."""
        for digest in self._of_world.pop(world_id, ()):
            self._by_token.pop(digest, None)
            self._by_login.pop(digest, None)

    def _digest(self, *texts: str) -> bytes:
        joined = "\0".join(texts).encode("utf-8", "surrogatepass")
        return blake2b(joined, key=self._key, digest_size=32).digest()
