"""Query parameters that choose and page: of the event log, the dead letter queue and bulk cancel.

Source: the interface document names `order`, `IN_PROGRESS` and "optional filters" only; the
parameters and how they combine are those of the public service (D-078), as is the older body of
bulk cancel (D-082).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from msgspec.structs import replace

from emulator.core.commands import CancelMessages
from emulator.core.errors import InvalidInput, Malformed
from emulator.core.language.excerpts import excerpt
from emulator.core.model.messages import EventState, MessageFilter
from emulator.core.model.names import AccountId
from emulator.queries.history import DeadLetterQuery, EventQuery
from emulator.wire.dialect import Dialect
from emulator.wire.fields import parse_number, read_field
from emulator.wire.messaging import bodies as json_bodies
from emulator.wire.names import parse_name
from emulator.wire.parts import RequestParts

T = TypeVar("T")

MAX_EVENTS = 1000
MAX_LOGS = 100
MAX_DEAD_LETTERS = 100
MAX_CANCELED = 500
MAX_INSTANT_MS = 2**53 - 1

# The fields of a query that hold lists of texts, each with the parameters that fill it.
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


def _names(lists: Mapping[str, tuple[str, ...]], *others: str) -> frozenset[str]:
    named = (name for spellings in lists.values() for name in spellings)
    return frozenset((*named, "count", "fromDate", "toDate", *others))


# Of the dead letters of workflow runs alone.
WORKFLOW_DEAD_LETTER_FILTERS = ("workflowUrl", "workflowRunId", "workflowCreatedAt", "failureFunctionState")

_CANCEL_NAMES = _names(_CANCEL)
_DEAD_LETTER_NAMES = _names(_DEAD_LETTERS, "api", "cursor", "order", "responseStatus", "source")


def read_cancellation(parts: RequestParts, dialect: Dialect, account_id: AccountId) -> CancelMessages:
    """A bulk cancel, from the query and from a body; with message ids all other filters do not count.

    Raises: InvalidInput naming the parameter, also one that is unknown. Source: D-078, D-082.
    """
    given = Given(parts, dialect, known=_CANCEL_NAMES)
    given.add(json_bodies.read_cancel_filters(parts.body).items())
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
    given = Given(parts, dialect, known=None)
    states = given.each("state", _parse_state)
    query = EventQuery(
        account_id=account_id,
        count=given.count(maximum=maximum) or maximum,
        cursor=given.one("cursor", parse_cursor),
        latest_first=given.is_latest_first(default=True),
        states=tuple(dict.fromkeys(state for state in states if state is not None)),
        in_progress=None in states,
    )
    return replace(query, **given.lists(_EVENTS), **given.dates())


def asks_for_workflows(parts: RequestParts, dialect: Dialect) -> bool:
    """Whether a listing of dead letters is about those of workflow runs (D-389).

    It says `source=workflow`, or has a filter that no other dead letter could pass. Raises: InvalidInput.
    """
    given = Given(parts, dialect, known=None)
    is_named = given.one("source", _parse_source) is not None
    return is_named or any(name in WORKFLOW_DEAD_LETTER_FILTERS for name, _ in parts.query)


def read_dead_letter_query(parts: RequestParts, dialect: Dialect, account_id: AccountId) -> DeadLetterQuery | None:
    """The dead letters to list, to delete or to publish again, a page of them at a time.

    None means that no dead letter is meant, whatever the queue holds: a deletion may list ids in
    its body, and an empty list there deletes nothing (D-082); entries of workflows are another queue.

    Raises: InvalidInput naming the parameter, also one that is unknown. Source: D-078.
    """
    given = Given(parts, dialect, known=_DEAD_LETTER_NAMES)
    source = given.one("source", _parse_source)
    listed = json_bodies.read_dead_letter_ids(parts.body) if parts.method == "DELETE" else None
    query = DeadLetterQuery(
        account_id=account_id,
        count=given.count(maximum=MAX_DEAD_LETTERS) or MAX_DEAD_LETTERS,
        cursor=given.one("cursor", parse_cursor),
        latest_first=given.is_latest_first(default=False),
        response_statuses=given.each("responseStatus", _parse_status),
    )
    query = replace(query, **given.lists(_DEAD_LETTERS), **given.dates())
    query = replace(query, dead_letter_ids=query.dead_letter_ids + (listed or ()))
    lists_nothing = listed == () and not query.dead_letter_ids
    return None if source is not None or lists_nothing else query


# --- one request's parameters -------------------------------------------------------------------

# A comma may be part of a URL; it separates only where another one begins.
_BEFORE_URL = re.compile(r",(?=https?://)", re.IGNORECASE)
_SEPARATORS = {"url": _BEFORE_URL, "workflowUrl": _BEFORE_URL, "path": re.compile(r",(?=/)")}
_COMMA = re.compile(",")
# What these name follows a grammar, and what breaks it names nothing (D-310).
_NAMES = frozenset(("scheduleId", "queueName", "topicName"))


class Given:
    """The values of a request's parameters, repeated or separated by commas.

    With `known`, any other name is refused: a misspelt filter must not choose everything.
    """

    def __init__(self, parts: RequestParts, dialect: Dialect, *, known: frozenset[str] | None) -> None:
        self._values: dict[str, list[str]] = {}
        for name, value in parts.query:
            if dialect.is_own_parameter(name):
                continue
            if known is not None and name not in known:
                raise InvalidInput(name, f"unknown filter, expected {', '.join(sorted(known))}")
            self._values.setdefault(name, []).append(value)

    def add(self, values: Iterable[tuple[str, tuple[str, ...]]]) -> None:
        for name, more in values:
            if more:
                self._values.setdefault(name, []).extend(more)

    def all(self, *spellings: str) -> tuple[str, ...]:
        """All values of a parameter, each once. Raises: InvalidInput for one without a value (D-078)."""
        found: dict[str, None] = {}
        for name in spellings:
            for text in self._values.get(name, ()):
                items = [item.strip() for item in _SEPARATORS.get(name, _COMMA).split(text)]
                if not any(items):
                    raise InvalidInput(name, "expected a value")
                if name in _NAMES:
                    items = [read_field(name, item, parse_name) for item in items if item]
                found.update(dict.fromkeys(item for item in items if item))
        return tuple(found)

    def lists(self, fields: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
        """The values of several fields, each under all spellings of its parameter."""
        return {field: self.all(*spellings) for field, spellings in fields.items()}

    def dates(self) -> dict[str, int | None]:
        return {
            field: self.one(name, parse_instant_ms) for field, name in (("from_ms", "fromDate"), ("to_ms", "toDate"))
        }

    def each(self, name: str, parse: Callable[[str], T]) -> tuple[T, ...]:
        """All values of a parameter, parsed."""
        return tuple(read_field(name, value, parse) for value in self.all(name))

    def one(self, name: str, parse: Callable[[str], T]) -> T | None:
        """The value of a parameter that has only one; an empty one counts as absent."""
        values = [value for value in self._values.get(name, ()) if value.strip()]
        if not values:
            return None
        if len(values) > 1:
            raise InvalidInput(name, "expected this parameter only once")
        return read_field(name, values[0].strip(), parse)

    def count(self, *, maximum: int) -> int | None:
        """How many at most, None if that was not said."""
        return self.one("count", lambda text: parse_number(text, "a number", 1, maximum, digits=16))

    def is_latest_first(self, *, default: bool) -> bool:
        order = self.one("order", parse_order)
        return default if order is None else order


# An instant and a number, as in 1686652644442-12.
_CURSOR = re.compile(r"[0-9]{1,16}-[0-9]{1,16}")
_ORDERS = {"latestfirst": True, "earliestfirst": False}

_STATES: dict[str, EventState | None] = {
    **{state.value: state for state in EventState},
    # Both spellings are in use (D-013).
    "CANCELLED": EventState.CANCELED,
    # Not a state of an entry: it asks for the entries of messages in flight.
    "IN_PROGRESS": None,
}


def parse_instant_ms(text: str) -> int:
    """Milliseconds since the Unix epoch. Raises: Malformed."""
    return parse_number(text, "Unix milliseconds", 0, MAX_INSTANT_MS, digits=16)


def parse_cursor(text: str) -> str:
    """The cursor of an earlier answer. Raises: Malformed."""
    if not _CURSOR.fullmatch(text):
        raise Malformed(f"expected the cursor of an earlier answer, got {excerpt(text)}")
    return text


def parse_order(text: str) -> bool:
    """Whether the latest come first. Raises: Malformed."""
    latest_first = _ORDERS.get(text.lower())
    if latest_first is None:
        raise Malformed(f"expected earliestFirst or latestFirst, got {excerpt(text)}")
    return latest_first


def _parse_state(text: str) -> EventState | None:
    """A state of the event log, None for messages in progress."""
    name = text.upper()
    if name not in _STATES:
        raise Malformed(f"expected one of {', '.join(_STATES)}, got {excerpt(text)}")
    return _STATES[name]


def _parse_status(text: str) -> int:
    return parse_number(text, "a status", 0, 999, digits=3)


def _parse_source(text: str) -> str:
    if text != "workflow":
        raise Malformed(f"expected workflow, got {excerpt(text)}")
    return text
