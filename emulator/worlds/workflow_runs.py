"""The workflow runs of one world with their steps, as of now."""

from __future__ import annotations

from emulator.core.errors import NotFound
from emulator.core.model.names import AccountId, RunId
from emulator.core.state_view import StateView
from emulator.journal.history import History
from emulator.journal.store import Store
from emulator.journal.workflow_runs import WorkflowRuns
from emulator.queries.history import DeadLetterEntry, DeadLetterQuery, Page
from emulator.queries.workflow_runs import RunQuery, RunSummary
from emulator.queries.workflow_steps import RunLog, run_log


class RunLogs:
    """Reads history after everything that has happened so far is written. It changes nothing."""

    def __init__(self, state: StateView, store: Store, history: History) -> None:
        self._state = state
        self._history = history
        self._runs = WorkflowRuns(store)

    async def summaries(self, query: RunQuery) -> Page[RunSummary]:
        """One page of runs without their steps. Raises InvalidInput for a cursor that is none of ours."""
        return await self._runs.page(query)

    async def page(self, query: RunQuery) -> Page[RunLog]:
        """One page of runs with their steps. Raises InvalidInput for a cursor that is none of ours."""
        page = await self._runs.page(query)
        return Page(items=tuple([await self._log(each) for each in page.items]), cursor=page.cursor)

    async def find(self, run_id: RunId, account_id: AccountId | None = None) -> RunLog:
        """The latest run with this id, of any account unless one is given (D-390). Raises NotFound."""
        page = await self._runs.page(RunQuery(account_id=account_id, count=1, run_ids=(run_id,)))
        if not page.items:
            raise NotFound(f"workflow run {run_id} not found")
        return await self._log(page.items[0])

    async def dead_letters(self, query: DeadLetterQuery) -> Page[tuple[DeadLetterEntry, RunLog]]:
        """One page of the dead letters of runs, each with its run. Raises InvalidInput for a foreign cursor."""
        page = await self._history.dead_letters(query)
        numbers = tuple({entry.run_number for entry in page.items if entry.run_number is not None})
        runs = await self._runs.page(RunQuery(account_id=query.account_id, count=len(numbers), numbers=numbers))
        logs = {each.run.number: await self._log(each) for each in runs.items} if numbers else {}
        found = ((entry, logs[entry.run_number]) for entry in page.items if entry.run_number in logs)
        return Page(items=tuple(found), cursor=page.cursor)

    async def _log(self, summary: RunSummary) -> RunLog:
        return run_log(await self._runs.record(summary), self._state.now_ms)
