"""Arguments of the Python API as the server reads them: instants, durations, filters, destination rules."""

from __future__ import annotations

import json as jsons
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from math import isfinite
from typing import Any, Literal, TypeAlias, TypedDict, get_args
from urllib.parse import quote

from emulator.client.errors import is_argument_error
from emulator.core.errors import Malformed
from emulator.core.language.text import near
from emulator.wire.times import read_epoch_ms, read_instant_ms

__tracebackhide__ = is_argument_error

_AN_INSTANT = '"2026-01-01T00:00:00Z"'

# A duration: `1d2h30m`, or a timedelta. Zero needs no unit.
Duration: TypeAlias = str | timedelta | Literal[0]
# An instant: ISO 8601 (UTC where it names no offset), or a datetime with its time zone.
Instant: TypeAlias = str | int | datetime


class Lengths(TypedDict, total=False):
    """The keywords of a duration, which are those of `datetime.timedelta`."""

    weeks: float
    days: float
    hours: float
    minutes: float
    seconds: float
    milliseconds: float


EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MS = timedelta(milliseconds=1)


def duration(name: str, value: object) -> str | int:
    """A duration for the control API, which reads the texts.

    A number has no unit, so it is refused; zero of anything is zero.
    Raises TypeError and ValueError that name the argument.
    """
    # D-500.
    if isinstance(value, timedelta):
        if value < timedelta(0):
            raise ValueError(f"{name}: expected 0 or more, got {value!r}")
        return value // _MS
    if isinstance(value, str) or (value == 0 and not isinstance(value, bool)):
        return value if isinstance(value, str) else 0
    raise TypeError(f'{name}: expected a duration such as "1d2h30m" or a timedelta, got {described(value)}')


def check_flag(name: str, value: object) -> bool:
    """Raises TypeError, which names the argument, for what is no boolean."""
    if not isinstance(value, bool):
        raise TypeError(f"{name}: expected True or False, got {value!r}")
    return value


def described(value: object) -> str:
    """A value where a duration was expected: a number with what was probably meant."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value) or value < 0:
        return repr(value)
    if value != int(value):
        return f"{value!r} without a unit, did you mean timedelta(seconds={value!r})?"
    return f'{value!r} without a unit, did you mean "{int(value)}s"?'


def length(by: Duration | None, lengths: Lengths) -> str | int:
    """The duration of a move of the clock, as such or by keywords. Raises TypeError and ValueError."""
    check_names(lengths, Lengths.__annotations__)
    if (by is None) != bool(lengths):
        expected = 'expected a duration such as "1d2h30m", or keywords such as days=1'
        raise TypeError(f"{expected}, got {'neither' if by is None else 'both'}")
    return duration("by", timedelta(**lengths) if by is None else by)


def instant(name: str, value: object) -> str | int:
    """An instant for the control API, which reads the texts; a number is epoch ms, as in fields that end in `_ms`.

    A number that can only be Unix seconds, and a datetime without its time zone are refused.
    Raises TypeError and ValueError that name the argument.
    """
    # D-501, D-502.
    if isinstance(value, str):
        return value
    if isinstance(value, datetime):
        return (aware(name, value) - EPOCH) // _MS
    if isinstance(value, date):
        raise TypeError(f'{name}: expected an instant, got the day {value!r}, did you mean "{value}T00:00:00Z"?')
    if isinstance(value, int) and not isinstance(value, bool):
        try:
            return read_epoch_ms(value)
        except Malformed as malformed:
            raise ValueError(f"{name}: {malformed.reason}") from None
    raise TypeError(f"{name}: expected a datetime with a time zone, or ISO 8601 such as {_AN_INSTANT}, got {value!r}")


def aware(name: str, value: datetime) -> datetime:
    """A datetime that names its instant. Raises ValueError that names the argument."""
    if value.tzinfo is None:
        raise ValueError(
            f"{name}: expected a datetime with a time zone, got {value!r}; "
            f"did you mean {value!r}.replace(tzinfo=UTC), or .astimezone() for this machine's zone?"
        )
    return value


def check_choice(name: str, value: object, choices: Iterable[str]) -> None:
    """Raises ValueError for a value that is none of the choices, with the choice that was probably meant."""
    known = tuple(choices)
    if not isinstance(value, str) or value not in known:
        close = near(value, known) if isinstance(value, str) else ()
        hint = f", did you mean {close[0]!r}?" if close else ""
        raise ValueError(f"{name}: expected one of {', '.join(map(repr, known))}, got {value!r}{hint}")


def check_text(name: str, value: object, *, expected: str = "a text") -> None:
    """Raises TypeError for what is no text; None says nothing, and is none either."""
    if not isinstance(value, str):
        raise TypeError(f"{name}: expected {expected}, got {value!r}")


def check_filter(name: str, value: object) -> None:
    """Raises TypeError for what is no text, ValueError for an empty one, which would not filter anything."""
    check_text(name, value)
    if not value:
        raise ValueError(f"{name}: expected a text that is not empty")


def check_filters(**filters: str | None) -> dict[str, str | None]:
    """The filters of a list as they were given. Raises TypeError and ValueError that name the one to blame."""
    for name, value in filters.items():
        if value is not None:
            check_filter(name, value)
    return filters


def check_number(name: str, value: object, kind: type = int, *, expected: str = "a whole number") -> None:
    """Raises TypeError for what is no number."""
    if isinstance(value, bool) or not isinstance(value, int if kind is int else int | float):
        raise TypeError(f"{name}: expected {expected}, got {value!r}")


def given(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values that are not None; the server chooses the others."""
    return {name: value for name, value in values.items() if value is not None}


def check_names(names: Iterable[str], known: Mapping[str, Any], place: str = "") -> None:
    """Raises TypeError for a keyword that does not exist, with the keyword that was probably meant."""
    for name in sorted(set(names) - known.keys()):
        close = near(name, known)
        hint = f", did you mean {close[0]}?" if close else f"; there are {', '.join(known)}"
        raise TypeError(f"{place}no option is named {name}{hint}")


def path_of(collection: str, name: str, *rest: str) -> str:
    """The path of one thing of a collection. Raises ValueError for an empty name, which would mean all of them."""
    if not isinstance(name, str):
        raise TypeError(f"expected the id or the name of one thing in {collection}, got {name!r}")
    if not name:
        raise ValueError(f"expected the id or the name of one thing in {collection}, got an empty text")
    return "/".join((collection, quote(name, safe=""), *rest))


class Filters(TypedDict, total=False):
    """What the messages of a call have in common; `since` and `until` are when they were made, both included."""

    url: str | None
    label: str | None
    url_group: str | None
    queue: str | None
    schedule_id: str | None
    flow_control_key: str | None
    since: Instant | None
    until: Instant | None


class DeadLetterFilters(Filters, total=False):
    """The same for dead letters; `status` is that of the last response, 0 for none."""

    message_id: str | None
    status: int | None


EventState = Literal[
    "CREATED", "ACTIVE", "RETRY", "ERROR", "DELIVERED", "FAILED", "CANCEL_REQUESTED", "CANCELED", "IN_PROGRESS"
]


class EventFilters(Filters, total=False):
    """The same for the event log; `state` IN_PROGRESS are the entries of messages that have not ended."""

    message_id: str | None
    state: EventState | None


_NAMES = {
    "url_group": "topicName",
    "queue": "queueName",
    "schedule_id": "scheduleId",
    "flow_control_key": "flowControlKey",
    "message_id": "messageId",
    "status": "responseStatus",
    "since": "fromDate",
    "until": "toDate",
}


def filter_query(filters: Mapping[str, Any], known: Mapping[str, Any]) -> dict[str, str]:
    """The query for filters that are not None. Raises TypeError and ValueError that name a wrong one."""
    check_names(filters, known)
    query = {}
    for name, value in filters.items():
        if value is None:
            continue
        if name in ("since", "until"):
            value = instant_ms(name, value)
        elif not isinstance(value, int if name == "status" else str) or isinstance(value, bool):
            raise TypeError(f"{name}: expected {'a status' if name == 'status' else 'a text'}, got {value!r}")
        elif name == "state":
            check_choice("state", value, get_args(EventState))
        elif value == "":
            # For the service it would be no filter at all.
            raise ValueError(f"{name}: expected a text that is not empty")
        query[_NAMES.get(name, name)] = str(value)
    return query


def instant_ms(name: str, value: Instant) -> int:
    """An instant in epoch ms. Raises ValueError and TypeError that name it."""
    try:
        return read_instant_ms(instant(name, value))
    except Malformed as malformed:
        raise ValueError(f"{name}: {malformed.reason}") from None


# One answer of a sequence: a status, or a mapping of the keywords of `respond`.
Scripted: TypeAlias = int | Mapping[str, Any]

_ANSWERS = "[503, {'status': 200, 'json': {'id': 1}}]"
_OF_AN_ANSWER = dict.fromkeys(("status", "headers", "body", "json", "latency"))


def response_of(place: str, answer: Mapping[str, Any]) -> dict[str, Any]:
    """What a rule answers. Raises TypeError and ValueError that begin with `place` and the argument."""
    check_names(answer, _OF_AN_ANSWER, place)
    status, body, value = answer.get("status", 200), answer.get("body"), answer.get("json")
    check_number(f"{place}status", status, expected="a number such as 503")
    if not 100 <= status <= 999:
        raise ValueError(f"{place}status: expected a number from 100 to 999, got {status}")
    headers = _answer_headers(place, answer.get("headers"))
    if body is not None and value is not None:
        raise TypeError(f"{place}expected body or json, got both")
    if not isinstance(body, str | None):
        raise TypeError(f"{place}body: expected a text, got {body!r}; is json meant?")
    if value is not None:
        try:
            body = jsons.dumps(value)
        except (TypeError, ValueError) as error:
            raise TypeError(f"{place}json: expected what JSON can say, got {value!r}: {error}") from None
        if not any(name.lower() == "content-type" for name in headers or ()):
            headers = {"Content-Type": "application/json", **(headers or {})}
    latency = answer.get("latency")
    found = {"status": int(status), "headers": headers, "body": body}
    return given({**found, "latency": None if latency is None else duration(f"{place}latency", latency)})


def _answer_headers(place: str, headers: object) -> dict[str, str] | None:
    if headers is None:
        return None
    if not isinstance(headers, Mapping):
        raise TypeError(f"{place}headers: expected a mapping of texts, got {headers!r}")
    for name, value in headers.items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise TypeError(f"{place}headers: expected a mapping of texts, got {name!r}: {value!r}")
    return dict(headers)


def sequence_of(answers: object) -> list[dict[str, Any]]:
    """The answers of a sequence, one for each attempt. Raises TypeError and ValueError that name the one to blame."""
    if isinstance(answers, str | bytes | Mapping) or not isinstance(answers, Sequence):
        raise TypeError(
            f"answers: expected a list with an answer for each attempt, such as {_ANSWERS}, got {answers!r}"
        )
    if not answers:
        raise ValueError(f"answers: expected at least one, such as {_ANSWERS}, got none")
    return [_scripted(f"answers[{index}]", answer) for index, answer in enumerate(answers)]


def _scripted(place: str, answer: object) -> dict[str, Any]:
    if isinstance(answer, Mapping):
        return response_of(f"{place}: ", answer)
    if isinstance(answer, bool) or not isinstance(answer, int):
        meant = f", did you mean {answer}?" if isinstance(answer, str) and answer.isdigit() else ""
        raise TypeError(f"{place}: expected a status or a mapping such as {{'status': 503}}, got {answer!r}{meant}")
    return response_of(f"{place}: ", {"status": answer})


def check_rule(url: object, method: object, times: Any, chance: Any) -> None:
    """Raises TypeError and ValueError that name what no rule can have."""
    check_text("url", url, expected="a URL, or a glob such as https://app.test/*")
    if method is not None:
        check_text("method", method, expected="a method such as POST")
    if times is not None:
        check_number("times", times)
        if times < 1:
            raise ValueError(f"times: expected at least 1, got {times}")
    if chance is not None:
        check_number("chance", chance, float, expected="a number from 0 to 1")
        if not 0 <= chance <= 1:
            percent = f", did you mean {chance / 100:g}?" if 1 < chance <= 100 else ""
            raise ValueError(f"chance: expected a number from 0 to 1, got {chance!r}{percent}")
