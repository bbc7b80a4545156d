"""The statistics of one world at the virtual now: what its journal recorded and what is invented, put together."""

from __future__ import annotations

from emulator.core.errors import NotFound
from emulator.core.record import AccountId, IndexId
from emulator.core.rules.accounts import search_index
from emulator.core.state import StateView, account_state
from emulator.journal.store import Store
from emulator.journal.usage import UsageHistory
from emulator.statistics import profiles, series
from emulator.statistics.series import (
    DEFAULT_PERIOD,
    IndexStatistics,
    IndexSummary,
    QueueStatistics,
    Throughput,
    Window,
    WorkflowStatistics,
    workflow_statistics,
)
from emulator.statistics.synthetic import IndexProfile


class Statistics:
    """Nothing of it is kept: each answer is computed from the present `state`, and from what `usage` has recorded."""

    def __init__(self, state: StateView, store: Store, epoch_ms: int) -> None:
        self._state = state
        self.usage = UsageHistory(store)
        self._epoch_ms = epoch_ms

    async def workflows(self, account_id: AccountId, period: str | None) -> WorkflowStatistics:
        """Of the runs of a queue account. Raises NotFound, and InvalidInput naming the period."""
        window = self._window(period)
        account_state(self._state, account_id)
        return workflow_statistics(window, await self.usage.recorded_workflows(account_id, window))

    async def queue_account(self, account_id: AccountId, period: str | None) -> QueueStatistics:
        """Raises NotFound, and InvalidInput naming the period."""
        window = self._window(period)
        account_state(self._state, account_id)
        beginning = await self.usage.beginning()
        recorded = await self.usage.recorded(account_id, window)
        owner = self._state.accounts[account_id]
        first_record = beginning.accounts.get(account_id, owner.account)
        number = 1 + list(self._state.accounts).index(account_id)
        invented = profiles.before_the_world(self._state.key, number, first_record, beginning.at_ms)
        return series.queue_statistics(window, recorded, invented, owner.account, len(owner.dead_letters))

    def vector_index(self, index_id: IndexId, period: str | None) -> IndexStatistics:
        """Raises NotFound, and InvalidInput naming the period."""
        window = self._window(period)
        index = self._state.vector_indexes.get(index_id)
        if index is None:
            raise NotFound("vector index", index_id)
        profile = profiles.vector_index_profile(self._state.key, index, self._epoch_ms)
        return series.index_statistics(window, profile, index.type)

    def search_index(self, index_id: IndexId, period: str | None) -> IndexStatistics:
        """Raises NotFound, and InvalidInput naming the period."""
        window = self._window(period)
        profile = self._search_profile(index_id)
        return series.index_statistics(window, profile, search_index(self._state, index_id).type)

    def search_throughput(self, index_id: IndexId) -> Throughput:
        """The `throughput_vector` of a search index: the last hour (D-200). Raises NotFound."""
        window = Window(now_ms=self._state.now_ms, period=DEFAULT_PERIOD)
        return series.throughput(window, self._search_profile(index_id))

    def search_summary(self) -> IndexSummary:
        """All search indexes of the world together."""
        return series.summary([self.search_index(index_id, None) for index_id in self._state.search_indexes])

    def vector_summary(self) -> IndexSummary:
        """All vector indexes of the world together."""
        return series.summary([self.vector_index(index_id, None) for index_id in self._state.vector_indexes])

    def _search_profile(self, index_id: IndexId) -> IndexProfile:
        return profiles.search_index_profile(self._state.key, search_index(self._state, index_id), self._epoch_ms)

    def _window(self, period: str | None) -> Window:
        return Window(now_ms=self._state.now_ms, period=series.read_period(period))
