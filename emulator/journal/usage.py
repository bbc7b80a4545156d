"""Reading what passed through accounts, from the counts that the meters keep."""

from __future__ import annotations

from collections.abc import Mapping

from emulator.core.language.calendar import DAY_MINUTES
from emulator.core.model import Account, AccountId
from emulator.core.record import Record
from emulator.journal import codec, schema
from emulator.journal.store import Store
from emulator.statistics.series import RecordedUsage, Usage, Window, usage_of

# One statement, so that points and days are of the same moment.
_SELECT_USAGE = """
SELECT 'point', (minute - ?1) / ?2, sum(created), sum(active), sum(delivered), sum(error), sum(retry), sum(failed),
       sum(canceled), sum(bytes)
FROM usage_minutes WHERE account_id = ?3 AND minute >= ?1 AND minute < ?4 GROUP BY 2
UNION ALL
SELECT 'day', day, created, active, delivered, error, retry, failed, canceled, bytes
FROM usage_days WHERE account_id = ?3 AND day >= ?5 AND day <= ?6
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
        month = window.month
        first, end = window.first_minute, window.end_minute
        rows = await self._store.rows(
            _SELECT_USAGE, (first, window.period.step, account_id, end, month.first_day, (end - 1) // DAY_MINUTES)
        )
        found: dict[str, dict[int, Usage]] = {"point": {}, "day": {}}
        for kind, index, *counts in rows:
            found[kind][index] = usage_of(counts)
        return RecordedUsage(points=found["point"], days=found["day"])
