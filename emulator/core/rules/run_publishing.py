"""Messages that a client publishes into a run: those that begin one, step results, requests of call steps.

What belongs to no run is published as usual. A request with a message of a run is accepted or refused
as a whole: the client would take an item's refusal inside an accepted batch for success.
"""

from __future__ import annotations

from collections import Counter

from msgspec.structs import replace

from emulator.core.commands import Publish, PublishBatch, PublishItem
from emulator.core.errors import InvalidRunMessage, LimitReached, Refused, RunOver
from emulator.core.message_facts import PublishDeduplicated
from emulator.core.model.messages import Accepted, BatchReply, CreatedBy, PublishedMessage, PublishReply, Source
from emulator.core.model.options import CallType, DestinationKind
from emulator.core.model.workflows import WorkflowRun, WorkflowStep, listed_bytes, steps_body
from emulator.core.record import AccountId, DeadLetterId, Record, RunId
from emulator.core.rules import limits, publishing, runs
from emulator.core.rules.options import shared
from emulator.core.rules.runs import append_step, create_message, next_message_id
from emulator.core.run_facts import RunRewritten, RunStarted
from emulator.core.state import Decision, StateView, account_state

_UNKNOWN_SDK = "-workflow-unknown-sdk"
_INVOKE_COUNT = "-workflow-invoke-count"
# A run that invokes itself would never end.
MAX_INVOKE_DEPTH = 100
# The payload, and for each of 10,000 parallel steps its plan and its result; a call delivers all of them (D-561).
MAX_RUN_STEPS = 20_001


class RunPublishPlan(Record):
    """A publish into a run that nothing speaks against."""

    account_id: AccountId
    item: PublishItem
    created_by: CreatedBy


def publish(state: StateView, command: Publish) -> Decision[PublishReply]:
    """Publish one message, into a run or not."""
    decide = publishing.publish if command.item.options.workflow is None else _publish
    return decide(state, command)


def publish_batch(state: StateView, command: PublishBatch) -> Decision[BatchReply]:
    """Publish many; if one belongs to a run, what is wrong with such a one refuses them all."""
    given = (item.options.workflow for item in command.items if not isinstance(item, Refused))
    decide = _publish_batch if any(part is not None for part in given) else publishing.publish_batch
    return decide(state, command)


def _publish(state: StateView, command: Publish) -> Decision[PublishReply]:
    planned = plan(state, command.account_id, command.item, command.created_by)
    published = yield from carry_out(state, planned)
    accepted = Accepted(is_group=False, messages=(published,))
    return PublishReply(accepted=accepted, quota=publishing.quota(state, command.account_id))


def _publish_batch(state: StateView, command: PublishBatch) -> Decision[BatchReply]:
    runs.check_invocations(command.items)
    planned: list[RunPublishPlan | publishing.PublishPlan | Refused] = []
    added: Counter[RunId] = Counter()
    for item in command.items:
        if isinstance(item, Refused):
            planned.append(item)
        elif item.options.workflow is not None:
            run_id = item.options.workflow.run_id
            planned.append(plan(state, command.account_id, item, CreatedBy.BATCH, added=added[run_id]))
            added[run_id] += 1
        else:
            try:
                planned.append(publishing.plan(state, command.account_id, item, created_by=CreatedBy.BATCH))
            except Refused as refusal:
                planned.append(refusal)
    results: list[Accepted | Refused] = []
    for each in planned:
        if isinstance(each, Refused):
            results.append(each)
        elif isinstance(each, RunPublishPlan):
            published = yield from carry_out(state, each)
            results.append(Accepted(is_group=False, messages=(published,)))
        else:
            results.append((yield from publishing.carry_out(state, each)))
    return BatchReply(items=tuple(results), quota=publishing.quota(state, command.account_id))


def plan(
    state: StateView, account_id: AccountId, item: PublishItem, created_by: CreatedBy, *, added: int = 0
) -> RunPublishPlan:
    """Check one message of a run, to which a batch has `added` others. Changes nothing.

    Raises Refused, for a run that has ended RunOver.
    """
    part = item.options.workflow
    assert part is not None
    owner = account_state(state, account_id)
    check_message(state, account_id, item, counts=1 if part.is_init else 0)
    run = owner.runs.get(part.run_id)
    if run is None and not part.is_init:
        raise RunOver(f"workflow run {part.run_id} has ended, or never began")
    is_step = part.call_type is CallType.STEP and not part.is_init
    if run is not None and is_step and len(run.steps) + added >= MAX_RUN_STEPS:
        raise LimitReached(
            f"a workflow run takes at most {MAX_RUN_STEPS} steps; a parallel one is two, plan and result"
        )
    if run is not None and item.invoker is not None:
        runs.check_invocation(state, run, item.invoker)
    return RunPublishPlan(account_id=account_id, item=item, created_by=created_by)


def check_message(state: StateView, account_id: AccountId, item: PublishItem, *, counts: int) -> None:
    """The limits (D-364). Raises Refused.

    `counts` of its messages are refused for a spent daily quota; steps in between never are.
    """
    owner = account_state(state, account_id)
    limits.check_account_is_active(owner.account)
    if item.destination.kind is DestinationKind.GROUP:
        raise InvalidRunMessage("destination", "expected a URL: a workflow runs at one endpoint")
    with runs.refused_as_run_message():
        limits.check_message_size(owner.account, len(item.body))
        limits.check_options(owner.account, item.options, state.now_ms)
    # How deep the run was invoked, as its clients count it.
    given = (value for name, value in item.options.forwarded if name.lower().endswith(_INVOKE_COUNT))
    counted = max((int(count) for count in given if count.isdecimal() and len(count) < 10), default=0)
    if max(counted, _depth(state, account_id, item)) > MAX_INVOKE_DEPTH:
        raise LimitReached(f"runs invoke each other at most {MAX_INVOKE_DEPTH} deep")
    if counts:
        limits.check_daily_quota(owner, state.now_ms, counts)


def carry_out(state: StateView, planned: RunPublishPlan) -> Decision[PublishedMessage]:
    """Begin the run, or add to it; an init message of an active run sends nothing, but for its handshake (D-452)."""
    item, part = planned.item, planned.item.options.workflow
    assert part is not None
    owner = state.accounts[planned.account_id]
    url = item.destination.url or item.destination.text
    run = owner.runs.get(part.run_id)
    if part.is_init:
        if run is not None and not (part.by_sdk and run.awaits_sdk):
            first = run.steps[0].message_id
            if runs.notifies_invoker(state, run, item.invoker):
                yield RunRewritten(run=replace(run, invoker=item.invoker))
            yield PublishDeduplicated(message_id=first, at_ms=state.now_ms)
            return PublishedMessage(message_id=first, url=url, deduplicated=True)
        run = yield from begin_run(state, planned.account_id, item, planned.created_by)
        return PublishedMessage(message_id=run.steps[0].message_id, url=url, deduplicated=False)
    assert run is not None  # The plan has seen to it, and no message that is accepted ends a run.
    is_step = part.call_type is CallType.STEP
    source = Source(
        caller_ip=item.caller_ip,
        created_by=planned.created_by,
        api=None if is_step else item.destination.api,
        traceparent=item.traceparent or run.traceparent,
    )
    if is_step:
        message_id = yield from append_step(state, run, url=url, options=item.options, body=item.body, source=source)
    else:
        message_id = yield from create_message(
            state, run, url=url, options=item.options, body=item.body, call_type=part.call_type, source=source
        )
    return PublishedMessage(message_id=message_id, url=url, deduplicated=False)


def begin_run(
    state: StateView,
    account_id: AccountId,
    item: PublishItem,
    created_by: CreatedBy,
    *,
    awaits_sdk: bool = False,
    from_dead_letter: DeadLetterId | None = None,
) -> Decision[WorkflowRun]:
    """Begin a run, or a triggered one again with what its endpoint says of itself."""
    url, part = item.destination.text, item.options.workflow
    assert part is not None
    old = state.accounts[account_id].runs.get(part.run_id)
    # Its own, also if another run invoked it (D-515).
    options = replace(
        item.options,
        forwarded=shared(item.options.forwarded),
        incoming=item.options.incoming if item.options.forward_incoming else (),
        workflow=replace(part, url=shared(part.url), features=shared(part.features)),
    )
    first = WorkflowStep(message_id=next_message_id(state), body=item.body)
    if not part.by_sdk:
        unknown = (value for name, value in options.forwarded if name.lower().endswith(_UNKNOWN_SDK))
        awaits_sdk = awaits_sdk or part.unknown_sdk or any(value.lower() == "true" for value in unknown)
    run = WorkflowRun(
        run_id=part.run_id,
        number=state.counters.runs + 1,
        account_id=account_id,
        url=shared(part.url or url),
        created_ms=state.now_ms,
        caller_ip=shared(item.caller_ip),
        options=options,
        inherits="WF_TriggerOnConfig" in part.features,
        steps=(first,),
        listed_bytes=1 + listed_bytes(first),
        awaits_sdk=awaits_sdk,
        invoker=item.invoker,
        from_dead_letter=from_dead_letter,
        depth=_depth(state, account_id, item),
        traceparent=item.traceparent or (None if old is None else old.traceparent),
    )
    if old is None:
        yield RunStarted(run=run)
    else:
        run = replace(
            run,
            number=old.number,
            created_ms=old.created_ms,
            invoker=item.invoker or old.invoker,
            depth=max(run.depth, old.depth),
            waiters=old.waiters,
            saved_events=old.saved_events,
        )
        yield RunRewritten(run=run)
    yield from create_message(
        state,
        run,
        url=url,
        options=options,
        body=steps_body(run.steps),
        call_type=CallType.STEP,
        source=Source(
            caller_ip=item.caller_ip,
            created_by=created_by,
            from_dead_letter=from_dead_letter,
            traceparent=run.traceparent,
        ),
        is_init=True,
        awaits_sdk=awaits_sdk,
    )
    return run


def _depth(state: StateView, account_id: AccountId, item: PublishItem) -> int:
    """How many runs are above the run that an item begins, each of which has invoked the next.

    Endpoints and their callers write the header that clients count in, so it alone ends no chain (D-535). A run may
    have ended before it invokes (D-600).
    """
    if item.invoker is None:
        return 0
    outer = runs.waiting_run(state, account_id, item.invoker)
    ended_depths = state.accounts[account_id].ended_depths
    return 1 + (ended_depths.get(item.invoker.run_id, 0) if outer is None else outer.depth)
