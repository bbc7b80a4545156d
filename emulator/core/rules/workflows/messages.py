"""Making the messages of a run, and the list of steps that they deliver."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import lru_cache
from typing import TypeVar

import msgspec

from emulator.core.decision import Decision
from emulator.core.facts import MessageCreated, StepAccepted
from emulator.core.identifiers import message_id as make_message_id
from emulator.core.model.messages import CreatedBy, Message
from emulator.core.model.names import AccountId, DeadLetterId, Headers, MessageId
from emulator.core.model.options import CallType, MessageOptions, Method, RunPart
from emulator.core.record import Record
from emulator.core.rules import limits
from emulator.core.rules.attempts import bring_limits
from emulator.core.rules.options import delivered_headers, first_delivery_ms, over
from emulator.core.state_view import StateView
from emulator.core.workflows import WorkflowRun, WorkflowStep

# A message of a run is tried again three times, whatever the account's plan says for others (D-362).
DEFAULT_RETRIES = 3

# Forwarded headers of the init message that are about that message alone.
SDK_VERSION = "-workflow-sdk-version"
_OF_INIT_ALONE = ("-workflow-unknown-sdk", "-workflow-invoke-count")


T = TypeVar("T", bound=Hashable)


@lru_cache(maxsize=1024)
def shared(value: T) -> T:
    """The same value, as one object for all that have it: the runs of one workflow differ in little."""
    return value


class Delivery(Record):
    """A message of a run to be made: where it goes and what it carries."""

    url: str
    options: MessageOptions
    body: bytes
    call_type: CallType
    caller_ip: str
    created_by: CreatedBy
    is_init: bool = False
    awaits_sdk: bool = False
    api: str | None = None
    source_message_id: MessageId | None = None
    from_dead_letter: DeadLetterId | None = None


def next_message_id(state: StateView, *, after: int = 0) -> MessageId:
    """The id of the message that is created next, or after so many others."""
    return MessageId(make_message_id(state.event_key, state.counters.messages + 1 + after))


def create(state: StateView, run: WorkflowRun, wanted: Delivery) -> Decision[MessageId]:
    """Make a message of a run, which may have ended; the reply is its id."""
    options = wanted.options
    account = state.accounts[run.account_id].account
    yield from bring_limits(state, run.account_id, options.flow_control)
    message_id = next_message_id(state)
    retries = min(DEFAULT_RETRIES, account.max_retries) if options.max_retries is None else options.max_retries
    yield MessageCreated(
        message=Message(
            message_id=message_id,
            number=state.counters.messages + 1,
            account_id=run.account_id,
            created_ms=state.now_ms,
            not_before_ms=first_delivery_ms(options, state.now_ms),
            url=shared(wanted.url),
            method=options.method or Method.POST,
            headers=shared(delivered_headers(options)),
            body=wanted.body,
            max_retries=retries,
            retry_delay=options.retry_delay,
            timeout_ms=limits.timeout_ms(account, options.timeout_ms),
            callback=options.callback,
            failure_callback=options.failure_callback,
            caller_ip=shared(wanted.caller_ip),
            labels=options.labels,
            redaction=options.redaction,
            flow_control=options.flow_control,
            source_message_id=wanted.source_message_id,
            api=wanted.api,
            created_by=wanted.created_by,
            from_dead_letter=wanted.from_dead_letter,
            run=RunPart(
                run_id=run.run_id,
                run_number=run.number,
                run_created_ms=run.created_ms,
                url=run.url,
                call_type=wanted.call_type,
                is_init=wanted.is_init,
                awaits_sdk=wanted.awaits_sdk,
                detects_workflow=wanted.is_init and detects_workflow(options),
            ),
        )
    )
    return message_id


def append_step(
    state: StateView,
    run: WorkflowRun,
    *,
    url: str,
    options: MessageOptions,
    body: bytes,
    caller_ip: str,
    created_by: CreatedBy,
) -> Decision[MessageId]:
    """A result joins the run's steps, and the message that tells of it goes to `url`."""
    step = WorkflowStep(message_id=next_message_id(state), body=body)
    yield StepAccepted(
        account_id=run.account_id, run_id=run.run_id, run_number=run.number, step=step, at_ms=state.now_ms
    )
    return (
        yield from create(
            state,
            run,
            Delivery(
                url=url,
                options=inherited(run, options, CallType.STEP),
                body=steps_body((*run.steps, step)),
                call_type=CallType.STEP,
                caller_ip=caller_ip,
                created_by=created_by,
            ),
        )
    )


def active_run(state: StateView, message: Message) -> WorkflowRun | None:
    """The run that a message belongs to, None once it has ended."""
    if message.run is None:
        return None
    return live_run(state, message.account_id, message.run)


def live_run(state: StateView, account_id: AccountId, part: RunPart) -> WorkflowRun | None:
    """The run of a message's part, None once it has ended; a later run of the same id is another one."""
    run = state.accounts[account_id].runs.get(part.run_id)
    return run if run is not None and run.number == part.run_number else None


def detects_workflow(options: MessageOptions) -> bool:
    """Whether a 2xx answer to this init message must be a workflow endpoint's."""
    return options.workflow is not None and "WF_DetectTrigger" in options.workflow.features


def inherited(run: WorkflowRun, options: MessageOptions, call_type: CallType) -> MessageOptions:
    """The options of a call to the workflow URL: its own, over those of the run if they hold for all of it.

    The callback of a call step never gets the protocol's version: the client would read it as a list of steps.
    """
    if not run.inherits:
        return options
    own = run.options
    dropped = _OF_INIT_ALONE if call_type is CallType.STEP else (*_OF_INIT_ALONE, SDK_VERSION)
    return over(
        options,
        MessageOptions(
            forwarded=_without(own.forwarded, dropped),
            max_retries=own.max_retries,
            retry_delay=own.retry_delay,
            failure_callback=own.failure_callback,
            labels=own.labels,
            redaction=own.redaction,
            flow_control=own.flow_control,
        ),
    )


def _without(headers: Headers, endings: tuple[str, ...]) -> Headers:
    return tuple(pair for pair in headers if not pair[0].lower().endswith(endings))


class _Listed(msgspec.Struct, gc=False):
    # Named as on the wire; bytes become base64.
    messageId: MessageId  # noqa: N815
    body: bytes
    callType: CallType  # noqa: N815


_encode = msgspec.json.Encoder().encode


def steps_body(steps: Sequence[WorkflowStep]) -> bytes:
    """The list of steps that a workflow endpoint replays, as compact JSON."""
    return _encode([_Listed(step.message_id, step.body, step.call_type) for step in steps])
