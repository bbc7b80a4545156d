"""The steps of a run, in groups: what was done one after the other, what side by side, and what is being tried.

A step is known by what the workflow's endpoint published of it: plans of parallel steps, results, requests of
call steps, waits and invocations. Source: the workflow reference, 4.2 and 8; decision D-385.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from enum import StrEnum

from msgspec.structs import replace

from emulator.core.commands import FailedRun
from emulator.core.model.messages import Message, Phase
from emulator.core.model.options import CallType
from emulator.core.model.workflows import RunState, Waiter
from emulator.core.record import MessageId, Record
from emulator.queries.history import LIVE, DeadLetterEntry, RecordedAttempt
from emulator.queries.workflow_runs import (
    AcceptedStep,
    CallResponse,
    PublishedStep,
    RecordedRun,
    RunMessage,
    RunSummary,
    StepState,
    read_step,
    response_of,
    step_of,
    step_of_request,
)


class StepLog(Record):
    """One step. `message` carried its result, or its plan; `message_id` is its id, or that of
    `request`. Of a step that a resumed run took over, the message is another run's, and only its id is here.

    `at_ms` is when it was accepted, or what it does was; `ended_ms` is None until it is done. `request` is the
    message to the third party of a call step, `response` what came back.
    """

    step: PublishedStep
    state: StepState
    at_ms: int
    ended_ms: int | None = None
    message_id: MessageId | None = None
    message: RunMessage | None = None
    request: RunMessage | None = None
    response: CallResponse | None = None
    wait: Waiter | None = None
    invoked: RunSummary | None = None


class StepGroup(Record):
    """Steps that ran side by side, or one that did not."""

    is_parallel: bool
    steps: tuple[StepLog, ...]


class Trial(Record):
    """A call of the endpoint that is under way or has failed: what it does is not known before it is done."""

    message: RunMessage
    state: StepState


class RunLog(Record):
    """A run with its steps in groups; the first is the initial payload. `failure` called the failure function."""

    recorded: RecordedRun
    groups: tuple[StepGroup, ...]
    trials: tuple[Trial, ...]
    failure: RunMessage | None

    @property
    def steps(self) -> tuple[StepLog, ...]:
        """All steps but the initial payload, in order."""
        return tuple(step for group in self.groups[1:] for step in group.steps)


def failing_call(log: RunLog) -> RunMessage | None:
    """The call, or the parallel step, that failed a run; None if the run has not failed, or history has dropped it."""
    failed = [each.message for each in log.trials if each.state is StepState.FAILED]
    failed += [each.message for each in log.steps if each.state is StepState.FAILED and each.message is not None]
    return next((each for each in failed if each.attempts), None)


class _Group:
    """A group that is being filled: the steps by their numbers."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.steps: dict[int, StepLog] = {}

    def has_room(self, size: int) -> bool:
        return self.size > 1 and self.size == size and len(self.steps) < self.size


def run_log(recorded: RecordedRun, now_ms: int) -> RunLog:
    """The steps of a run in groups, as of now."""
    placing = _Placing(recorded, now_ms)
    first, *rest = recorded.steps
    for accepted in rest:
        placing.accept(accepted)
    placing.add_unfinished()
    initial = StepLog(
        step=PublishedStep(step_name="init", step_type="Initial", out=first.step.body.decode("utf-8", "replace")),
        state=StepState.SUCCESS,
        at_ms=first.at_ms,
        ended_ms=first.at_ms,
        message_id=first.step.message_id,
        message=placing.messages.get(first.step.message_id),
    )
    groups = [StepGroup(is_parallel=False, steps=(initial,))]
    groups += [
        StepGroup(is_parallel=group.size > 1, steps=tuple(step for _, step in sorted(group.steps.items())))
        for group in placing.groups
    ]
    failures = [each for each in recorded.messages if each.call_type is CallType.FAILURE_CALL]
    return RunLog(
        recorded=recorded,
        groups=tuple(groups),
        trials=tuple(_trials(recorded, now_ms)),
        failure=failures[-1] if failures else None,
    )


# -- groups -----------------------------------------------------------------------------------


class _Placing:
    """Puts the steps of a run into groups, in the order in which they were accepted."""

    def __init__(self, recorded: RecordedRun, now_ms: int) -> None:
        self._recorded = recorded
        self.messages = recorded.messages_by_id()
        self._now_ms = now_ms
        self.groups: list[_Group] = []
        self._group_of: dict[int, _Group] = {}
        self._requests = {step_of_request(each.message).number: each for each in _of(recorded, CallType.TO_CALLBACK)}
        self._waits = {read_step(each.waiter.step).number: each for each in recorded.waits}
        invoking = ((each.run.invoker, each) for each in recorded.invoked)
        self._invoked = {read_step(by.step).number: (by, each) for by, each in invoking if by is not None}
        # What was asked for, by the number of the step, and when.
        self._begun = {
            number: (step_of_request(each.message), each.message.created_ms)
            for number, each in sorted(self._requests.items())
        }
        for number, wait in sorted(self._waits.items()):
            self._begun.setdefault(number, (read_step(wait.waiter.step), wait.at_ms))
        for number, (invoker, run) in sorted(self._invoked.items(), key=lambda item: item[0]):
            # It may have begun long before its invoker (D-450).
            at_ms = max(run.run.created_ms, recorded.run.created_ms)
            self._begun.setdefault(number, (read_step(invoker.step), at_ms))

    def accept(self, accepted: AcceptedStep) -> None:
        step = read_step(accepted.step.body)
        message = self.messages.get(accepted.step.message_id)
        group = self._group_of.get(step.number)
        before = None if group is None else group.steps.get(step.number)
        # A plan is known already, or the client replays the first result of a step.
        if (step.is_plan and group is not None) or (before is not None and before.state is StepState.SUCCESS):
            return
        log = StepLog(
            step=step,
            state=StepState.SUCCESS,
            at_ms=accepted.at_ms if before is None else before.at_ms,
            ended_ms=accepted.at_ms,
            message_id=accepted.step.message_id,
            message=message,
        )
        if step.is_plan:
            state, ended_ms = self._unfinished_state(step.number)
            if message is not None and message.phase is not Phase.DELIVERED:
                state, ended_ms = _trial_state(message, self._recorded.state), message.ended_ms
            log = replace(log, state=state, ended_ms=ended_ms)
        elif before is None and step.is_sleep and message is not None:
            log = _sleeping(log, message, self._recorded.state, self._now_ms)
        elif before is None and step.number in self._begun:
            log = replace(log, at_ms=self._begun[step.number][1])
        self._put(log)

    def add_unfinished(self) -> None:
        """What was asked for and has no result yet."""
        for number, (step, at_ms) in self._begun.items():
            if number not in self._group_of:
                state, ended_ms = self._unfinished_state(number)
                self._put(StepLog(step=step, state=state, at_ms=at_ms, ended_ms=ended_ms))

    def _put(self, log: StepLog) -> None:
        """A step that is in no group yet joins the last one, or a new one."""
        step, number = log.step, log.step.number
        if number not in self._group_of:
            if not (self.groups and self.groups[-1].has_room(step.concurrent)):
                self.groups.append(_Group(max(1, step.concurrent)))
            self._group_of[number] = self.groups[-1]
        request, wait = self._requests.get(number), self._waits.get(number)
        self._group_of[number].steps[number] = replace(
            log,
            message_id=log.message_id if request is None else log.message_id or request.message.message_id,
            request=request,
            response=response_of(step),
            wait=None if wait is None else wait.waiter,
            invoked=self._invoked[number][1] if number in self._invoked else None,
        )

    def _unfinished_state(self, number: int) -> tuple[StepState, int | None]:
        """Of a step without a result, and when it ended. An invoked run continues when its invoker has ended."""
        ending, ended_as = self._recorded.summary.ending, StepState.CANCELED
        if number in self._invoked:
            ending, ended_as = self._invoked[number][1].ending, StepState.SUCCESS
        return (StepState.PROGRESS, None) if ending is None else (ended_as, ending.at_ms)


def _sleeping(log: StepLog, message: RunMessage, run_state: RunState, now_ms: int) -> StepLog:
    """A sleep is accepted when it begins, and ends with the delivery of its message."""
    woke_ms = message.message.not_before_ms
    if message.phase is Phase.CANCELED and not message.attempts:
        return replace(log, state=StepState.CANCELED, ended_ms=message.ended_ms)
    if woke_ms > now_ms and run_state is RunState.STARTED:
        return replace(log, state=StepState.PROGRESS, ended_ms=None)
    return replace(log, ended_ms=woke_ms)


def _of(recorded: RecordedRun, call_type: CallType) -> Iterator[RunMessage]:
    return (each for each in recorded.messages if each.call_type is call_type)


# -- what is being tried ----------------------------------------------------------------------


def _trials(recorded: RecordedRun, now_ms: int) -> Iterator[Trial]:
    """Calls of the endpoint under way, to be made again, or that have failed. Plans and sleeps are steps already."""
    bodies = {accepted.step.message_id: accepted.step.body for accepted in recorded.steps[1:]}
    for each in recorded.messages:
        if each.call_type not in (CallType.STEP, CallType.FROM_CALLBACK) or each.phase is Phase.DELIVERED:
            continue
        body = bodies.get(each.message.message_id)
        if body is not None:
            step = read_step(body)
            may_sleep = step.is_sleep and not each.attempts and each.phase in (Phase.PENDING, Phase.CANCELED)
            is_asleep = each.message.not_before_ms > (now_ms if each.ended_ms is None else each.ended_ms)
            if step.is_plan or (may_sleep and is_asleep):
                continue
        yield Trial(message=each, state=_trial_state(each, recorded.state))


def _trial_state(message: RunMessage, run_state: RunState) -> StepState:
    if message.phase in LIVE:
        return StepState.RETRY if message.phase is Phase.RETRYING else StepState.PROGRESS
    if message.phase is Phase.FAILED and run_state is RunState.FAILED:
        return StepState.FAILED
    return StepState.CANCELED


def failed_attempts(message: RunMessage) -> Iterator[RecordedAttempt]:
    """The failed attempts of a message."""
    return (each for each in message.attempts if not each.outcome.succeeded)


# -- failed runs ------------------------------------------------------------------------------


def failed_run(entry: DeadLetterEntry, log: RunLog) -> FailedRun:
    """The dead letter of a run as a command takes it."""
    recorded = log.recorded
    return FailedRun(
        dead_letter_id=entry.dead_letter_id,
        run=replace(recorded.run, steps=tuple(accepted.step for accepted in recorded.steps)),
        message=entry.message,
        outcome=entry.outcome,
        unfinished=tuple(_unfinished(recorded, entry.message)),
        failure_call=None if log.failure is None else log.failure.phase,
    )


def _unfinished(recorded: RecordedRun, failed: Message) -> Iterator[Message]:
    """The calls besides the failed one without which the run would never end (D-374)."""
    published = [(read_step(each.step.body), each.step.message_id) for each in recorded.steps[1:]]
    results = {step.number for step, _ in published if not step.is_plan}
    needed = {step.number: message_id for step, message_id in published if step.is_plan and step.number not in results}
    brought = step_of(failed) if failed.run is not None and failed.run.call_type is CallType.FROM_CALLBACK else None
    if brought is not None and brought.number not in results:
        # The failed call carries what the step waits for.
        needed.pop(brought.number, None)
    elif published and not needed:
        step, message_id = published[-1]
        needed[step.number] = message_id
    messages = recorded.messages_by_id()
    for message_id in needed.values():
        call = messages.get(message_id)
        if call is not None and message_id != failed.message_id:
            yield call.message


# -- what a run waits for -----------------------------------------------------------------------
# What a workflow run waits for, and until when.


class AwaitedKind(StrEnum):
    """What is waited for, and in brackets what the subject names."""

    SLEEP = "sleep"  # an instant
    EVENT = "event"  # an event, or its deadline (the event's id)
    RESPONSE = "response"  # the answer of a third party (its URL)
    RUN = "run"  # the end of an invoked run (its id)
    CALL = "call"  # a call of the endpoint that is under way or due (the message's id)
    RETRY = "retry"  # the next call of the endpoint after a failed one (the message's id)


class Awaited(Record):
    """One thing that a run waits for since an instant; `until_ms` is None where no instant is known.

    A call that has not left has started, and waits to leave.
    """

    kind: AwaitedKind
    step: str | None
    subject: str
    since_ms: int
    until_ms: int | None = None
    has_left: bool = True


def awaited(log: RunLog, not_left: Collection[MessageId] = ()) -> tuple[Awaited, ...]:
    """All that an active run waits for, the steps in their order; nothing once it has ended.

    `not_left` are the messages whose attempts have started and not left.
    """
    if log.recorded.summary.ending is not None:
        return ()
    return (
        *(_by_step(each, not_left) for each in log.steps if each.state in (StepState.PROGRESS, StepState.RETRY)),
        *(_by_call(each.message, None, not_left) for each in log.trials),
    )


def _by_step(log: StepLog, not_left: Collection[MessageId]) -> Awaited:
    message, request, at_ms = log.message, log.request, log.at_ms
    subject = ""
    until_ms: int | None = None
    if log.invoked is not None:
        kind, subject = AwaitedKind.RUN, log.invoked.run.run_id
    elif log.wait is not None:
        kind, subject, until_ms = AwaitedKind.EVENT, log.wait.event_id, log.wait.deadline_ms
    elif request is not None:
        kind, subject, until_ms = AwaitedKind.RESPONSE, request.message.url, _due_ms(request)
        at_ms = request.message.created_ms
    elif log.step.is_sleep and message is not None and message.phase is Phase.PENDING:
        kind, until_ms = AwaitedKind.SLEEP, message.message.not_before_ms
    elif message is not None:
        return _by_call(message, log.step.step_name, not_left)
    else:
        kind = AwaitedKind.CALL
    return Awaited(kind=kind, step=log.step.step_name, subject=subject, since_ms=at_ms, until_ms=until_ms)


def _by_call(message: RunMessage, step: str | None, not_left: Collection[MessageId]) -> Awaited:
    kind = AwaitedKind.RETRY if message.phase is Phase.RETRYING else AwaitedKind.CALL
    since_ms = message.attempts[-1].at_ms if message.attempts else message.message.created_ms
    return Awaited(
        kind=kind,
        step=step,
        subject=message.message.message_id,
        since_ms=since_ms,
        until_ms=_due_ms(message),
        has_left=message.message.message_id not in not_left,
    )


def _due_ms(message: RunMessage) -> int | None:
    """When the next attempt of a message is due; None for one that is under way."""
    if message.phase is Phase.PENDING:
        return message.message.not_before_ms
    return message.next_ms
