"""What a workflow run waits for, and until when."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum

from emulator.core.model.messages import Phase
from emulator.core.record import Record
from emulator.queries.workflow_runs import RunMessage
from emulator.queries.workflow_steps import RunLog, StepLog, StepState


class AwaitedKind(StrEnum):
    """What is waited for, and in brackets what the subject names."""

    SLEEP = "sleep"  # an instant
    EVENT = "event"  # an event, or its deadline (the event's id)
    RESPONSE = "response"  # the answer of a third party (its URL)
    RUN = "run"  # the end of an invoked run (its id)
    CALL = "call"  # a call of the endpoint that is under way or due (the message's id)
    RETRY = "retry"  # the next call of the endpoint after a failed one (the message's id)


class Awaited(Record):
    """One thing that a run waits for since an instant; `until_ms` is None where no instant is known."""

    kind: AwaitedKind
    step: str | None
    subject: str
    since_ms: int
    until_ms: int | None = None


def awaited(log: RunLog) -> tuple[Awaited, ...]:
    """All that an active run waits for, the steps in their order; nothing once it has ended."""
    if log.recorded.summary.ending is not None:
        return ()
    return (*_by_steps(log), *(_by_call(each.message, None) for each in log.trials))


def _by_steps(log: RunLog) -> Iterator[Awaited]:
    for step in log.steps:
        if step.state in (StepState.PROGRESS, StepState.RETRY):
            yield _by_step(step)


def _by_step(log: StepLog) -> Awaited:
    name, message = log.step.step_name, log.message
    if log.invoked is not None:
        return Awaited(kind=AwaitedKind.RUN, step=name, subject=log.invoked.run.run_id, since_ms=log.at_ms)
    if log.wait is not None:
        deadline_ms = log.wait.deadline_ms
        return Awaited(
            kind=AwaitedKind.EVENT, step=name, subject=log.wait.event_id, since_ms=log.at_ms, until_ms=deadline_ms
        )
    if log.request is not None:
        request = log.request
        return Awaited(
            kind=AwaitedKind.RESPONSE,
            step=name,
            subject=request.message.url,
            since_ms=request.message.created_ms,
            until_ms=_due_ms(request),
        )
    if log.step.is_sleep and message is not None and message.phase is Phase.PENDING:
        until_ms = message.message.not_before_ms
        return Awaited(kind=AwaitedKind.SLEEP, step=name, subject="", since_ms=log.at_ms, until_ms=until_ms)
    if message is not None:
        return _by_call(message, name)
    return Awaited(kind=AwaitedKind.CALL, step=name, subject="", since_ms=log.at_ms)


def _by_call(message: RunMessage, step: str | None) -> Awaited:
    kind = AwaitedKind.RETRY if message.phase is Phase.RETRYING else AwaitedKind.CALL
    since_ms = message.attempts[-1].at_ms if message.attempts else message.message.created_ms
    return Awaited(
        kind=kind, step=step, subject=message.message.message_id, since_ms=since_ms, until_ms=_due_ms(message)
    )


def _due_ms(message: RunMessage) -> int | None:
    """When the next attempt of a message is due; None for one that is under way."""
    if message.phase is Phase.PENDING:
        return message.message.not_before_ms
    return message.next_ms
