"""The end of a run: its result, cancellation, what waited for it, and who invoked it."""

from __future__ import annotations

import json
from collections.abc import Mapping

from msgspec.structs import replace

from emulator.core.commands import CancelRun, CancelRuns, FinishRun
from emulator.core.decision import Decision, account_state
from emulator.core.errors import NotFound
from emulator.core.facts import RunEnded
from emulator.core.model.messages import CreatedBy, Phase
from emulator.core.model.names import AccountId, DeadLetterId, RunId
from emulator.core.model.options import CallType
from emulator.core.rules.cancellation import cancel
from emulator.core.rules.workflows.invoking import waiting_run
from emulator.core.rules.workflows.messages import append_step
from emulator.core.state_view import StateView
from emulator.core.workflows import RunFilter, RunState, WorkflowRun


def finish_run(state: StateView, command: FinishRun) -> Decision[None]:
    """A run returned its result. One that has ended stays as it is; NotFound for one that never began (D-363)."""
    run = _run(state, command.account_id, command.run_id, has_existed=command.has_existed)
    if run is not None:
        yield from end(state, run, RunState.SUCCESS, response=command.response)


def cancel_run(state: StateView, command: CancelRun) -> Decision[None]:
    """Cancel a run. One that has ended stays as it is; NotFound for one that never began (D-363)."""
    run = _run(state, command.account_id, command.run_id, has_existed=command.has_existed)
    if run is not None:
        yield from end(state, run, RunState.CANCELED)


def cancel_runs(state: StateView, command: CancelRuns) -> Decision[int]:
    """Cancel the live runs that a filter means, oldest first; ids of others do not count."""
    owner = account_state(state, command.account_id)
    found = [run for run in owner.runs.values() if matches(run, command.wanted)][: command.count]
    for run in found:
        # The end of one run may reach another.
        present = owner.runs.get(run.run_id)
        if present is not None and present.number == run.number:
            yield from end(state, present, RunState.CANCELED)
    return len(found)


def live_run_of(state: StateView, account_id: AccountId, run_id: RunId) -> WorkflowRun:
    """A run that has not ended. Raises NotFound."""
    run = account_state(state, account_id).runs.get(run_id)
    if run is None:
        raise NotFound(f"workflow run {run_id} not found")
    return run


def _run(state: StateView, account_id: AccountId, run_id: RunId, *, has_existed: bool) -> WorkflowRun | None:
    run = account_state(state, account_id).runs.get(run_id)
    if run is None and not has_existed:
        raise NotFound(f"workflow run {run_id} not found")
    return run


def matches(run: WorkflowRun, wanted: RunFilter) -> bool:
    """Whether a run passes a filter; with ids given, only they count."""
    if wanted.run_ids:
        return run.run_id in wanted.run_ids
    flow = run.options.flow_control
    return (
        (not wanted.urls or (run.url in wanted.urls if wanted.url_is_exact else run.url.startswith(wanted.urls)))
        and (wanted.from_ms is None or run.created_ms >= wanted.from_ms)
        and (wanted.to_ms is None or run.created_ms <= wanted.to_ms)
        and (not wanted.caller_ips or run.caller_ip in wanted.caller_ips)
        and (not wanted.flow_keys or (flow is not None and flow.key in wanted.flow_keys))
        and (not wanted.labels or not set(wanted.labels).isdisjoint(run.options.labels))
    )


def end(
    state: StateView,
    run: WorkflowRun,
    ending: RunState,
    *,
    response: bytes | None = None,
    dead_letter_id: DeadLetterId | None = None,
) -> Decision[None]:
    """Give a run its final state, drop what waits for it, and tell the run that invoked it.

    Calls that are under way go on; what they publish is refused.
    """
    yield RunEnded(
        account_id=run.account_id,
        run_id=run.run_id,
        run_number=run.number,
        at_ms=state.now_ms,
        state=ending,
        response=response,
        dead_letter_id=dead_letter_id,
    )
    waiting = []
    for message_id in state.accounts[run.account_id].run_messages.get(run.number, {}):
        progress = state.messages[message_id]
        part = progress.message.run
        is_call = part is not None and part.call_type is not CallType.FAILURE_CALL
        if is_call and progress.phase is not Phase.ACTIVE and not progress.cancel_requested:
            waiting.append(message_id)
    yield from cancel(state, waiting)
    yield from _tell_invoker(state, run, ending, response)


def _tell_invoker(state: StateView, run: WorkflowRun, ending: RunState, response: bytes | None) -> Decision[None]:
    """The invoke step of the parent has its result; a parent that has ended gets no call."""
    invoker, parent = run.invoker, waiting_run(state, run.account_id, run.invoker)
    if invoker is None or parent is None:
        return
    out: dict[str, object] = {
        "isFailed": ending is RunState.FAILED,
        "isCanceled": ending is RunState.CANCELED,
    }
    if response:
        out["body"] = response.decode("utf-8", "replace")
    yield from append_step(
        state,
        parent,
        url=invoker.url,
        options=replace(invoker.options, delay_ms=None, not_before_ms=None),
        body=completed(invoker.step, {"out": json.dumps(out, separators=(",", ":"), ensure_ascii=False)}),
        caller_ip=parent.caller_ip,
        created_by=CreatedBy.WORKFLOW,
    )


def completed(step: bytes, result: Mapping[str, object]) -> bytes:
    """A step with its result: the JSON object, and these fields."""
    text = json.dumps({**json.loads(step), **result}, separators=(",", ":"), ensure_ascii=False)
    return text.encode("utf-8", "backslashreplace")
