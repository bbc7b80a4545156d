"""Who a token or a login belongs to, and which worlds have an id or a token, found in constant time (D-276, D-301)."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b

from emulator.core import resource_facts
from emulator.core.record import AccountId
from emulator.core.state import Fact, StateView
from emulator.worlds.setup import accounts_of, identifiers_of
from emulator.worlds.world import World

# Tokens of ended worlds that are remembered: those of the last few thousand tests.
_MOST_ENDED = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who makes a messaging call: the world and account behind a token."""

    world: World
    account_id: AccountId
    is_read_only: bool


class Callers:
    """The credentials of all worlds.

    They are found by a digest with a secret key: how long a search takes says nothing of
    how much of a guess is right, and nothing of how many worlds there are.
    """

    def __init__(self, most_ended: int = _MOST_ENDED) -> None:
        self._most_ended = most_ended
        self._key = secrets.token_bytes(32)
        self._by_token: dict[bytes, Caller] = {}
        self._by_login: dict[bytes, World] = {}
        self._of_world: dict[str, list[bytes]] = {}
        # The ids of worlds that have ended, by the digests of their tokens, the latest last.
        self._ended: dict[bytes, str] = {}

    def by_token(self, token: str) -> Caller | None:
        """Whose messaging token this is; None for an unknown one."""
        return self._by_token.get(self._digest(token))

    def by_login(self, username: str, password: str) -> World | None:
        """Which world's management credentials these are."""
        return self._by_login.get(self._digest(username, password))

    def learn(self, world: World, state: StateView) -> None:
        """Take over the credentials that a world has now."""
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

    def end(self, world_id: str) -> None:
        """A world has ended: its tokens are free, and `ended` remembers whose they were."""
        for digest in self._of_world.get(world_id, ())[1:]:
            self._ended.pop(digest, None)
            self._ended[digest] = world_id
        while len(self._ended) > self._most_ended:
            del self._ended[next(iter(self._ended))]
        self.forget(world_id)

    def ended(self, token: str) -> str | None:
        """The id of the last world that had this token and has ended; None if none is remembered."""
        return self._ended.get(self._digest(token))

    def _digest(self, *texts: str) -> bytes:
        joined = "\0".join(texts).encode("utf-8", "surrogatepass")
        return blake2b(joined, key=self._key, digest_size=32).digest()


# After these the credentials and identifiers of a world may be others.
_CHANGES = frozenset(
    {
        resource_facts.AccountChanged,
        resource_facts.AccountTokenRotated,
        resource_facts.SearchIndexCreated,
        resource_facts.SearchIndexDeleted,
    }
)


def may_differ(produced: Sequence[Fact]) -> bool:
    """Whether a world may have other credentials or identifiers after these facts; after none it has begun anew."""
    return not produced or not _CHANGES.isdisjoint(map(type, produced))


class Identifiers:
    """The ids and tokens of all worlds, the latter named by their ids."""

    def __init__(self) -> None:
        # Worlds that were opened from copies of one file have the same identifiers.
        self._holders: dict[str, tuple[str, ...]] = {}
        self._held: dict[str, frozenset[str]] = {}

    def learn(self, world: World, state: StateView) -> None:
        """Take over the identifiers that a world has now."""
        before, present = self._held.get(world.id, frozenset()), frozenset(identifiers_of(state))
        self._drop(world.id, before - present)
        for identifier in present - before:
            self._holders[identifier] = (*self._holders.get(identifier, ()), world.id)
        self._held[world.id] = present

    def forget(self, world_id: str) -> None:
        """A world has gone."""
        self._drop(world_id, self._held.pop(world_id, frozenset()))

    def _drop(self, world_id: str, identifiers: Iterable[str]) -> None:
        for identifier in identifiers:
            others = tuple(each for each in self._holders[identifier] if each != world_id)
            if others:
                self._holders[identifier] = others
            else:
                del self._holders[identifier]

    def found_elsewhere(self, identifiers: Iterable[str], world_id: str) -> tuple[str, str] | None:
        """The first of these that another world has as well, and that world's id; None if no other has any."""
        for identifier in sorted(identifiers):
            for holder in self._holders.get(identifier, ()):
                if holder != world_id:
                    return identifier, holder
        return None
