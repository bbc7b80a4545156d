"""Which world an id, a token or a login belongs to, found in the same time however many worlds there are (D-301)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from emulator.core.model import AccountId
from emulator.worlds.credentials import accounts_of, identifiers_of
from emulator.worlds.world import World


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who makes a messaging call: the world and account behind a token."""

    world: World
    account_id: AccountId
    is_read_only: bool


class Directory:
    """The identifiers and logins of all worlds, as of the last `put` of each."""

    def __init__(self) -> None:
        # Worlds that were opened from copies of one file have the same identifiers; the first is found.
        self._holders: dict[str, tuple[World, ...]] = {}
        self._held: dict[World, frozenset[str]] = {}
        self._callers: dict[str, Caller] = {}
        self._logins: dict[tuple[str, str], World] = {}

    def put(self, world: World) -> None:
        """Take in a world, or what it has become."""
        before, present = self._held.get(world, frozenset()), frozenset(identifiers_of(world.state))
        self._drop(world, before - present)
        for identifier in present - before:
            self._holders[identifier] = (*self._holders.get(identifier, ()), world)
        for identifier in present:
            self._callers.pop(identifier, None)
        self._held[world] = present
        self._logins[world.login] = world

    def remove(self, world: World) -> None:
        self._drop(world, self._held.pop(world, frozenset()))
        self._logins.pop(world.login, None)

    def _drop(self, world: World, identifiers: Iterable[str]) -> None:
        for identifier in identifiers:
            self._callers.pop(identifier, None)
            others = tuple(each for each in self._holders[identifier] if each is not world)
            if others:
                self._holders[identifier] = others
            else:
                del self._holders[identifier]

    def holders(self, identifier: str) -> tuple[World, ...]:
        """The worlds that have an id or a token."""
        return self._holders.get(identifier, ())

    def by_token(self, token: str) -> Caller | None:
        """Whose messaging token this is; None for nobody's."""
        known = self._callers.get(token)
        if known is not None:
            return known
        for world in self.holders(token):
            for account in accounts_of(world.state):
                if token in (account.token, account.read_only_token):
                    caller = Caller(world=world, account_id=account.id, is_read_only=token == account.read_only_token)
                    self._callers[token] = caller
                    return caller
        return None

    def by_login(self, username: str, password: str) -> World | None:
        """Which world's management credentials these are."""
        return self._logins.get((username, password))
