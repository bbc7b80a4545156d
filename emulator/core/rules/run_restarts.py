"""Runs that are started by no client of theirs: triggered by anybody, resumed and restarted after a failure."""

from __future__ import annotations

from itertools import accumulate

from msgspec.structs import replace

from emulator.core.commands import (
    BeginRunsAgain,
    CallFailureFunction,
    CancelFailureFunction,
    FailedRun,
    PublishItem,
    ResumeRuns,
    TriggerRuns,
)
from emulator.core.errors import InvalidInput, NotFound
from emulator.core.message_facts import DeadLettersRemoved, PublishDeduplicated
from emulator.core.model.messages import CreatedBy, Message, Phase, Source
from emulator.core.model.options import (
    CallbackOptions,
    CallType,
    Destination,
    DestinationKind,
    MessageOptions,
    Reuse,
    RunOptions,
)
from emulator.core.model.workflows import TriggeredRun, WorkflowRun, listed_bytes
from emulator.core.record import AccountId, MessageId, RunId
from emulator.core.record import run_id as make_run_id
from emulator.core.rules import limits
from emulator.core.rules.dead_letters import cancel
from emulator.core.rules.options import first_delivery_ms, options_of, reused_options, with_defaults
from emulator.core.rules.outcomes import call_failure_function
from emulator.core.rules.run_publishing import begin_run, check_message
from emulator.core.rules.runs import create_message, next_message_id
from emulator.core.run_facts import RunStarted
from emulator.core.state import Decision, StateView, account_state

# -- triggering ---------------------------------------------------------------------------------
# The service names these runs, and makes sure that a workflow endpoint answers, of a client that it can speak to.

# What a workflow client of today says in its own init messages.
_FEATURES = ("LazyFetch", "InitialBody", "WF_DetectTrigger", "WF_TriggerOnConfig")


def trigger_runs(state: StateView, command: TriggerRuns) -> Decision[tuple[TriggeredRun, ...]]:
    """Begin runs; one that is active already is left alone (D-370)."""
    for count, item in enumerate(command.items, start=1):
        check_message(state, command.account_id, item, counts=count)
    runs = state.accounts[command.account_id].runs
    triggered = []
    for item in command.items:
        named = item.options.workflow
        run_id = _new_id(state) if named is None or not named.run_id else named.run_id
        active = runs.get(run_id)
        if active is not None:
            yield PublishDeduplicated(message_id=active.steps[0].message_id, at_ms=state.now_ms)
            triggered.append(TriggeredRun(run_id=run_id, created_ms=active.created_ms, deduplicated=True))
            continue
        item = _prepared(item, run_id)
        run = yield from begin_run(state, command.account_id, item, CreatedBy.PUBLISH)
        triggered.append(TriggeredRun(run_id=run_id, created_ms=run.created_ms))
    return tuple(triggered)


def _prepared(item: PublishItem, run_id: RunId) -> PublishItem:
    """The init message as a client would have published it; the failure function is the workflow's unless named."""
    url = item.destination.text
    unknown_sdk = item.options.workflow is not None and item.options.workflow.unknown_sdk
    part = RunOptions(run_id=run_id, is_init=True, url=url, features=_FEATURES, unknown_sdk=unknown_sdk, triggered=True)
    options = replace(item.options, workflow=part)
    if options.failure_callback is None:
        callback = reused_options(options, Reuse.FAILURE_CALL)
        options = replace(options, failure_callback=CallbackOptions(url=url, options=callback))
    return replace(item, options=options)


# -- failed runs --------------------------------------------------------------------------------


def begin_again(state: StateView, command: BeginRunsAgain) -> Decision[tuple[TriggeredRun, ...]]:
    """Take failed runs out of the queue, each with the run that it becomes."""
    again = _resume if isinstance(command, ResumeRuns) else _restart
    begun = []
    for entry in _present(state, command):
        removed = (entry.dead_letter_id,)
        yield DeadLettersRemoved(
            account_id=command.account_id, dead_letter_ids=removed, at_ms=state.now_ms, cause="retried"
        )
        begun.append((yield from again(state, entry, command.overrides)))
    return tuple(begun)


def call_failure_function_again(state: StateView, command: CallFailureFunction) -> Decision[TriggeredRun]:
    """Call the failure function of a failed run again. Refused unless the last call of it failed."""
    entry, run = command.entry, command.entry.run
    _check_present(state, command.account_id, entry)
    callback = entry.message.policy.failure_callback or run.options.failure_callback
    is_under_way = bool(_failure_calls(state, command.account_id, entry))
    if callback is None or is_under_way or entry.failure_call is not Phase.FAILED:
        raise InvalidInput("dlqId", "expected the dead letter of a run whose failure callback has failed")
    yield from call_failure_function(
        state, run, entry.message, callback, entry.outcome, entry.message.policy.max_retries, entry.dead_letter_id
    )
    return TriggeredRun(run_id=run.run_id, created_ms=run.created_ms)


def cancel_failure_function(state: StateView, command: CancelFailureFunction) -> Decision[None]:
    """Cancel the call of a failure function that is in progress. Refused if there is none."""
    _check_present(state, command.account_id, command.entry)
    live = _failure_calls(state, command.account_id, command.entry)
    if not live:
        raise InvalidInput("dlqId", "expected the dead letter of a run whose failure callback is in progress")
    yield from cancel(state, live)


def _failure_calls(state: StateView, account_id: AccountId, entry: FailedRun) -> list[MessageId]:
    of_run = account_state(state, account_id).run_messages.get(entry.run.number, {})
    found = []
    for message_id in of_run:
        progress = state.messages[message_id]
        part = progress.message.run
        if part is not None and part.call_type is CallType.FAILURE_CALL and not progress.dispatch.cancel_requested:
            found.append(message_id)
    return found


def _present(state: StateView, command: BeginRunsAgain) -> list[FailedRun]:
    """The entries that are still in the queue, each once. Raises NotFound for one that is not, if that is strict."""
    owner = account_state(state, command.account_id)
    limits.check_account_is_active(owner.account)
    limits.check_options(owner.account, command.overrides, state.now_ms)
    named = {entry.dead_letter_id: entry for entry in command.entries}
    for dead_letter_id in list(named):
        if dead_letter_id not in owner.dead_letters:
            if command.strict:
                raise NotFound("dlq message", dead_letter_id)
            del named[dead_letter_id]
    limits.check_daily_quota(owner, state.now_ms, len(named))
    return list(named.values())


def _check_present(state: StateView, account_id: AccountId, entry: FailedRun) -> None:
    if entry.dead_letter_id not in account_state(state, account_id).dead_letters:
        raise NotFound("dlq message", entry.dead_letter_id)


def _new_id(state: StateView) -> RunId:
    return RunId(make_run_id(state.event_key, state.counters.runs + 1))


def _configuration(run: WorkflowRun, overrides: MessageOptions, run_id: RunId) -> MessageOptions:
    """The init message's options for another run; its own delay has passed long ago."""
    own = replace(run.options, delay_ms=None, not_before_ms=None)
    before = own.workflow or RunOptions(run_id=run_id)
    part = RunOptions(run_id=run_id, is_init=True, url=run.url, features=before.features, triggered=before.triggered)
    return replace(with_defaults(_named(overrides), own), workflow=part)


def _named(overrides: MessageOptions) -> MessageOptions:
    """The overrides that a resumed or restarted run takes; the call's own headers are not the run's."""
    return reused_options(overrides, Reuse.NEXT_RUN)


def _restart(state: StateView, entry: FailedRun, overrides: MessageOptions) -> Decision[TriggeredRun]:
    """A new run with the payload and the configuration of the failed one."""
    old = entry.run
    item = PublishItem(
        destination=Destination(kind=DestinationKind.URL, text=old.url),
        body=old.payload,
        options=_configuration(old, overrides, _new_id(state)),
        caller_ip=old.caller_ip,
        traceparent=old.traceparent,
    )
    run = yield from begin_run(
        state,
        old.account_id,
        item,
        CreatedBy.DEAD_LETTER,
        awaits_sdk=old.awaits_sdk,
        from_dead_letter=entry.dead_letter_id,
    )
    return TriggeredRun(run_id=run.run_id, created_ms=run.created_ms)


def _resume(state: StateView, entry: FailedRun, overrides: MessageOptions) -> Decision[TriggeredRun]:
    """A new run with the same steps, which repeats the call that failed and those that had no result (D-374)."""
    old, failed = entry.run, entry.message
    part = failed.run
    assert part is not None
    if part.is_init:
        return (yield from _restart(state, entry, overrides))
    run_id = _new_id(state)
    calls = sorted((failed, *entry.unfinished), key=lambda call: call.number)
    # The messages are made anew, so their entries in the list have the new ids.
    new_ids = {call.message_id: next_message_id(state, after=at) for at, call in enumerate(calls)}
    steps = tuple(replace(step, message_id=new_ids.get(step.message_id, step.message_id)) for step in old.steps)
    run = replace(
        old,
        run_id=run_id,
        number=state.counters.runs + 1,
        created_ms=state.now_ms,
        options=_configuration(old, overrides, run_id),
        steps=steps,
        listed_bytes=1 + sum(map(listed_bytes, steps)),
        invoker=None,
        waiters=(),
        saved_events=(),
        from_dead_letter=entry.dead_letter_id,
    )
    yield RunStarted(run=run)
    lengths = list(accumulate(map(listed_bytes, steps), initial=1))
    cuts = {step.message_id: (at, lengths[at]) for at, step in enumerate(steps, start=1)}
    for call in calls:
        assert call.run is not None
        listed, length = cuts.get(new_ids[call.message_id], (0, 0))
        yield from create_message(
            state,
            run,
            url=call.url,
            options=_options_again(call, _named(overrides), state.now_ms),
            body=call.body,
            call_type=call.run.call_type,
            source=Source(
                caller_ip=call.source.caller_ip,
                created_by=CreatedBy.DEAD_LETTER,
                from_dead_letter=entry.dead_letter_id,
                traceparent=run.traceparent,
            ),
            listed=listed,
            listed_bytes=length,
        )
    return TriggeredRun(run_id=run_id, created_ms=run.created_ms)


def _options_again(call: Message, overrides: MessageOptions, now_ms: int) -> MessageOptions:
    """The options that repeat a call. A sleep ends when it would have ended; a later first delivery holds for all."""
    due_ms = max(call.not_before_ms, first_delivery_ms(overrides, now_ms))
    own = replace(options_of(call.policy), method=call.method, forwarded=call.headers, callback=None)
    return replace(with_defaults(overrides, own), delay_ms=None, not_before_ms=due_ms)
