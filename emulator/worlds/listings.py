"""The messages of a world as lists, made of the live state and of history together."""

from __future__ import annotations

from emulator.core.state_view import StateView
from emulator.journal.listings import MessageListing
from emulator.journal.store import Store
from emulator.queries import listings
from emulator.queries.history import Page
from emulator.queries.listings import ListedMessage, MessageQuery


class Listings:
    """Lists of one world. They change nothing."""

    def __init__(self, state: StateView, store: Store) -> None:
        self._state = state
        self._messages = MessageListing(store)

    async def messages(self, query: MessageQuery) -> Page[ListedMessage]:
        """One page of all messages. Raises InvalidInput for a cursor that is none of ours."""
        at = listings.moment(self._state)
        page = await self._messages.page(query, at)
        return Page(items=listings.listed(self._state, at, page.items), cursor=page.cursor)
