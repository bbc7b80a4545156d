"""The workflow runs of an `AsyncEmulator`."""

from __future__ import annotations

from typing import Any

from emulator.client.aio.link import AsyncLink
from emulator.client.control import segment
from emulator.client.errors import is_emulator_error
from emulator.client.values import given
from emulator.client.workflow_records import WorkflowRun, read_run

__tracebackhide__ = is_emulator_error

_PAGE = "1000"


class AsyncWorkflows:
    """What has become of workflows: their runs, with steps, state and result.

        >>> async with AsyncEmulator(epoch="2026-01-01T00:00:00Z") as emulator:
        ...     answer = await emulator.call("POST", "/v2/trigger/https://app.example.com/onboarding", json={"user": 7})
        ...     [run] = await emulator.workflows.runs()
        ...     (run.url, run.payload)
        ('https://app.example.com/onboarding', '{"user": 7}')

    Each method raises Refused with what the server says.
    """

    def __init__(self, link: AsyncLink) -> None:
        self._link = link

    async def runs(self, url: str | None = None, *, state: str | None = None) -> list[WorkflowRun]:
        """All runs that fit, the newest first, without their steps; `url` is exact, `state` such as RUN_FAILED."""
        query = given({"url": url, "state": state, "limit": _PAGE})
        found: list[WorkflowRun] = []
        while True:
            page = await self._link.control("GET", "runs", query=query)
            found += map(read_run, page["runs"])
            if page["cursor"] is None:
                return found
            query["cursor"] = page["cursor"]

    async def run(self, run_id: str) -> WorkflowRun:
        """A run with its steps; of several with one id, the latest."""
        return read_run(await self._link.control("GET", f"runs/{segment(run_id)}"))

    async def explain(self, run_id: str) -> dict[str, Any]:
        """Why a run is where it is: the answer of `GET /_emulator/runs/{id}/explain`."""
        answer: dict[str, Any] = await self._link.control("GET", f"runs/{segment(run_id)}/explain")
        return answer
