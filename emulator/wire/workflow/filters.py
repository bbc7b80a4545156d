"""Query parameters that choose workflow runs and their dead letters. Source: the workflow reference, 8 and 9; D-386."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from emulator.core.errors import Malformed
from emulator.core.language.excerpts import excerpt
from emulator.core.model.names import AccountId
from emulator.core.workflows import RunState
from emulator.queries.history import CallbackState, DeadLetterQuery, WorkflowDeadLetters
from emulator.queries.workflow_runs import RunQuery
from emulator.wire.dialect import Dialect
from emulator.wire.fields import parse_number
from emulator.wire.messaging import bodies
from emulator.wire.messaging.filters import (
    MAX_DEAD_LETTERS,
    WORKFLOW_DEAD_LETTER_FILTERS,
    Given,
    parse_cursor,
    parse_instant_ms,
    parse_order,
)
from emulator.wire.parts import RequestParts

MAX_RUNS: Final = 10

_RUNS: Final = {
    "run_ids": ("workflowRunId",),
    "urls": ("workflowUrl",),
    "labels": ("label",),
    "message_ids": ("messageId",),
    "flow_keys": ("flowControlKey",),
    "caller_ips": ("callerIp",),
}
_OTHERS: Final = ("workflowRuns", "state", "workflowCreatedAt", "fromDate", "toDate", "cursor", "count", "trimBody")
_RUN_NAMES: Final = frozenset((*(name for names in _RUNS.values() for name in names), *_OTHERS, "groupBy"))
_DEAD_LETTERS: Final = {
    "dead_letter_ids": ("dlqIds",),
    "message_ids": ("messageId",),
    "urls": ("url",),
    "url_groups": ("topicName",),
    "queues": ("queueName",),
    "schedule_ids": ("scheduleId",),
    "labels": ("label",),
    "flow_keys": ("flowControlKey",),
    "caller_ips": ("callerIp", "callerIP"),
}
_DEAD_LETTER_NAMES: Final = frozenset(
    (
        *(name for names in _DEAD_LETTERS.values() for name in names),
        *WORKFLOW_DEAD_LETTER_FILTERS,
        *("fromDate", "toDate", "count", "cursor", "order", "source", "responseStatus", "api"),
    )
)


def read_run_query(parts: RequestParts, dialect: Dialect, account_id: AccountId) -> RunQuery:
    """A page of runs; `workflowRuns` names them one by one, and then no other filter counts.

    Raises: InvalidInput naming the parameter, also one that is unknown.
    """
    given = Given(parts, dialect, known=_RUN_NAMES)
    given.one("groupBy", _parse_group_by)
    page = RunQuery(
        account_id=account_id,
        count=given.count(maximum=MAX_RUNS) or MAX_RUNS,
        cursor=given.one("cursor", parse_cursor),
    )
    wanted = replace(
        page,
        states=given.each("state", _parse_state),
        created_ms=given.one("workflowCreatedAt", parse_instant_ms),
        **given.lists(_RUNS),
        **given.dates(),
    )
    runs = given.each("workflowRuns", _parse_run)
    return replace(page, runs=runs) if runs else wanted


def read_trim(parts: RequestParts, dialect: Dialect) -> int | None:
    """After how many bytes bodies are cut, None for never. Raises: InvalidInput (D-387)."""
    return Given(parts, dialect, known=None).one("trimBody", _parse_trim)


def _parse_trim(text: str) -> int | None:
    return None if text == "-1" else parse_number(text, "-1 or a number of bytes", 0, 2**31, digits=10)


def read_dead_letter_query(parts: RequestParts, dialect: Dialect, account_id: AccountId) -> DeadLetterQuery:
    """The dead letters of workflow runs to list or to delete, a page of them at a time.

    Raises: InvalidInput naming the parameter, also one that is unknown.
    """
    given = Given(parts, dialect, known=_DEAD_LETTER_NAMES)
    given.one("source", _parse_source)
    workflow = WorkflowDeadLetters(
        urls=given.all("workflowUrl"),
        run_ids=given.all("workflowRunId"),
        created_ms=given.one("workflowCreatedAt", parse_instant_ms),
        callback_states=given.each("failureFunctionState", _parse_callback_state),
    )
    query = DeadLetterQuery(
        account_id=account_id,
        count=given.count(maximum=MAX_DEAD_LETTERS) or MAX_DEAD_LETTERS,
        cursor=given.one("cursor", parse_cursor),
        latest_first=given.one("order", parse_order) or False,
        response_statuses=given.each("responseStatus", _parse_status),
        workflow=workflow,
    )
    return replace(query, **given.lists(_DEAD_LETTERS), **given.dates())


def read_deletion(parts: RequestParts, dialect: Dialect, account_id: AccountId) -> DeadLetterQuery | None:
    """The dead letters of workflow runs to delete, also by ids in the body; None if those are none (D-082).

    Raises: InvalidInput naming the parameter or the field of the body.
    """
    query = read_dead_letter_query(parts, dialect, account_id)
    listed = bodies.read_dead_letter_ids(parts.body)
    wanted = (*query.dead_letter_ids, *(listed or ()))
    return replace(query, dead_letter_ids=wanted) if wanted or listed is None else None


def _parse_group_by(text: str) -> str:
    if text != "workflowRunId":
        raise Malformed(f"expected workflowRunId, got {excerpt(text)}")
    return text


def _parse_source(text: str) -> str:
    if text != "workflow":
        raise Malformed(f"expected workflow, got {excerpt(text)}")
    return text


def _parse_state(text: str) -> RunState:
    try:
        return RunState(text.upper())
    except ValueError:
        raise Malformed(f"expected one of {', '.join(RunState)}, got {excerpt(text)}") from None


def _parse_callback_state(text: str) -> CallbackState:
    try:
        return CallbackState(text.upper())
    except ValueError:
        raise Malformed(f"expected one of {', '.join(CallbackState)}, got {excerpt(text)}") from None


def _parse_status(text: str) -> int:
    return parse_number(text, "a status", 0, 999, digits=3)


def _parse_run(text: str) -> tuple[str, int]:
    """A run by its id and its creation in milliseconds, as in wfr_a@1767225600000."""
    run_id, mark, created = text.rpartition("@")
    if not (run_id and mark):
        raise Malformed(f"expected an id, @ and the milliseconds of its creation, got {excerpt(text)}")
    return run_id, parse_instant_ms(created)
