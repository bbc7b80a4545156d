"""Reading what passed through accounts, from the counts that the meters keep."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from emulator.core.language.calendar import DAY_MINUTES
from emulator.core.model import Account, AccountId
from emulator.core.record import Record
from emulator.journal import codec, schema
from emulator.journal.schema import USAGE_DAYS, USAGE_MINUTES, WORKFLOW_DAYS, WORKFLOW_MINUTES
from emulator.journal.store import Store
from emulator.statistics.series import RecordedUsage, Window, usage_of
from emulator.statistics.workflow_usage import RecordedWorkflows, workflow_usage_of

T = TypeVar("T")

# One statement, so that points and days are of the same moment.
_SELECT_USAGE = f"""
SELECT 'point', (minute - ?1) / ?2, sum(created), sum(active), sum(delivered), sum(error), sum(retry), sum(failed),
       sum(canceled), sum(bytes), min({USAGE_MINUTES.is_whole})
FROM usage_minutes WHERE account_id = ?3 AND minute >= ?1 AND minute < ?4 GROUP BY 2
UNION ALL
SELECT 'day', day, created, active, delivered, error, retry, failed, canceled, bytes,
       {USAGE_DAYS.is_whole}
FROM usage_days WHERE account_id = ?3 AND day >= ?5 AND day <= ?6
"""

_SELECT_WORKFLOWS = f"""
SELECT 'point', (minute - ?1) / ?2, sum(messages), sum(started), sum(success), sum(failed), sum(canceled),
       min({WORKFLOW_MINUTES.is_whole})
FROM workflow_minutes WHERE account_id = ?3 AND minute >= ?1 AND minute < ?4 GROUP BY 2
UNION ALL
SELECT 'day', day, messages, started, success, failed, canceled, {WORKFLOW_DAYS.is_whole}
FROM workflow_days WHERE account_id = ?3 AND day >= ?5 AND day <= ?6
"""


class Beginning(Record):
    """When a world's own history begins, and its accounts as they were then, in their order."""

    at_ms: int
    accounts: Mapping[AccountId, Account]


class UsageHistory:
    """What passed through the accounts of one world since it began."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._beginning: Beginning | None = None

    async def beginning(self) -> Beginning:
        """When recording began: at the epoch, or where the clock of the unused world was set back to."""
        if self._beginning is None:
            meta = await self._store.meta()
            base = codec.decode_checkpoint(meta[schema.BASE_CHECKPOINT])
            at_ms = int(meta[schema.SET_BACK_TO]) if schema.SET_BACK_TO in meta else base.now_ms
            accounts = {each.account.id: each.account for each in base.accounts}
            self._beginning = Beginning(at_ms=min(at_ms, base.now_ms), accounts=accounts)
        return self._beginning

    async def set_back(self, to_ms: int) -> None:
        """The clock was set back before anything happened: what is recorded begins there."""
        at_ms = min(to_ms, (await self.beginning()).at_ms)
        await self._store.write_meta(schema.SET_BACK_TO, b"%d" % at_ms)
        self._beginning = None

    async def recorded(self, account_id: AccountId, window: Window) -> RecordedUsage:
        """The usage of an account at the points of a window, and on the days of its month."""
        found = await self._counts(_SELECT_USAGE, account_id, window, usage_of)
        return RecordedUsage(points=found["point"], days=found["day"])

    async def recorded_workflows(self, account_id: AccountId, window: Window) -> RecordedWorkflows:
        """What happened in its runs at the points of a window, and on the days of its month."""
        found = await self._counts(_SELECT_WORKFLOWS, account_id, window, workflow_usage_of)
        return RecordedWorkflows(points=found["point"], days=found["day"])

    async def _counts(
        self, statement: str, account_id: AccountId, window: Window, read: Callable[[Sequence[int]], T]
    ) -> dict[str, dict[int, T]]:
        first, end = window.first_minute, window.end_minute
        days = (window.month.first_day, (end - 1) // DAY_MINUTES)
        found: dict[str, dict[int, T]] = {"point": {}, "day": {}}
        parameters = (first, window.period.step, account_id, end, *days)
        for kind, index, *counts, _ in await self._store.whole_rows(statement, parameters):
            found[kind][index] = read(counts)
        return found
