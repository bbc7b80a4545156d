"""Workflow runs over HTTP for tests of what is read of them: the test itself is the workflow's endpoint."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from emulator.core.commands import CancelRun, Command, FinishRun, WaitForEvent
from emulator.core.model.options import MessageOptions, RunOptions
from emulator.core.model.workflows import Waiter
from emulator.core.record import RunId
from tests.harness.emulators import Answer, InProcess

FLOW = "https://app.test/flow"
CRM = "https://crm.test/offers"
RUN = "wfr_one"
ANSWER = {"status": 200, "headers": {"Svc-Workflow-Sdk-Version": "1"}}


def call_headers(run_id: str, number: int, name: str) -> dict[str, str]:
    """The headers of the request of a call step."""
    step = {"StepId": str(number), "StepName": name, "StepType": "Call", "Concurrent": "1"}
    return {
        "Svc-Workflow-CallType": "toCallback",
        "Svc-Retries": "0",
        "Svc-Callback": FLOW,
        "Svc-Callback-Workflow-RunId": run_id,
        "Svc-Callback-Workflow-CallType": "fromCallback",
        "Svc-Callback-Workflow-Init": "false",
        "Svc-Callback-Workflow-Url": FLOW,
        "Svc-Callback-Forward-Svc-Workflow-Callback": "true",
        **{f"Svc-Callback-Forward-Svc-Workflow-{key}": value for key, value in step.items()},
    }


def run_headers(run_id: str, *, init: bool = False) -> dict[str, str]:
    """The headers of a publish of a run."""
    return {
        "Svc-Workflow-RunId": run_id,
        "Svc-Workflow-Init": str(init).lower(),
        "Svc-Workflow-Url": FLOW,
        "Svc-Forward-Svc-Workflow-Sdk-Version": "1",
        "Svc-Feature-Set": "LazyFetch,InitialBody,WF_DetectTrigger,WF_TriggerOnConfig",
    }


class Flow:
    """One run of the workflow at `FLOW`, whose steps the test publishes."""

    def __init__(self, emulator: InProcess, run_id: str = RUN) -> None:
        self.emulator = emulator
        self.run_id = run_id

    async def start(self, payload: object = b'{"user":7}', **headers: str) -> str:
        """Begin the run; the id of its first message. The endpoint answers 200 unless another rule came before."""
        await self.emulator.rule(FLOW, respond=ANSWER)
        return await self.publish(FLOW, payload, **{"Svc-Workflow-Init": "true", **_named(headers)})

    async def publish(self, url: str, body: object, **headers: str) -> str:
        return await self.emulator.publish(url, {**run_headers(self.run_id), **_named(headers)}, body)

    async def step(self, number: int, name: str, out: object = None, **more: Any) -> str:
        """A result, or with `targetStep` a plan."""
        headers = {"Svc-Delay": more.pop("delay")} if "delay" in more else {}
        fields = {"stepId": number, "stepName": name, "stepType": "Run", "out": json.dumps(out), "concurrent": 1}
        return await self.publish(FLOW, {**fields, **more}, **headers)

    async def plan(self, target: int, name: str, concurrent: int, **more: Any) -> str:
        headers = {"Svc-Delay": more.pop("delay")} if "delay" in more else {}
        fields = {"stepId": 0, "stepName": name, "stepType": "Run", "concurrent": concurrent, "targetStep": target}
        return await self.publish(FLOW, {**fields, **more}, **headers)

    async def sleep(self, number: int, name: str, seconds: int) -> str:
        return await self.step(number, name, stepType="SleepFor", sleepFor=seconds, delay=f"{seconds}s")

    async def call(self, number: int, name: str, body: object = b"") -> str:
        """The request of a call step to `CRM`."""
        return await self.publish(CRM, body, **call_headers(self.run_id, number, name))

    async def wait(self, number: int, name: str, event_id: str, seconds: int) -> None:
        options = MessageOptions(workflow=RunOptions(run_id=RunId(self.run_id), url=FLOW))
        step = {"stepId": number, "stepName": name, "stepType": "Wait", "concurrent": 1}
        waiter = Waiter(
            number=0,
            event_id=event_id,
            url=FLOW,
            headers=(),
            options=options,
            deadline_ms=1000 * seconds,
            timeout=f"{seconds}s",
            timeout_url=FLOW,
            timeout_headers=(),
            timeout_options=options,
            step=json.dumps(step).encode(),
        )
        await self._do(WaitForEvent, waiter=waiter)

    async def finish(self, result: object = "done") -> None:
        await self._do(FinishRun, response=json.dumps(result).encode(), has_existed=True)

    async def cancel(self) -> None:
        await self._do(CancelRun, has_existed=True)

    async def _do(self, kind: Callable[..., Command[Any]], **fields: Any) -> None:
        account_id, run_id = self.emulator.world.account().id, RunId(self.run_id)
        await self.emulator.world.submit(kind(account_id=account_id, run_id=run_id, **fields))

    async def log(self) -> Any:
        """The run as the logs show it."""
        [run] = (await self.logs(workflowRunId=self.run_id)).json["runs"]
        return run

    async def logs(self, **query: str) -> Answer:
        given = "&".join(f"{name}={value}" for name, value in query.items())
        return await self.emulator.get(f"/v2/workflows/logs?{given}")


def _named(headers: dict[str, str]) -> dict[str, str]:
    return {name.replace("_", "-"): value for name, value in headers.items()}
