"""Calls of a workflow client, for the tests of the workflow API."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from tests.harness.emulators import Answer, InProcess

FLOW = "https://app.test/flow"
RUN = "wfr_one"
FEATURES = "LazyFetch,InitialBody,WF_DetectTrigger,WF_TriggerOnConfig"


def headers(run_id: str = RUN, *, init: bool = False, prefix: str = "Svc-", **more: str) -> dict[str, str]:
    own = {
        f"{prefix}Workflow-RunId": run_id,
        f"{prefix}Workflow-Init": "true" if init else "false",
        f"{prefix}Workflow-Url": FLOW,
        f"{prefix}Feature-Set": FEATURES,
        f"{prefix}Workflow-Sdk-Version": "1",
        f"{prefix}Forward-{prefix}Workflow-Sdk-Version": "1",
        "Content-Type": "application/json",
    }
    return own | {name.replace("_", "-"): value for name, value in more.items()}


async def answer_as_workflow(emulator: InProcess, url: str = "https://app.test/*", prefix: str = "Svc-") -> None:
    """Let a rule answer as a workflow endpoint does."""
    await emulator.rule(url, respond={"status": 200, "headers": {f"{prefix}Workflow-Sdk-Version": "1"}})


async def begin(emulator: InProcess, run_id: str = RUN, body: str = '{"a":1}', **more: Any) -> Answer:
    return await emulator.post(f"/v2/publish/{FLOW}", headers(run_id, init=True, **more), body)


async def add(emulator: InProcess, number: int, run_id: str = RUN, **more: Any) -> Answer:
    step = {"stepId": number, "stepName": f"s{number}", "stepType": "Run", "out": '"é"', "concurrent": 1}
    return await emulator.post(f"/v2/publish/{FLOW}", headers(run_id, **more), json.dumps(step, ensure_ascii=False))


async def steps(emulator: InProcess, run_id: str = RUN) -> list[bytes]:
    answer = await emulator.get(f"/v2/workflows/runs/{run_id}")
    assert answer.status == 200, answer.body
    return [base64.b64decode(each["body"]) for each in answer.json]


async def wait(
    emulator: InProcess,
    event_id: str = "ev",
    run_id: str = RUN,
    more: Mapping[str, str] = MappingProxyType({}),
    **changes: Any,
) -> Answer:
    body = {
        "url": FLOW,
        "timeout": "20s",
        "timeoutUrl": FLOW,
        # The client writes this name in two ways.
        "timeoutHeaders": {"Svc-Workflow-RunId": [run_id], "Svc-Workflow-Runid": [run_id]},
        "step": {"stepId": 1, "stepName": "w", "stepType": "Wait", "concurrent": 1},
        **changes,
    }
    return await emulator.post(f"/v2/wait/{event_id}", {**headers(run_id), **more}, body)
