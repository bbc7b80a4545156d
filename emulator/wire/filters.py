"""Query parameters that choose and page: of the event log, dead letters, bulk cancel and workflow runs.

Source: the interface document names `order`, `IN_PROGRESS` and "optional filters" only; the
parameters and how they combine are those of the public service (D-078), as is the older body of
bulk cancel (D-082). Those of workflow runs: the workflow reference, 8 and 9 (D-386).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import msgspec
from msgspec.structs import replace

from emulator.core.commands import CancelMessages
from emulator.core.errors import InvalidInput, Malformed
from emulator.core.language.text import excerpt
from emulator.core.model.messages import EventState, MessageFilter
from emulator.core.model.workflows import RunState
from emulator.core.record import AccountId, DeadLetterId
from emulator.queries.history import CallbackState, DeadLetterQuery, EventQuery, WorkflowDeadLetters
from emulator.queries.workflow_runs import RunQuery, StepState
from emulator.wire.dialect import Dialect
from emulator.wire.json_reader import decoded
from emulator.wire.names import parse_number
from emulator.wire.parts import RequestParts
from emulator.wire.query_reader import (
    Query,
    choice,
    parse_bulk_cursor,
    parse_cursor,
    parse_instant_ms,
    parse_log_cursor,
    word,
)

MAX_EVENTS = 1000
MAX_LOGS = 100
# Of messages with their events (D-525).
DEFAULT_GROUPS, MAX_GROUPS = 10, 1000
# Of the logs of runs (D-523).
DEFAULT_RUNS, MAX_RUNS = 10, 1000
MAX_DEAD_LETTERS = 100
# Of one request that resumes or restarts runs (D-524).
MAX_BEGUN_AGAIN = 50
MAX_CANCELED = 500

# Fields that hold lists of texts, each with the parameters that fill it.
_COMMON = {
    "urls": ("url",),
    "url_groups": ("topicName",),
    "schedule_ids": ("scheduleId",),
    "queues": ("queueName",),
    "labels": ("label",),
    "flow_keys": ("flowControlKey",),
    "caller_ips": ("callerIp", "callerIP"),
}
_CANCEL = {**_COMMON, "hosts": ("host",), "paths": ("path",), "message_ids": ("messageIds",)}
_EVENTS = {**_COMMON, "hosts": ("host",), "paths": ("path",), "message_ids": ("messageId", "messageIds")}
_DEAD_LETTERS = {**_COMMON, "dead_letter_ids": ("dlqIds",), "message_ids": ("messageId",)}
_RUNS = {
    "run_ids": ("workflowRunId",),
    "urls": ("workflowUrl",),
    "labels": ("label",),
    "message_ids": ("messageId",),
    "flow_keys": ("flowControlKey",),
    "caller_ips": ("callerIp",),
}


def names_of(lists: Mapping[str, tuple[str, ...]], *others: str) -> frozenset[str]:
    """The names of filters: those of lists, of a count and of dates, and others."""
    named = (name for spellings in lists.values() for name in spellings)
    return frozenset((*named, "count", "fromDate", "toDate", *others))


# Of the dead letters of workflow runs alone.
_OF_RUNS = frozenset(("workflowUrl", "workflowRunId", "workflowCreatedAt", "failureFunctionState"))

_CANCEL_NAMES = names_of(_CANCEL)
_DEAD_LETTER_NAMES = names_of(_DEAD_LETTERS, "api", "cursor", "order", "responseStatus", "source", "trimBody")
_RUN_NAMES = names_of(_RUNS, "workflowRuns", "state", "workflowCreatedAt", "cursor", "trimBody", "groupBy")

_STATES: Mapping[str, EventState | None] = {
    **{state.value: state for state in EventState},
    # Both spellings are in use (D-013).
    "CANCELLED": EventState.CANCELED,
    # Not a state of an entry: it asks for the entries of messages in flight.
    "IN_PROGRESS": None,
}
_RUN_STATES: Mapping[str, RunState | StepState] = {state.value: state for state in (*RunState, *StepState)}


def query_of(parts: RequestParts, dialect: Dialect, known: Collection[str] | None = None) -> Query:
    """The parameters of a request, without the token and the options of messages. Raises: InvalidInput."""
    return Query(parts.query, is_other=dialect.is_own_parameter, known=known)


def read_cancellation(parts: RequestParts, dialect: Dialect, account_id: AccountId) -> CancelMessages:
    """A bulk cancel, from the query and from a body; with message ids all other filters do not count.

    Raises: InvalidInput naming the parameter, also one that is unknown. Source: D-078, D-082.
    """
    given = query_of(parts, dialect, _CANCEL_NAMES)
    given.add(read_cancel_filters(parts.body).items())
    count = given.count(maximum=MAX_CANCELED)
    wanted = replace(MessageFilter(), **given.lists(_CANCEL), **given.dates())
    if wanted.message_ids:
        wanted = MessageFilter(message_ids=wanted.message_ids)
    return CancelMessages(account_id=account_id, wanted=wanted, count=count)


def read_event_query(
    parts: RequestParts, dialect: Dialect, account_id: AccountId, *, maximum: int = MAX_EVENTS
) -> EventQuery:
    """A page of the event log; `maximum` is the largest count, and the default.

    Unknown parameters are ignored here, where nothing depends on them. Raises: InvalidInput naming
    the parameter. Source: D-078.
    """
    given = query_of(parts, dialect)
    states = given.each("state", choice(_STATES))
    is_grouped = groups_by_message(parts, dialect)
    query = EventQuery(
        account_id=account_id,
        count=given.count(maximum=MAX_GROUPS if is_grouped else maximum) or (DEFAULT_GROUPS if is_grouped else maximum),
        cursor=given.one("cursor", parse_log_cursor),
        latest_first=given.is_latest_first(default=True),
        states=tuple(dict.fromkeys(state for state in states if state is not None)),
        in_progress=None in states,
    )
    return replace(query, **given.lists(_EVENTS), **given.dates())


def groups_by_message(parts: RequestParts, dialect: Dialect) -> bool:
    """Whether a listing of events is of messages, each with its own. Raises: InvalidInput (D-525)."""
    return query_of(parts, dialect).one("groupBy", word("messageId")) is not None


def read_trim(parts: RequestParts, dialect: Dialect) -> int | None:
    """After how many bytes bodies are cut, None for never, -1 for no bodies. Raises: InvalidInput (D-387)."""
    return query_of(parts, dialect).one(
        "trimBody",
        lambda text: -1 if text == "-1" else parse_number(text, "-1 or a number of bytes", 0, 2**31, digits=10),
    )


def asks_for_workflows(parts: RequestParts, dialect: Dialect) -> bool:
    """Whether a listing of dead letters is about those of workflow runs (D-389).

    It says `source=workflow`, or has a filter that no other dead letter could pass. Raises: InvalidInput.
    """
    given = query_of(parts, dialect)
    is_named = given.one("source", word("workflow")) is not None
    return is_named or any(name in _OF_RUNS for name, _ in parts.query)


def read_dead_letter_query(parts: RequestParts, dialect: Dialect, account_id: AccountId) -> DeadLetterQuery | None:
    """The dead letters to list, to delete or to publish again, a page of them at a time.

    None means that no dead letter is meant, whatever the queue holds: a deletion may list ids in
    its body, and an empty list there deletes nothing (D-082); entries of workflows are another queue.

    Raises: InvalidInput naming the parameter, also one that is unknown. Source: D-078.
    """
    given = query_of(parts, dialect, _of_method(_DEAD_LETTER_NAMES, parts))
    source = given.one("source", word("workflow"))
    listed = read_dead_letter_ids(parts.body) if parts.method == "DELETE" else None
    operation = {"GET": None, "DELETE": "delete"}.get(parts.method, "retry")
    query = _dead_letters(given, account_id, operation)
    query = replace(query, dead_letter_ids=query.dead_letter_ids + (listed or ()))
    if source is not None or (listed == () and not query.dead_letter_ids):
        return None
    return query if operation is None else _by_ids_alone(query)


def read_run_dead_letter_query(
    parts: RequestParts, dialect: Dialect, account_id: AccountId, operation: str | None = None
) -> DeadLetterQuery:
    """The dead letters of workflow runs to list, or for a bulk operation, a page of them at a time.

    Raises: InvalidInput naming the parameter, also one that is unknown.
    """
    given = query_of(parts, dialect, _of_method(_DEAD_LETTER_NAMES | _OF_RUNS, parts))
    given.one("source", word("workflow"))
    of_runs = WorkflowDeadLetters(
        urls=given.all("workflowUrl"),
        run_ids=given.all("workflowRunId"),
        created_ms=given.one("workflowCreatedAt", parse_instant_ms),
        callback_states=given.each("failureFunctionState", choice({state.value: state for state in CallbackState})),
    )
    return replace(_dead_letters(given, account_id, operation), workflow=of_runs)


def _dead_letters(given: Query, account_id: AccountId, operation: str | None) -> DeadLetterQuery:
    """What chooses dead letters of either queue."""
    query = DeadLetterQuery(
        account_id=account_id,
        count=given.count(maximum=MAX_DEAD_LETTERS) or MAX_DEAD_LETTERS,
        cursor=given.one("cursor", parse_cursor if operation is None else parse_bulk_cursor),
        operation=operation,
        latest_first=given.is_latest_first(default=False),
        response_statuses=given.each("responseStatus", lambda text: parse_number(text, "a status", 0, 999, digits=3)),
    )
    return replace(query, **given.lists(_DEAD_LETTERS), **given.dates())


def read_run_deletion(parts: RequestParts, dialect: Dialect, account_id: AccountId) -> DeadLetterQuery | None:
    """The dead letters of workflow runs to delete, also by ids in the body; None if those are none (D-082).

    Raises: InvalidInput naming the parameter or the field of the body.
    """
    query = read_run_dead_letter_query(parts, dialect, account_id, "delete")
    listed = read_dead_letter_ids(parts.body)
    wanted = (*query.dead_letter_ids, *(listed or ()))
    return _by_ids_alone(replace(query, dead_letter_ids=wanted)) if wanted or listed is None else None


def read_runs_to_begin_again(
    parts: RequestParts, dialect: Dialect, account_id: AccountId, operation: str
) -> DeadLetterQuery:
    """The failed runs to resume or to restart, at most 50 at a time (D-524). Raises: InvalidInput."""
    query = _by_ids_alone(read_run_dead_letter_query(parts, dialect, account_id, operation))
    return replace(query, count=min(query.count, MAX_BEGUN_AGAIN))


def _of_method(names: frozenset[str], parts: RequestParts) -> frozenset[str]:
    """The filters of a request; only what lists entries shows bodies to cut."""
    return names if parts.method == "GET" else names - {"trimBody"}


def _by_ids_alone(query: DeadLetterQuery) -> DeadLetterQuery:
    """In a bulk operation ids make all other filters count for nothing (D-521)."""
    if not query.dead_letter_ids:
        return query
    return DeadLetterQuery(
        account_id=query.account_id,
        count=query.count,
        cursor=query.cursor,
        operation=query.operation,
        latest_first=query.latest_first,
        dead_letter_ids=query.dead_letter_ids,
        workflow=None if query.workflow is None else WorkflowDeadLetters(),
    )


def read_run_query(parts: RequestParts, dialect: Dialect, account_id: AccountId) -> RunQuery:
    """A page of runs; `workflowRuns` names them one by one, and then no other filter counts.

    Raises: InvalidInput naming the parameter, also one that is unknown.
    """
    given = query_of(parts, dialect, _RUN_NAMES)
    given.one("groupBy", word("workflowRunId"))
    page = RunQuery(
        account_id=account_id,
        count=given.count(maximum=MAX_RUNS) or DEFAULT_RUNS,
        cursor=given.one("cursor", parse_log_cursor),
    )
    states = given.each("state", choice(_RUN_STATES))
    wanted = replace(
        page,
        states=tuple(state for state in states if isinstance(state, RunState)),
        step_states=tuple(state for state in states if isinstance(state, StepState)),
        created_ms=given.one("workflowCreatedAt", parse_instant_ms),
        **given.lists(_RUNS),
        **given.dates(),
    )
    runs = given.each("workflowRuns", _parse_run)
    return replace(page, runs=runs) if runs else wanted


# -- single values ----------------------------------------------------------------------------


def _parse_run(text: str) -> tuple[str, int]:
    """A run by its id and its creation in milliseconds, as in wfr_a@1767225600000."""
    run_id, mark, created = text.rpartition("@")
    if not (run_id and mark):
        raise Malformed(f"expected an id, @ and the milliseconds of its creation, got {excerpt(text)}")
    return run_id, parse_instant_ms(created)


# -- ids and filters in bodies ----------------------------------------------------------------


class _DeadLetters(msgspec.Struct, forbid_unknown_fields=True):
    dlqIds: list[str] | None = None  # noqa: N815


_Cancel = msgspec.defstruct(
    "_Cancel",
    [
        *((name, list[str] | str | None, None) for spellings in _CANCEL.values() for name in spellings),
        *((name, int | None, None) for name in ("fromDate", "toDate", "count")),
    ],
    forbid_unknown_fields=True,
)


_DEAD_LETTER_IDS: msgspec.json.Decoder[_DeadLetters | None] = msgspec.json.Decoder(_DeadLetters | None)
_LISTED_FILTERS: msgspec.json.Decoder[msgspec.Struct | None] = msgspec.json.Decoder(_Cancel | None)


def read_dead_letter_ids(body: bytes) -> tuple[DeadLetterId, ...] | None:
    """The dead letters a body lists; None if it says nothing, so that filters decide.

    Raises: InvalidInput naming the JSON field.
    """
    if not body:
        return None
    given = decoded(_DEAD_LETTER_IDS, body)
    if given is None or given.dlqIds is None:
        return None
    return tuple(DeadLetterId(dead_letter_id) for dead_letter_id in given.dlqIds)


def read_cancel_filters(body: bytes) -> dict[str, tuple[str, ...]]:
    """The filters of a bulk cancel that older clients send as a body, under the names of the query.

    Dates and counts come as digits, like in a query. Raises: InvalidInput naming the JSON field.
    """
    if not body:
        return {}
    given = decoded(_LISTED_FILTERS, body)
    if given is None:
        return {}
    filters: dict[str, tuple[str, ...]] = {}
    for name in given.__struct_fields__:
        value: str | int | list[str] | None = getattr(given, name)
        if isinstance(value, list):
            # Only an empty list of ids is known to mean everything (D-082).
            if not value and name != "messageIds":
                raise InvalidInput(name, "expected a value")
            filters[name] = tuple(value)
        elif value is not None:
            filters[name] = (str(value),)
    return filters
