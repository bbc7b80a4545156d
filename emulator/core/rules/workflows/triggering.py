"""Runs that are started by anybody: the service names them, and makes sure that a workflow endpoint answers."""

from __future__ import annotations

from msgspec.structs import replace

from emulator.core.commands import PublishItem, TriggerRuns
from emulator.core.decision import Decision
from emulator.core.facts import PublishDeduplicated
from emulator.core.identifiers import run_id as make_run_id
from emulator.core.model.messages import CreatedBy
from emulator.core.model.names import RunId
from emulator.core.model.options import CallbackOptions, MessageOptions, RunOptions
from emulator.core.replies import TriggeredRun
from emulator.core.rules.workflows.accepting import begin, check_message
from emulator.core.state_view import StateView

# What a workflow client of today says in its own init messages.
_FEATURES = ("LazyFetch", "InitialBody", "WF_DetectTrigger", "WF_TriggerOnConfig")


def trigger_runs(state: StateView, command: TriggerRuns) -> Decision[tuple[TriggeredRun, ...]]:
    """Begin runs, each with the first half of a handshake; one that is active already is left alone (D-370)."""
    for count, item in enumerate(command.items, start=1):
        check_message(state, command.account_id, item, counts=count)
    runs = state.accounts[command.account_id].runs
    triggered = []
    for item in command.items:
        named = item.options.workflow
        run_id = RunId(make_run_id(state.event_key, state.counters.runs + 1)) if named is None else named.run_id
        active = runs.get(run_id)
        if active is not None:
            yield PublishDeduplicated(message_id=active.steps[0].message_id, at_ms=state.now_ms)
            triggered.append(TriggeredRun(run_id=run_id, created_ms=active.created_ms, deduplicated=True))
            continue
        item, part = _prepared(item, run_id)
        run = yield from begin(state, command.account_id, item, part, CreatedBy.PUBLISH, awaits_sdk=True)
        triggered.append(TriggeredRun(run_id=run_id, created_ms=run.created_ms))
    return tuple(triggered)


def _prepared(item: PublishItem, run_id: RunId) -> tuple[PublishItem, RunOptions]:
    """The init message as a client would have published it; the failure function is the workflow's unless named."""
    url = item.destination.text
    part = RunOptions(run_id=run_id, is_init=True, url=url, features=_FEATURES)
    options = replace(item.options, workflow=part)
    if options.failure_callback is None:
        callback = MessageOptions(
            forwarded=options.forwarded,
            max_retries=options.max_retries,
            retry_delay=options.retry_delay,
            flow_control=options.flow_control,
        )
        options = replace(options, failure_callback=CallbackOptions(url=url, options=callback))
    return replace(item, options=options), part
