"""Which run waits for the end of another, and which may: a run tells one that invoked it (D-450)."""

from __future__ import annotations

from collections.abc import Iterable

from emulator.core.commands import PublishItem
from emulator.core.errors import InvalidRunMessage, Refused
from emulator.core.model.names import AccountId, RunId
from emulator.core.state_view import StateView
from emulator.core.workflows import Invoker, WorkflowRun


def waiting_run(state: StateView, account_id: AccountId, invoker: Invoker | None) -> WorkflowRun | None:
    """The run that waits for the one that it invoked; None if it has ended, or there is none."""
    if invoker is None:
        return None
    run = state.accounts[account_id].runs.get(invoker.run_id)
    # A client may leave out when the invoker was created.
    return run if run is not None and invoker.run_created_ms in (0, run.created_ms) else None


def is_to_be_told(state: StateView, run: WorkflowRun, invoker: Invoker | None) -> bool:
    """Whether an invocation of an active run lets another run wait for its end."""
    return (
        waiting_run(state, run.account_id, run.invoker) is None
        and waiting_run(state, run.account_id, invoker) is not None
    )


def check(state: StateView, run: WorkflowRun, invoker: Invoker) -> None:
    """Check the invocation of an active run: no other waits for it, nor it for the one that invokes it (D-450).

    The same step may invoke it again: a call whose answer was lost is repeated. Raises InvalidRunMessage.
    """
    waiting = waiting_run(state, run.account_id, run.invoker)
    if waiting is not None and run.invoker is not None:
        if (run.invoker.run_id, run.invoker.step) != (invoker.run_id, invoker.step):
            raise _refused(f"{run.run_id} is active, and {waiting.run_id} waits for its end")
        return
    seen: set[int] = set()
    outer = waiting_run(state, run.account_id, invoker)
    # An id that is used again can close a circle if a client does not say when its run was created.
    while outer is not None and outer.number not in seen:
        seen.add(outer.number)
        outer = waiting_run(state, run.account_id, outer.invoker)
    if run.number in seen:
        raise _refused(f"{run.run_id} is active, and would wait for itself")


def check_batch(items: Iterable[PublishItem | Refused]) -> None:
    """Of two invocations of a run by one batch the second would not be told. Raises InvalidRunMessage (D-450)."""
    invoked: set[RunId] = set()
    for item in items:
        part = None if isinstance(item, Refused) or item.invoker is None else item.options.workflow
        if part is None:
            continue
        if part.run_id in invoked:
            raise _refused(f"{part.run_id} is invoked by another message of the batch")
        invoked.add(part.run_id)


def _refused(reason: str) -> InvalidRunMessage:
    return InvalidRunMessage("Svc-Workflow-RunId", f"expected the id of a run that can be invoked: {reason}")
