"""The statistics of one world: its accounts and indexes as they stand, their numbers, and the JSON of both."""

from __future__ import annotations

from collections.abc import Iterable

from emulator.core.errors import NotFound
from emulator.core.model import AccountId, IndexId
from emulator.core.rules.search_indexes import search_index
from emulator.core.state_view import StateView
from emulator.journal.store import Store
from emulator.journal.usage import UsageHistory
from emulator.statistics import profiles
from emulator.statistics.series import (
    DEFAULT_PERIOD,
    IndexStatistics,
    Window,
    index_statistics,
    queue_statistics,
    read_period,
    summary,
    throughput,
)
from emulator.statistics.synthetic import IndexProfile
from emulator.wire.dialect import Dialect
from emulator.wire.json_fields import Json
from emulator.wire.management import statistics as statistics_json


class Statistics:
    """Answers for the state of a world at the virtual now; nothing of it is kept."""

    def __init__(self, store: Store, epoch_ms: int, dialect: Dialect) -> None:
        self._usage = UsageHistory(store)
        self._epoch_ms = epoch_ms
        self._dialect = dialect

    async def clock_set_back(self, to_ms: int) -> None:
        """The clock of the unused world was set back: what is recorded begins there."""
        await self._usage.set_back(to_ms)

    async def queue_account(self, state: StateView, account_id: AccountId, period: str | None) -> dict[str, Json]:
        """Raises NotFound, and InvalidInput naming the period."""
        window = Window(now_ms=state.now_ms, period=read_period(period))
        if account_id not in state.accounts:
            raise NotFound(f"account {account_id} not found")
        beginning = await self._usage.beginning()
        recorded = await self._usage.recorded(account_id, window)
        book = state.accounts[account_id]
        first_record = beginning.accounts.get(account_id, book.account)
        number = 1 + list(state.accounts).index(account_id)
        invented = profiles.before_the_world(state.key, number, first_record, beginning.at_ms)
        return statistics_json.queue_statistics_view(
            queue_statistics(window, recorded, invented, book.account, len(book.dead_letters)), self._dialect
        )

    def vector_index(self, state: StateView, index_id: IndexId, period: str | None) -> dict[str, Json]:
        """Raises NotFound, and InvalidInput naming the period."""
        return statistics_json.index_statistics_view(self._of_vector_index(state, index_id, period))

    def search_index(self, state: StateView, index_id: IndexId, period: str | None) -> dict[str, Json]:
        """A search index in the shape of a vector index (D-200). Raises as `vector_index` does."""
        return statistics_json.index_statistics_view(self._of_search_index(state, index_id, period))

    def search_throughput(self, state: StateView, index_id: IndexId) -> list[Json]:
        """The `throughput_vector` of a search index: the last hour (D-200). Raises NotFound."""
        window = Window(now_ms=state.now_ms, period=DEFAULT_PERIOD)
        return statistics_json.throughput_view(window, throughput(window, self._search_profile(state, index_id)))

    def search_summary(self, state: StateView) -> dict[str, Json]:
        """What all search indexes of the world come to."""
        return _summary(self._of_search_index(state, index_id, None) for index_id in state.search_indexes)

    def vector_summary(self, state: StateView) -> dict[str, Json]:
        """What all vector indexes of the world come to."""
        return _summary(self._of_vector_index(state, index_id, None) for index_id in state.vector_indexes)

    def _of_vector_index(self, state: StateView, index_id: IndexId, period: str | None) -> IndexStatistics:
        window = Window(now_ms=state.now_ms, period=read_period(period))
        index = state.vector_indexes.get(index_id)
        if index is None:
            raise NotFound(f"vector index {index_id} not found")
        profile = profiles.vector_index_profile(state.key, index, self._epoch_ms)
        return index_statistics(window, profile, index.type)

    def _of_search_index(self, state: StateView, index_id: IndexId, period: str | None) -> IndexStatistics:
        window = Window(now_ms=state.now_ms, period=read_period(period))
        profile = self._search_profile(state, index_id)
        return index_statistics(window, profile, search_index(state, index_id).type)

    def _search_profile(self, state: StateView, index_id: IndexId) -> IndexProfile:
        return profiles.search_index_profile(state.key, search_index(state, index_id), self._epoch_ms)


def _summary(indexes: Iterable[IndexStatistics]) -> dict[str, Json]:
    return statistics_json.index_summary_view(summary(tuple(indexes)))
