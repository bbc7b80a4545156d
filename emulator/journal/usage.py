"""Reading what passed through accounts, from the counts that the meters keep."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from operator import sub
from typing import TypeVar

from emulator.core.language.calendar import DAY_MINUTES
from emulator.core.model.resources import Account
from emulator.core.record import AccountId, Record
from emulator.journal import codec, schema
from emulator.journal.schema import USAGE_MINUTES, WORKFLOW_MINUTES
from emulator.journal.store import Store
from emulator.statistics.series import (
    USAGE_FIELDS,
    WORKFLOW_FIELDS,
    Recorded,
    Usage,
    Window,
    WorkflowUsage,
    usage_of,
)

U = TypeVar("U", bound=Record)

# The counts at the beginnings of some minutes: those of the last row before each. There is none before the first.
# One statement, so that points and days are of the same moment.
_SELECT_USAGE, _SELECT_WORKFLOWS = (
    f"""
SELECT wanted.value, {", ".join(f"{table.name}.{name}" for name in names)}
FROM json_each(?) AS wanted CROSS JOIN {table.name} ON account_id = ?
AND minute = (SELECT max(minute) FROM {table.name} WHERE account_id = ? AND minute < wanted.value)
"""
    for table, names in ((USAGE_MINUTES, USAGE_FIELDS), (WORKFLOW_MINUTES, WORKFLOW_FIELDS))
)


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

    async def recorded(self, account_id: AccountId, window: Window) -> Recorded[Usage]:
        """The usage of an account at the points of a window, and on the days of its month."""
        return await self._counts(_SELECT_USAGE, account_id, window, Usage)

    async def recorded_workflows(self, account_id: AccountId, window: Window) -> Recorded[WorkflowUsage]:
        """What happened in its runs at the points of a window, and on the days of its month."""
        return await self._counts(_SELECT_WORKFLOWS, account_id, window, WorkflowUsage)

    async def _counts(self, statement: str, account_id: AccountId, window: Window, kind: type[U]) -> Recorded[U]:
        """The counts of each point, and of each day, in which there was something."""
        boundaries = window.boundaries
        days = range(window.month.first_day, window.today + 1)
        midnights = [min(day * DAY_MINUTES, window.end_minute) for day in (*days, window.today + 1)]
        wanted = json.dumps(sorted({*boundaries, *midnights}))
        rows = await self._store.rows(statement, (wanted, account_id, account_id))
        so_far = {minute: counts for minute, *counts in rows}

        def between(minutes: Sequence[int], names: Iterable[int]) -> dict[int, U]:
            return {
                name: usage_of(kind, list(map(sub, so_far[end], so_far[begin])) if begin in so_far else so_far[end])
                for name, begin, end in zip(names, minutes, minutes[1:], strict=False)
                if end in so_far and so_far[end] != so_far.get(begin)
            }

        return Recorded(points=between(boundaries, range(window.period.points)), days=between(midnights, days))
