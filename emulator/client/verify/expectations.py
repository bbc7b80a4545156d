"""The keywords of `verify`, read into one record."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any, Final, Literal, TypeAlias, TypedDict, TypeVar, Unpack

from emulator.client.errors import is_argument_error
from emulator.client.values import Duration, Instant, duration, instant
from emulator.core.errors import Malformed
from emulator.core.language.spelling import near
from emulator.wire.durations import format_duration, parse_control_duration_ms
from emulator.wire.instants import iso, read_instant_ms

T = TypeVar("T")

__tracebackhide__ = is_argument_error

# When an attempt began: a duration since the message was made, or an instant (a text with a date, or a datetime).
When: TypeAlias = Duration | datetime
# A header's exact value, a pattern to be found in it, or None: the header must not be there.
HeaderValue: TypeAlias = str | re.Pattern[str] | None
Key: TypeAlias = Literal["current", "next"]
Outcome: TypeAlias = Literal["succeeded", "delivered", "failed"]

NOTHING: Final = object()

_DATE = re.compile(r"\s*[0-9]{4}-")


class Expected(TypedDict, total=False):
    """The keywords of `verify`. All of them are about one message; one that is not given may have any value."""

    # Where it went: exact, or a glob in which `*` matches any characters.
    url: str | None
    # The id that its publishing was answered with.
    message_id: str | None
    # The HTTP method of its delivery.
    method: str | None
    # How many messages must meet it, 0 for none; at least one if not given.
    times: int | None
    # How many attempts were made.
    attempts: int | None
    # When each attempt began: "10s", milliseconds or a timedelta since the message was made, or an
    # ISO 8601 time or a datetime. One value stands for one attempt.
    at: When | Sequence[When] | None
    # The status of the last attempt, or a list for each attempt, in which None means no response.
    status: int | Sequence[int | None] | None
    # Whether the last attempt was answered with a 2xx.
    outcome: Outcome | None
    # The body exactly; a text is sent as UTF-8.
    body: bytes | str | None
    # The body as JSON, whatever its spelling; None is JSON's null. What is no JSON type, such as
    # `unittest.mock.ANY`, is compared by `==`.
    body_json: Any
    # Headers of the last attempt, their names in any case.
    headers: Mapping[str, HeaderValue] | None
    # The account's signing key that signed every attempt, for this URL and this body.
    signed_with: Key | None


@dataclass(frozen=True, slots=True)
class Moment:
    """When an attempt is to have begun. Epoch ms if it is absolute, else ms since the message was made."""

    ms: int
    absolute: bool = False

    def since(self, created_ms: int) -> int:
        """The instant it is for a message made at `created_ms`, epoch ms."""
        return self.ms if self.absolute else created_ms + self.ms

    def __str__(self) -> str:
        return iso(self.ms) if self.absolute else f"+{format_duration(self.ms)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """Read by `expectation`; None is anything, and `body_json` is NOTHING then.

    `statuses` holds one of each attempt, `status` that of the last; `succeeded` speaks of the last.
    """

    url: str | None
    message_id: str | None
    method: str | None
    times: int | None
    attempts: int | None
    at: tuple[Moment, ...] | None
    status: int | None
    statuses: tuple[int | None, ...] | None
    succeeded: bool | None
    body: bytes | None
    body_json: Any
    headers: tuple[tuple[str, HeaderValue], ...]
    signed_with: Key | None

    @property
    def aspects(self) -> tuple[str, ...]:
        """The given keywords that are about a single message."""
        given = {
            "message_id": self.message_id is not None,
            "url": self.url is not None,
            "method": self.method is not None,
            "attempts": self.attempts is not None,
            "at": self.at is not None,
            "status": self.status is not None or self.statuses is not None,
            "outcome": self.succeeded is not None,
            "body": self.body is not None,
            "body_json": self.body_json is not NOTHING,
            "headers": bool(self.headers),
            "signed_with": self.signed_with is not None,
        }
        return tuple(name for name, is_given in given.items() if is_given)

    def __str__(self) -> str:
        """The expectation as the object of a sentence: `a message to https://app.test/hook in 3 attempts`."""
        first = " ".join([_count(self.times), *self._which(), *self._when()])
        return ", ".join([first, *self._what()])

    def _which(self) -> Iterator[str]:
        if self.message_id is not None:
            yield f"with the id {self.message_id}"
        if self.url is not None:
            yield f"to {self.url}"
        if self.method is not None:
            yield f"by {self.method}"

    def _when(self) -> Iterator[str]:
        if self.attempts is not None:
            yield f"in {counted(self.attempts, 'attempt')}"
        if self.at is not None:
            yield f"at {listed(map(str, self.at))}"

    def _what(self) -> Iterator[str]:
        if self.status is not None:
            yield f"answered {self.status}"
        if self.statuses is not None:
            yield f"answered {listed('nothing' if each is None else str(each) for each in self.statuses)}"
        if self.succeeded is not None:
            yield "that succeeded" if self.succeeded else "that failed"
        content = [name for name in self.aspects if name in ("body", "body_json", "headers")]
        if content:
            yield f"with the given {listed(content)}"
        if self.signed_with is not None:
            yield f"signed with the {self.signed_with} key"


def expectation(**expected: Unpack[Expected]) -> Expectation:
    """The keywords of `verify`, read. Raises: ValueError and TypeError that name the one to blame."""
    unknown = expected.keys() - Expected.__annotations__.keys()
    if unknown:
        name, known = min(unknown), Expected.__annotations__
        close = near(name, known)
        hint = f", did you mean {close[0]}?" if close else f"; it knows {', '.join(known)}"
        raise TypeError(f"{name}: verify knows no such keyword{hint}")
    status, statuses = _status(expected.get("status"))
    method = _text("method", expected.get("method"))
    found = Expectation(
        url=_text("url", expected.get("url")),
        message_id=_text("message_id", expected.get("message_id")),
        method=None if method is None else method.upper(),
        times=_integer("times", expected.get("times"), 0),
        attempts=_integer("attempts", expected.get("attempts"), 1),
        at=_at(expected.get("at")),
        status=status,
        statuses=statuses,
        succeeded=_succeeded(expected.get("outcome")),
        body=_body(expected.get("body")),
        body_json=expected.get("body_json", NOTHING),
        headers=_headers(expected.get("headers")),
        signed_with=_choice("signed_with", expected.get("signed_with"), ("current", "next")),
    )
    _agree(found)
    return found


def counted(count: int, noun: str) -> str:
    """`1 attempt`, `2 attempts`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def listed(items: Iterable[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    *first, last = items
    return f"{', '.join(first)} and {last}" if first else last


def _count(times: int | None) -> str:
    match times:
        case None:
            return "a message"
        case 0:
            return "no message"
        case 1:
            return "exactly 1 message"
        case _:
            return f"exactly {times} messages"


def _agree(found: Expectation) -> None:
    if found.body is not None and found.body_json is not NOTHING:
        raise TypeError("body_json: expected body or body_json, got both")
    each = [("at", found.at), ("status", found.statuses)]
    lengths = [(name, len(values)) for name, values in each if values is not None]
    if found.attempts is not None:
        lengths.insert(0, ("attempts", found.attempts))
    for (name, length), (other, other_length) in pairwise(lengths):
        if length != other_length:
            said = f"attempts={length}" if name == "attempts" else f"{name} lists {length}"
            raise ValueError(f"{other}: lists {counted(other_length, 'attempt')}, but {said}")


def _at(value: object) -> tuple[Moment, ...] | None:
    if value is None:
        return None
    if not isinstance(value, Sequence) or isinstance(value, str | bytes):
        return (_moment("at", value),)
    if not value:
        raise ValueError("at: expected the start of at least one attempt, got an empty list")
    return tuple(_moment(f"at[{index}]", each) for index, each in enumerate(value))


def _moment(name: str, value: object) -> Moment:
    is_instant = isinstance(value, datetime) or (isinstance(value, str) and _DATE.match(value) is not None)
    if isinstance(value, bool) or not isinstance(value, str | int | timedelta | datetime):
        raise TypeError(f'{name}: expected a duration such as "10s", or an instant, got {value!r}')
    try:
        if is_instant:
            moment: Instant = value  # type: ignore[assignment]  # not a timedelta, checked above
            return Moment(read_instant_ms(instant(moment)), absolute=True)
        length: Duration = value  # type: ignore[assignment]  # not a datetime, checked above
        return Moment(parse_control_duration_ms(duration(length)))
    except Malformed as malformed:
        raise ValueError(f"{name}: {malformed.reason}") from None


def _status(value: object) -> tuple[int | None, tuple[int | None, ...] | None]:
    """A status of the last attempt, or one of each."""
    if not isinstance(value, Sequence) or isinstance(value, str | bytes):
        return _integer("status", value, 100, 999), None
    if not value:
        raise ValueError("status: expected the status of at least one attempt, got an empty list")
    return None, tuple(_integer(f"status[{index}]", each, 100, 999) for index, each in enumerate(value))


def _succeeded(value: object) -> bool | None:
    outcome = _choice("outcome", value, ("succeeded", "delivered", "failed"))
    return None if outcome is None else outcome != "failed"


def _body(value: object) -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    if not isinstance(value, str):
        raise TypeError(f"body: expected bytes or a text, got {value!r}; is body_json meant?")
    return value.encode()


def _headers(value: object) -> tuple[tuple[str, HeaderValue], ...]:
    if value is None:
        return ()
    if not isinstance(value, Mapping):
        raise TypeError(f"headers: expected a mapping, got {value!r}")
    for name, wanted in value.items():
        if not isinstance(name, str):
            raise TypeError(f"headers: expected a header's name, got {name!r}")
        is_pattern = isinstance(wanted, re.Pattern) and isinstance(wanted.pattern, str)
        if not is_pattern and wanted is not None and not isinstance(wanted, str):
            raise TypeError(f"headers: {name}: expected a text, a compiled pattern or None, got {wanted!r}")
    return tuple(value.items())


def _text(name: str, value: object) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str):
        raise TypeError(f"{name}: expected a text, got {value!r}")
    if not value:
        raise ValueError(f"{name}: expected a text, got an empty one")
    return value


def _integer(name: str, value: object, minimum: int, maximum: int | None = None) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name}: expected an integer, got {value!r}")
    if value < minimum or (maximum is not None and value > maximum):
        span = f"of at least {minimum}" if maximum is None else f"from {minimum} to {maximum}"
        raise ValueError(f"{name}: expected an integer {span}, got {value}")
    # An HTTPStatus would be shown by its name.
    return int(value)


def _choice(name: str, value: object, choices: tuple[T, ...]) -> T | None:
    if value is None:
        return None
    for choice in choices:
        if value == choice:
            return choice
    raise ValueError(f"{name}: expected one of {', '.join(map(str, choices))}, got {value!r}")
