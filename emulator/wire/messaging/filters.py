"""Query parameters that choose and page: of the event log, the dead letter queue and bulk cancel.

Source: the interface document names `order`, `IN_PROGRESS` and "optional filters" only; the
parameters and how they combine are those of the public service (D-078), as is the older body of
bulk cancel (D-082).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TypeVar

from emulator.core.errors import InvalidInput, Malformed
from emulator.core.language.excerpts import excerpt
from emulator.core.model import AccountId, EventState, MessageFilter
from emulator.core.record import Record
from emulator.queries.history import DeadLetterQuery, EventQuery
from emulator.wire.dialect import Dialect
from emulator.wire.messaging import bodies as json_bodies
from emulator.wire.parts import RequestParts

T = TypeVar("T")

MAX_EVENTS = 1000
MAX_LOGS = 100
MAX_DEAD_LETTERS = 100
MAX_CANCELED = 500
MAX_INSTANT_MS = 2**53 - 1


class Cancellation(Record):
    """What a bulk cancel means: which messages, and at most how many (None: all)."""

    wanted: MessageFilter
    count: int | None


class DeadLetterSelection(Record):
    """Which dead letters a request means. `is_empty`: none whatever the queue holds, so ask nobody."""

    query: DeadLetterQuery
    is_empty: bool


def read_cancellation(parts: RequestParts, dialect: Dialect) -> Cancellation:
    """The filters of a bulk cancel, from the query and from a body; with message ids all others do not count.

    Raises: InvalidInput naming the parameter, also one that is unknown. Source: D-078, D-082.
    """
    given = _Given(parts, dialect, known=_CANCEL_NAMES)
    given.add(json_bodies.read_cancel_filters(parts.body))
    count = given.count(maximum=MAX_CANCELED)
    message_ids = given.all("messageIds")
    wanted = MessageFilter(
        url_groups=given.all("topicName"),
        queues=given.all("queueName"),
        urls=given.all("url"),
        hosts=given.all("host"),
        paths=given.all("path"),
        labels=given.all("label"),
        flow_keys=given.all("flowControlKey"),
        schedule_ids=given.all("scheduleId"),
        caller_ips=given.all("callerIp", "callerIP"),
        from_ms=given.one("fromDate", _parse_instant_ms),
        to_ms=given.one("toDate", _parse_instant_ms),
    )
    if message_ids:
        wanted = MessageFilter(message_ids=message_ids)
    return Cancellation(wanted=wanted, count=count)


def read_event_query(
    parts: RequestParts, dialect: Dialect, account_id: AccountId, *, maximum: int = MAX_EVENTS
) -> EventQuery:
    """A page of the event log; `maximum` is the largest count, and the default.

    Unknown parameters are ignored here, where nothing depends on them. Raises: InvalidInput naming
    the parameter. Source: D-078.
    """
    given = _Given(parts, dialect, known=None)
    return EventQuery(
        account_id=account_id,
        count=given.count(maximum=maximum) or maximum,
        cursor=given.cursor(),
        latest_first=given.is_latest_first(default=True),
        message_ids=given.all("messageId", "messageIds"),
        states=given.states(),
        urls=given.all("url"),
        hosts=given.all("host"),
        paths=given.all("path"),
        url_groups=given.all("topicName"),
        schedule_ids=given.all("scheduleId"),
        queues=given.all("queueName"),
        labels=given.all("label"),
        flow_keys=given.all("flowControlKey"),
        caller_ips=given.all("callerIp", "callerIP"),
        from_ms=given.one("fromDate", _parse_instant_ms),
        to_ms=given.one("toDate", _parse_instant_ms),
    )


def read_dead_letter_selection(parts: RequestParts, dialect: Dialect, account_id: AccountId) -> DeadLetterSelection:
    """The dead letters to list, to delete or to publish again, a page of them at a time.

    A deletion may list ids in its body; an empty list there deletes nothing (D-082). Entries of
    workflows do not exist here, so asking for them finds nothing.

    Raises: InvalidInput naming the parameter, also one that is unknown. Source: D-078.
    """
    given = _Given(parts, dialect, known=_DEAD_LETTER_NAMES)
    source = given.one("source", _parse_source)
    listed = json_bodies.read_dead_letter_ids(parts.body) if parts.method == "DELETE" else None
    query = DeadLetterQuery(
        account_id=account_id,
        count=given.count(maximum=MAX_DEAD_LETTERS) or MAX_DEAD_LETTERS,
        cursor=given.cursor(),
        latest_first=given.is_latest_first(default=False),
        dead_letter_ids=given.all("dlqIds") + (listed or ()),
        message_ids=given.all("messageId"),
        urls=given.all("url"),
        url_groups=given.all("topicName"),
        schedule_ids=given.all("scheduleId"),
        queues=given.all("queueName"),
        labels=given.all("label"),
        flow_keys=given.all("flowControlKey"),
        caller_ips=given.all("callerIp", "callerIP"),
        response_statuses=given.each("responseStatus", _parse_status),
        from_ms=given.one("fromDate", _parse_instant_ms),
        to_ms=given.one("toDate", _parse_instant_ms),
    )
    lists_nothing = listed == () and not query.dead_letter_ids
    return DeadLetterSelection(query=query, is_empty=source is not None or lists_nothing)


# --- one request's parameters -------------------------------------------------------------------

_FILTER_NAMES = frozenset(
    (
        "callerIP",
        "callerIp",
        "count",
        "flowControlKey",
        "fromDate",
        "label",
        "queueName",
        "scheduleId",
        "toDate",
        "topicName",
        "url",
    )
)
_CANCEL_NAMES = _FILTER_NAMES | {"host", "messageIds", "path"}
_DEAD_LETTER_NAMES = _FILTER_NAMES | {"api", "cursor", "dlqIds", "messageId", "order", "responseStatus", "source"}

# A comma may be part of a URL; it separates only where another one begins.
_SEPARATORS = {"url": re.compile(r",(?=https?://)", re.IGNORECASE), "path": re.compile(r",(?=/)")}
_COMMA = re.compile(",")


class _Given:
    """The values of a request's parameters, repeated or separated by commas.

    With `known`, any other name is refused: a misspelt filter must not choose everything.
    """

    def __init__(self, parts: RequestParts, dialect: Dialect, *, known: frozenset[str] | None) -> None:
        self._values: dict[str, list[str]] = {}
        token_parameter = dialect.token_parameter.lower()
        for name, value in parts.query:
            lower_name = name.lower()
            if lower_name == token_parameter or lower_name.startswith(dialect.lower_prefix):
                continue
            if known is not None and name not in known:
                raise InvalidInput(name, f"unknown filter, expected {', '.join(sorted(known))}")
            self._values.setdefault(name, []).append(value)

    def add(self, values: Mapping[str, tuple[str, ...]]) -> None:
        for name, more in values.items():
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
                found.update(dict.fromkeys(item for item in items if item))
        return tuple(found)

    def each(self, name: str, parse: Callable[[str], T]) -> tuple[T, ...]:
        """All values of a parameter, parsed."""
        return tuple(_parsed(name, value, parse) for value in self.all(name))

    def one(self, name: str, parse: Callable[[str], T]) -> T | None:
        """The value of a parameter that has only one; an empty one counts as absent."""
        values = [value for value in self._values.get(name, ()) if value.strip()]
        if not values:
            return None
        if len(values) > 1:
            raise InvalidInput(name, "expected this parameter only once")
        return _parsed(name, values[0].strip(), parse)

    def count(self, *, maximum: int) -> int | None:
        """How many at most, None if that was not said."""

        def parse(text: str) -> int:
            if not _NUMBER.fullmatch(text) or not 1 <= int(text) <= maximum:
                raise Malformed(f"expected a number from 1 to {maximum}, got {excerpt(text)}")
            return int(text)

        return self.one("count", parse)

    def cursor(self) -> str | None:
        return self.one("cursor", _parse_cursor)

    def is_latest_first(self, *, default: bool) -> bool:
        order = self.one("order", _parse_order)
        return default if order is None else order

    def states(self) -> tuple[EventState, ...]:
        groups = self.each("state", _parse_states)
        return tuple(dict.fromkeys(state for states in groups for state in states))


def _parsed(name: str, text: str, parse: Callable[[str], T]) -> T:
    try:
        return parse(text)
    except Malformed as malformed:
        raise InvalidInput(name, malformed.reason) from None


_NUMBER = re.compile(r"[0-9]{1,16}")
_STATUS = re.compile(r"[0-9]{1,3}")
# An instant and a number, as in 1686652644442-12.
_CURSOR = re.compile(r"[0-9]{1,16}-[0-9]{1,16}")
_ORDERS = {"latestfirst": True, "earliestfirst": False}

_STATES: dict[str, tuple[EventState, ...]] = {
    **{state.value: (state,) for state in EventState},
    # Both spellings are in use (D-013).
    "CANCELLED": (EventState.CANCELED,),
    "IN_PROGRESS": (EventState.ACTIVE, EventState.RETRY, EventState.ERROR),
}


def _parse_instant_ms(text: str) -> int:
    if not _NUMBER.fullmatch(text) or int(text) > MAX_INSTANT_MS:
        raise Malformed(f"expected Unix milliseconds from 0 to {MAX_INSTANT_MS}, got {excerpt(text)}")
    return int(text)


def _parse_cursor(text: str) -> str:
    if not _CURSOR.fullmatch(text):
        raise Malformed(f"expected the cursor of an earlier answer, got {excerpt(text)}")
    return text


def _parse_order(text: str) -> bool:
    latest_first = _ORDERS.get(text.lower())
    if latest_first is None:
        raise Malformed(f"expected earliestFirst or latestFirst, got {excerpt(text)}")
    return latest_first


def _parse_states(text: str) -> tuple[EventState, ...]:
    states = _STATES.get(text.upper())
    if states is None:
        raise Malformed(f"expected one of {', '.join(_STATES)}, got {excerpt(text)}")
    return states


def _parse_status(text: str) -> int:
    if not _STATUS.fullmatch(text):
        raise Malformed(f"expected a status from 0 to 999, got {excerpt(text)}")
    return int(text)


def _parse_source(text: str) -> str:
    if text != "workflow":
        raise Malformed(f"expected workflow, got {excerpt(text)}")
    return text
