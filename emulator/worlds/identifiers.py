"""Which worlds have an id or a token, told in the same time however many worlds there are (D-301)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from emulator.core import facts
from emulator.core.state_view import StateView
from emulator.worlds.credentials import identifiers_of
from emulator.worlds.world import World

# After these the identifiers of a world may be others.
_CHANGES = frozenset(
    {facts.AccountChanged, facts.AccountTokenRotated, facts.SearchIndexCreated, facts.SearchIndexDeleted}
)


class Identifiers:
    """The ids and tokens of all worlds, the latter named by their ids."""

    def __init__(self) -> None:
        # Worlds that were opened from copies of one file have the same identifiers.
        self._holders: dict[str, tuple[str, ...]] = {}
        self._held: dict[str, frozenset[str]] = {}

    def observe(self, world: World, state: StateView, produced: Sequence[facts.Fact]) -> None:
        """An observer of worlds: without facts the world has begun, or begun again."""
        if not produced or not _CHANGES.isdisjoint(map(type, produced)):
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
