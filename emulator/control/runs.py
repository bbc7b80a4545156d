"""`/_emulator/runs`: workflow runs, their steps on the time axis, what they wait for, and what failed them.

A field that a step does not have is left out; one that has no value is null.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, Meta, UnsetType
from msgspec.structs import asdict

from emulator.control.call import OWN_QUERY, ControlCall, ControlRoute, read_run_shown
from emulator.control.dead_letters import Remedy, remedies_of_run
from emulator.control.records import TWIN, Count, Dropped, Instant, InstantMs, Text, View, dropped_view
from emulator.control.run_explanations import RunFailure, awaited_text, run_failure_view, summary
from emulator.control.waiting import not_left
from emulator.core.model.messages import Phase
from emulator.core.model.workflows import RunState
from emulator.core.record import AccountId, MessageId, RunId
from emulator.queries import workflow_runs
from emulator.queries.history import HistoryFilter
from emulator.queries.workflow_runs import RunQuery, StepState
from emulator.queries.workflow_steps import AwaitedKind, StepLog, awaited, failed_attempts
from emulator.wire.query_reader import Query, control_query, parse_cursor
from emulator.wire.reasons import answered
from emulator.wire.redaction import surface_of
from emulator.wire.times import iso
from emulator.wire.workflow_logs import RunContent

DEFAULT_LIMIT = 100
MAX_LIMIT = 1000
MAX_SAME_ID = 100
PARAMETERS = ("state", "url", "label", "id", "text", "limit", "cursor", "count", "redact")


def read_runs(given: Query) -> RunQuery:
    """The query of a listing; `url` is exact or a glob, `id` an id or its end. Raises: InvalidInput."""
    state = given.one_of("state", tuple(RunState))
    return RunQuery(
        account_id=None,
        count=given.limit(MAX_LIMIT, DEFAULT_LIMIT),
        cursor=given.one("cursor", parse_cursor, strip=False),
        states=() if state is None else (RunState(state),),
        wanted=HistoryFilter(
            url=given.url("url"), label=given.text("label"), id=given.text("id"), text=given.text("text")
        ),
    )


class RunSummary(View):
    """A workflow run without its steps."""

    id: Text  #: Its id, which may have been used before.
    number: Annotated[int, Meta(ge=1)]  #: Which run of the world it is.
    account_id: AccountId
    url: Text  #: The endpoint of the workflow.
    state: RunState
    created: Instant = TWIN
    created_ms: InstantMs
    ended: Instant | None = TWIN  #: When it ended; null while it is active.
    ended_ms: InstantMs | None
    labels: tuple[str, ...]  #: Its labels.
    payload: str  #: The initial payload.
    result: str | None  #: What it returned, as JSON text.
    dead_letter_id: str | None  #: Its dead letter, if it has failed.
    invoked_by: str | None  #: The run that invoked it.


class RunMessage(View):
    """A message of a run."""

    message_id: MessageId
    phase: Phase  #: Its state.
    attempts: Count  #: How many attempts have come back.
    errors: tuple[str, ...]  #: The failed ones, each in one line.
    next: Instant | None = TWIN  #: When it is tried again; null unless it waits for that.
    next_ms: InstantMs | None


class RunTrial(View):
    """A call of the endpoint whose step is not known yet."""

    state: StepState
    message_id: MessageId
    phase: Phase  #: Its state.
    attempts: Count  #: How many attempts have come back.
    errors: tuple[str, ...]  #: The failed ones, each in one line.
    next: Instant | None = TWIN  #: When it is tried again; null unless it waits for that.
    next_ms: InstantMs | None


class RunStep(View):
    """A step of a workflow run (D-385). What a step of its type does not have is left out."""

    id: int  #: Its number in the run.
    name: str  #: Its name.
    #: Initial, Run, SleepFor, SleepUntil, Call, Wait, Notify, Invoke, CreateWebhook or WaitForWebhook.
    type: str
    state: StepState
    at: Instant = TWIN
    at_ms: InstantMs
    ended: Instant | None = TWIN  #: When it was done; null before that.
    ended_ms: InstantMs | None
    message_id: MessageId | None  #: The message with its result, or its plan.
    out: str | None  #: Its result, as the endpoint published it.
    event_id: str | UnsetType = UNSET  #: The event that it waits for.
    deadline: Instant | UnsetType | None = TWIN  #: Until when it waits.
    deadline_ms: InstantMs | UnsetType | None = UNSET
    url: str | UnsetType = UNSET  #: The third party that it calls.
    request: RunMessage | UnsetType = UNSET
    run_id: str | UnsetType = UNSET  #: The run that it invoked.


class RunStepGroup(View):
    """One step, or several side by side."""

    parallel: bool  #: Whether they ran side by side.
    steps: Annotated[tuple[RunStep, ...], Meta(min_length=1)]  #: The steps, by their ids.


class RunAwaited(View):
    """One thing that a run waits for."""

    #: An instant (`sleep`), an `event`, the `response` of a third party, the end of an invoked `run`, a `call`
    #: of the endpoint, or the `retry` of one.
    kind: AwaitedKind
    step: str | None  #: The step that waits; null where it is not known yet.
    subject: str | None  #: The event, the third party, the run or the message.
    since: Instant = TWIN
    since_ms: InstantMs
    until: Instant | None = TWIN  #: Until when, if that is known.
    until_ms: InstantMs | None
    text: Text  #: The same in words.


class RunOfId(View):
    """Another run that has used the id of one."""

    number: Annotated[int, Meta(ge=1)]  #: Which run of the world it is; `number` of the query asks for it.
    state: RunState
    created: Instant = TWIN
    created_ms: InstantMs


class Run(RunSummary):
    """A workflow run with its steps, and what it waits for."""

    summary: Text  #: One sentence about its state.
    #: The steps in groups, in the order in which they were accepted; the first is the payload.
    steps: Annotated[tuple[RunStepGroup, ...], Meta(min_length=1)]
    trials: tuple[RunTrial, ...]  #: Calls of the endpoint that are under way, to be made again, or have failed.
    waiting: tuple[RunAwaited, ...]  #: What an active run waits for.
    actions: tuple[Remedy, ...]  #: What can be done with it; what is about its dead letter only while that is there.
    failure: RunFailure | None  #: Which call failed it; null if it has not failed, or nothing is kept of that call.
    failure_function: RunMessage | None  #: The call of the failure function, if one was made.
    same_id: tuple[RunOfId, ...]  #: Other runs with its id, the newest first; at most 100.


class RunCount(View):
    """How many runs fit in each state, if that was asked for: whatever state and page are (D-676)."""

    active: Count  #: Runs that have not ended: RUN_STARTED.
    success: Count  #: RUN_SUCCESS.
    failed: Count  #: RUN_FAILED.
    canceled: Count  #: RUN_CANCELED.


class RunPage(View):
    """A page of runs, the newest first."""

    runs: tuple[RunSummary, ...]
    cursor: str | None
    count: RunCount | UnsetType
    dropped: Dropped | UnsetType


def summary_view(summary: workflow_runs.RunSummary, *, redact: bool) -> RunSummary:
    """A run without its steps; `result` is the JSON text that it returned."""
    run, ending = summary.run, summary.ending
    response = None if ending is None or not ending.response else ending.response
    shown = RunContent(run.options.redaction, surface=surface_of(redact=redact))
    return RunSummary(
        id=run.run_id,
        number=run.number,
        account_id=run.account_id,
        url=run.url,
        state=summary.state,
        created_ms=run.created_ms,
        ended_ms=None if ending is None else ending.at_ms,
        labels=run.options.labels,
        payload=shown.bytes(summary.payload) or "",
        result=None if response is None else shown.bytes(response),
        dead_letter_id=None if ending is None else ending.dead_letter_id,
        invoked_by=None if run.invoker is None else run.invoker.run_id,
    )


def _step(log: StepLog, shown: RunContent) -> RunStep:
    step, request, shown = log.step, log.request, shown.of(log.message or log.request)
    return RunStep(
        id=step.number,
        name=step.step_name,
        type=step.step_type,
        state=log.state,
        at_ms=log.at_ms,
        ended_ms=log.ended_ms,
        message_id=log.message_id,
        out=shown.text(step.out),
        event_id=UNSET if log.wait is None else log.wait.event_id,
        deadline_ms=UNSET if log.wait is None else log.wait.deadline_ms,
        url=UNSET if request is None else request.message.url,
        request=UNSET if request is None else _message(request, shown),
        run_id=UNSET if log.invoked is None else log.invoked.run.run_id,
    )


def _message(message: workflow_runs.RunMessage, shown: RunContent) -> RunMessage:
    return RunMessage(
        message_id=message.message.message_id,
        phase=message.phase,
        attempts=len(message.attempts),
        errors=tuple(
            f"{iso(each.at_ms)} {answered(shown.outcome(each.outcome, message.message), each.answered_by)}"
            for each in failed_attempts(message)
        ),
        next_ms=message.next_ms,
    )


async def list_runs(call: ControlCall) -> RunPage:
    given = control_query(call.parts.query, *PARAMETERS)
    query, redact = read_runs(given), given.flag("redact", default=True)
    await call.world.current_state()
    page = await call.world.runs.summaries(query)
    count: RunCount | UnsetType = UNSET
    if given.flag("count"):
        of = await call.world.runs.count(query)
        count = RunCount(
            active=of[RunState.STARTED],
            success=of[RunState.SUCCESS],
            failed=of[RunState.FAILED],
            canceled=of[RunState.CANCELED],
        )
    return RunPage(
        runs=tuple(summary_view(each, redact=redact) for each in page.items),
        cursor=page.cursor,
        count=count,
        dropped=dropped_view(call.world.history.dropped),
    )


async def get_run(call: ControlCall) -> Run:
    """A run with its steps in groups, and what it waits for; with `redact` without what it hides (D-513)."""
    world, run_id = call.world, RunId(call.name)
    await world.current_state()
    number, redact = read_run_shown(call.parts.query)
    log = await world.runs.find(run_id, number=number)
    same_id = await world.runs.with_id(run_id, MAX_SAME_ID + 1)
    run, ending, waits = log.recorded.run, log.recorded.summary.ending, awaited(log, not_left(world))
    actions: tuple[Remedy, ...] = ()
    if ending is None:
        actions = (Remedy.CANCEL,)
    elif ending.dead_letter_id in world.state.accounts[run.account_id].dead_letters:
        has_failed = log.failure is not None and log.failure.phase is Phase.FAILED
        actions = remedies_of_run(has_failure_function_failed=has_failed)
    shown = RunContent(run.options.redaction, surface=surface_of(redact=redact))
    failure = run_failure_view(log, shown, call.dialect)
    return Run(
        **asdict(summary_view(log.recorded.summary, redact=redact)),
        summary=summary(log, waits, failure),
        steps=tuple(
            RunStepGroup(parallel=group.is_parallel, steps=tuple(_step(each, shown) for each in group.steps))
            for group in log.groups
        ),
        trials=tuple(RunTrial(state=each.state, **asdict(_message(each.message, shown))) for each in log.trials),
        waiting=tuple(
            RunAwaited(
                kind=each.kind,
                step=each.step,
                subject=each.subject or None,
                since_ms=each.since_ms,
                until_ms=each.until_ms,
                text=awaited_text(each),
            )
            for each in waits
        ),
        actions=actions,
        failure=failure,
        failure_function=None if log.failure is None else _message(log.failure, shown),
        same_id=tuple(RunOfId(**asdict(each)) for each in same_id if each.number != run.number)[:MAX_SAME_ID],
    )


ROUTES: tuple[ControlRoute, ...] = (
    ControlRoute("GET", "/_emulator/runs", list_runs, OWN_QUERY),
    ControlRoute("GET", "/_emulator/runs/{name}", get_run, OWN_QUERY),
)
