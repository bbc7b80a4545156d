"""`/_emulator/dead-letters`: the messages and the workflow runs that have failed for good, of all accounts."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from msgspec import UNSET, Meta, UnsetType

from emulator.control.call import OWN_QUERY, ControlCall, ControlRoute
from emulator.control.messages import DEFAULT_LIMIT, FILTERS, MAX_LIMIT, PAGE, read_filter
from emulator.control.records import TWIN, Instant, InstantMs, Status, Text, View, run_number_of, run_of, source_of
from emulator.core.model.messages import CreatedBy
from emulator.core.model.options import Method
from emulator.core.record import AccountId, DeadLetterId, MessageId
from emulator.core.rules.callbacks import decompressed
from emulator.core.state import StateView
from emulator.queries.history import CallbackState, DeadLetterEntry, DeadLetterQuery, WorkflowDeadLetters
from emulator.queries.workflow_runs import failed_call
from emulator.wire.query_reader import Query, control_query
from emulator.wire.reasons import answered, said_of, where_failed
from emulator.wire.redaction import Surface, visibility_of


class DeadLetterKind(StrEnum):
    """What has failed for good: a message, or a workflow run by one of its calls."""

    MESSAGE = "message"
    RUN = "run"


class Remedy(StrEnum):
    """What can be done with a dead letter or a run, by the names of the shell's commands."""

    CANCEL = "cancel"
    RETRY = "retry"
    RESUME = "resume"
    RESTART = "restart"
    RETRY_FAILURE = "retry-failure"
    DELETE = "delete"


def read_dead_letter_query(given: Query) -> DeadLetterQuery:
    """The query of a list of dead letters of all accounts, the newest first. Raises: InvalidInput."""
    kind = given.one_of("kind", tuple(DeadLetterKind))
    return DeadLetterQuery(
        account_id=None,
        count=given.limit(MAX_LIMIT, DEFAULT_LIMIT),
        cursor=given.text("cursor"),
        latest_first=True,
        wanted=read_filter(given),
        both=kind is None,
        workflow=WorkflowDeadLetters() if kind == DeadLetterKind.RUN else None,
    )


class ListedDeadLetter(View):
    """A dead letter in a list, with its message; that of a workflow run with the call that failed it (D-675)."""

    dead_letter_id: DeadLetterId  #: The dead letter.
    kind: DeadLetterKind  #: What has failed: a message, or a workflow run by one of its calls.
    message_id: MessageId  #: The message; of a run, the call of its endpoint that failed.
    account_id: AccountId  #: The queue account it belongs to.
    method: Method  #: The method it is delivered with.
    url: Text  #: Its destination.
    created: Instant = TWIN  #: When it was made.
    created_ms: InstantMs
    created_by: CreatedBy  #: What made it.
    labels: tuple[str, ...]  #: Its labels; of a run, those of the run.
    schedule_id: str | None  #: The schedule that made it.
    queue: str | None  #: The queue it is in.
    url_group: str | None  #: The URL group it was published to.
    flow_control_key: str | None  #: Its flow control key.
    source_message_id: MessageId | None  #: The message that a callback reports on; null for any other.
    max_attempts: Annotated[int, Meta(ge=1)]  #: How many attempts the message could have.
    failed: Instant = TWIN  #: When it became a dead letter.
    failed_ms: InstantMs
    expires: Instant = TWIN  #: When it leaves the queue by age.
    expires_ms: InstantMs
    last_status: Status | None  #: The status of the last answer; null without an answer.
    last_error: str | None  #: Why the last attempt had no answer, or why an answer counts as a failure; else null.
    last_result: str | None  #: How the last attempt went and what answered it, in words; null before any.
    excerpt: str | None  #: The beginning of the body of the last answer; null without one.
    actions: tuple[Remedy, ...]  #: What can be done with it.
    workflow_run_id: Text | UnsetType  #: The workflow run that failed; only there if one did.
    #: The number of that run, which tells runs of one id apart (D-692).
    workflow_run_number: Annotated[int, Meta(ge=1)] | UnsetType
    #: The step that failed; null without the header `Error-Step-Name` in the answer of its endpoint.
    step: str | UnsetType | None
    where: Text | UnsetType  #: Which call failed, in words.
    #: How the call of its failure function went; null if there was none.
    failure_function: CallbackState | UnsetType | None


class DeadLetterPage(View):
    """A page of the dead letters of a world."""

    dead_letters: tuple[ListedDeadLetter, ...]
    cursor: str | None


def dead_letter_view(entry: DeadLetterEntry, state: StateView, prefix: str) -> ListedDeadLetter:
    """A dead letter with its message, and the attempt that was the last."""
    message, is_run = entry.message, entry.run_number is not None
    visibility, answer = visibility_of(message, Surface.OWN), entry.outcome.response
    outcome = visibility.outcome(entry.outcome)
    response = outcome.response
    failed = failed_call(message, () if answer is None else visibility.open_headers(answer.headers), prefix)
    actions: tuple[Remedy, ...] = (Remedy.RETRY, Remedy.DELETE)
    if is_run:
        actions = remedies_of_run(has_failure_function_failed=entry.callback_state is CallbackState.FAIL)
    return ListedDeadLetter(
        dead_letter_id=entry.dead_letter_id,
        kind=DeadLetterKind.RUN if is_run else DeadLetterKind.MESSAGE,
        message_id=message.message_id,
        account_id=message.account_id,
        **source_of(message),
        labels=entry.run_labels or message.policy.labels,
        max_attempts=message.policy.max_retries + 1,
        failed_ms=entry.failed_ms,
        expires_ms=entry.failed_ms + state.accounts[message.account_id].account.max_dlq_retention_time_milis,
        last_status=None if response is None else response.status,
        last_error=outcome.error,
        last_result=answered(outcome, entry.answered_by),
        excerpt=None if response is None else said_of(decompressed(response, ()).body) or None,
        actions=actions,
        workflow_run_id=run_of(message) if is_run else UNSET,
        workflow_run_number=run_number_of(message) if is_run else UNSET,
        step=failed.step if is_run else UNSET,
        where=where_failed(failed) if is_run else UNSET,
        failure_function=entry.callback_state if is_run else UNSET,
    )


def remedies_of_run(*, has_failure_function_failed: bool) -> tuple[Remedy, ...]:
    """What can be done with the dead letter of a run."""
    again = (Remedy.RETRY_FAILURE,) if has_failure_function_failed else ()
    return (Remedy.RESUME, Remedy.RESTART, *again, Remedy.DELETE)


async def list_dead_letters(call: ControlCall) -> DeadLetterPage:
    query = read_dead_letter_query(control_query(call.parts.query, "kind", *FILTERS, *PAGE))
    state = await call.world.current_state()
    page = await call.world.history.dead_letters(query)
    found = tuple(dead_letter_view(each, state, call.dialect.header_prefix) for each in page.items)
    return DeadLetterPage(dead_letters=found, cursor=page.cursor)


ROUTES: tuple[ControlRoute, ...] = (ControlRoute("GET", "/_emulator/dead-letters", list_dead_letters, OWN_QUERY),)
