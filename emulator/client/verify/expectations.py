"""The keywords of `verify`, read into one record."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from functools import partial
from itertools import pairwise
from typing import Any, Final, Literal, TypeAlias, TypedDict, Unpack

from emulator.client.arguments import Duration, check_flag, described, duration, instant
from emulator.client.errors import is_argument_error
from emulator.core.errors import Malformed
from emulator.core.language.text import near
from emulator.wire.times import format_duration, iso, parse_control_duration_ms, read_instant_ms

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
    # A label that it has, its queue, and the schedule that made it.
    label: str | None
    queue: str | None
    schedule_id: str | None
    # How many messages must meet it, 0 for none; at least one if not given. Messages that were tried count,
    # however often; with `pending` or `attempts=0` those that were not tried do too.
    times: int | None
    # Whether it has not ended: it waits for its instant, a retry, a queue, a limit or an answer.
    pending: bool | None
    # How many attempts were made, 0 for none.
    attempts: int | None
    # When each attempt began: "10s" or a timedelta since the message was made, or an ISO 8601 time or
    # a datetime with its time zone. One value stands for one attempt.
    at: When | Sequence[When] | None
    # The status of the last attempt, or a list for each attempt, in which None means no response.
    status: int | Sequence[int | None] | None
    # Whether the last attempt was answered with a 2xx.
    outcome: Outcome | None
    # The body exactly; a text is sent as UTF-8.
    body: bytes | str | None
    # The body as JSON, whatever its spelling; None is JSON's null. What is no JSON type, such as
    # `unittest.mock.ANY`, is compared by `==`; of `partial({...})` other keys are ignored.
    body_json: Any
    # Headers of the last attempt, their names in any case.
    headers: Mapping[str, HeaderValue] | None
    # The account's signing key that signed every attempt, for this URL and this body.
    signed_with: Key | None


@dataclass(frozen=True, slots=True)
class ExpectedTime:
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

    `status` is that of the last attempt, or one of each; `outcome` speaks of the last.
    """

    url: str | None = None
    message_id: str | None = None
    method: str | None = None
    label: str | None = None
    queue: str | None = None
    schedule_id: str | None = None
    times: int | None = None
    pending: bool | None = None
    attempts: int | None = None
    at: tuple[ExpectedTime, ...] | None = None
    status: int | tuple[int | None, ...] | None = None
    outcome: Literal["succeeded", "failed"] | None = None
    body: bytes | None = None
    body_json: Any = NOTHING
    headers: tuple[tuple[str, HeaderValue], ...] | None = None
    signed_with: Key | None = None

    @property
    def query(self) -> dict[str, str]:
        """The filters of the delivery journal that leave out nothing that may meet it."""
        filters = {"url": self.url, "message_id": self.message_id, "label": self.label, "queue": self.queue}
        return {name: value for name, value in {**filters, "schedule": self.schedule_id}.items() if value is not None}

    @property
    def asks_where_it_stands(self) -> bool:
        """Whether it speaks of messages that were not tried, or of what is still to come."""
        return self.pending is not None or self.attempts == 0

    @property
    def needs_every_attempt(self) -> bool:
        """Whether it speaks of more than the last attempt."""
        return any(each is not None for each in (self.attempts, self.at, self.signed_with)) or isinstance(
            self.status, tuple
        )

    @property
    def aspects(self) -> tuple[str, ...]:
        """The given keywords that are about a single message."""
        unset = {"body_json": NOTHING}
        return tuple(name for name in _READERS if name != "times" and getattr(self, name) is not unset.get(name))

    def __str__(self) -> str:
        """The expectation as the object of a sentence: `a message to https://app.test/hook in 3 attempts`."""
        given = {name: getattr(self, name) for name in self.aspects}
        which = [say(given[name]) for name, say in _WHICH.items() if name in given]
        what = [say(given[name]) for name, say in _WHAT.items() if name in given]
        if content := [name for name in given if name in ("body", "body_json", "headers")]:
            what.append(f"with the given {listed(content)}")
        if self.signed_with is not None:
            what.append(f"signed with the {self.signed_with} key")
        if self.pending is not None:
            what.append("that waits" if self.pending else "that has ended")
        return ", ".join([" ".join([_count(self.times), *which]), *what])


def expectation(**expected: Unpack[Expected]) -> Expectation:
    """The keywords of `verify`, read. Raises: ValueError and TypeError that name the one to blame."""
    unknown = expected.keys() - Expected.__annotations__.keys()
    if unknown:
        name, known = min(unknown), Expected.__annotations__
        close = near(name, known)
        hint = f", did you mean {close[0]}?" if close else f"; it knows {', '.join(known)}"
        raise TypeError(f"{name}: verify knows no such keyword{hint}")
    # None is anything, except that it is a JSON value, too.
    given = {name: value for name, value in expected.items() if value is not None or name == "body_json"}
    found = Expectation(**{name: _READERS[name](value) for name, value in given.items()})
    _agree(found)
    return found


# What `verify_order` can hold one delivery against.
_OF_ONE_DELIVERY: Final = Expected.__annotations__.keys() - {"times", "pending", "attempts", "at", "signed_with"}


def ordered(wanted: Sequence[str | Mapping[str, Any]]) -> list[Expectation]:
    """The deliveries of `verify_order`, read. Raises: ValueError and TypeError that name the one to blame."""
    if isinstance(wanted, str | bytes) or not isinstance(wanted, Sequence):
        raise TypeError(f"verify_order: expected a list of deliveries, got {wanted!r}")
    if not wanted:
        raise ValueError("verify_order: expected at least one delivery, got an empty list")
    return [_one(f"[{at}]", each) for at, each in enumerate(wanted)]


def _one(where: str, value: object) -> Expectation:
    if isinstance(value, str):
        # An id of a message is no URL.
        value = {"url" if "://" in value else "message_id": value}
    if not isinstance(value, Mapping):
        raise TypeError(f"{where}: expected a URL, a message's id, or a mapping of keywords, got {value!r}")
    for name in value:
        if name not in _OF_ONE_DELIVERY:
            close = near(str(name), _OF_ONE_DELIVERY)
            hint = f"did you mean {close[0]}?" if close else f"expected {listed(sorted(_OF_ONE_DELIVERY))}"
            raise TypeError(f"{where}: {name!r} is nothing that one delivery has, {hint}")
    if not any(each is not None or name == "body_json" for name, each in value.items()):
        raise TypeError(f"{where}: expected something to hold a delivery against, such as a url")
    try:
        found = expectation(**value)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{where}: {error}") from None
    if isinstance(found.status, tuple):
        raise TypeError(f"{where}: status: expected the status of one delivery, got a list")
    return found


def counted(count: int, noun: str) -> str:
    """`1 attempt`, `2 attempts`."""
    if count == 1:
        return f"1 {noun}"
    return f"{count} {noun[:-1]}ies" if noun.endswith("y") else f"{count} {noun}{'es' if noun.endswith('h') else 's'}"


def listed(items: Iterable[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    *first, last = items
    return f"{', '.join(first)} and {last}" if first else last


def _count(times: int | None) -> str:
    if not times:
        return "a message" if times is None else "no message"
    return f"exactly {counted(times, 'message')}"


def _answered(status: int | tuple[int | None, ...]) -> str:
    statuses = status if isinstance(status, tuple) else (status,)
    return f"answered {listed('nothing' if each is None else str(each) for each in statuses)}"


_WHICH: dict[str, Callable[[Any], str]] = {
    "message_id": "with the id {}".format,
    "url": "to {}".format,
    "method": "by {}".format,
    "label": "with the label {}".format,
    "queue": "of the queue {}".format,
    "schedule_id": "of the schedule {}".format,
    "attempts": lambda attempts: f"in {counted(attempts, 'attempt')}" if attempts else "that was never tried",
    "at": lambda moments: f"at {listed(map(str, moments))}",
}
_WHAT: dict[str, Callable[[Any], str]] = {"status": _answered, "outcome": "that {}".format}


# -- reading ----------------------------------------------------------------------------------


def _agree(found: Expectation) -> None:
    if not found.aspects and found.times is None:
        raise TypeError("verify: expected something to hold the messages against, such as url=, message_id= or times=")
    content = [name for name in found.aspects if name in _OF_AN_ATTEMPT]
    if found.attempts == 0 and content:
        raise ValueError(
            f"{content[0]}: expected none beside attempts=0, a message that was never tried has sent nothing"
        )
    if found.body is not None and found.body_json is not NOTHING:
        raise TypeError("body_json: expected body or body_json, got both")
    lengths = [] if found.attempts is None else [("attempts", found.attempts)]
    each = {"at": found.at, "status": found.status}
    lengths += [(name, len(values)) for name, values in each.items() if isinstance(values, tuple)]
    for (name, length), (other, other_length) in pairwise(lengths):
        if length != other_length:
            said = f"attempts={length}" if name == "attempts" else f"{name} lists {length}"
            raise ValueError(f"{other}: lists {counted(other_length, 'attempt')}, but {said}")


def _at(value: object) -> tuple[ExpectedTime, ...]:
    if not isinstance(value, Sequence) or isinstance(value, str | bytes):
        return (read_moment("at", value),)
    if not value:
        raise ValueError("at: expected the start of at least one attempt, got an empty list")
    return tuple(read_moment(f"at[{index}]", each) for index, each in enumerate(value))


def read_moment(name: str, value: object) -> ExpectedTime:
    """A duration since a beginning, or an instant. Raises: ValueError and TypeError that name it."""
    is_instant = isinstance(value, date) or (isinstance(value, str) and _DATE.match(value) is not None)
    if isinstance(value, bool) or not isinstance(value, str | int | timedelta | date):
        raise TypeError(f'{name}: expected a duration such as "10s", or an instant, got {described(value)}')
    try:
        if is_instant:
            return ExpectedTime(read_instant_ms(instant(name, value)), absolute=True)
        return ExpectedTime(parse_control_duration_ms(duration(name, value)))
    except Malformed as malformed:
        raise ValueError(f"{name}: {malformed.reason}") from None


def _status(value: object) -> int | tuple[int | None, ...]:
    """A status of the last attempt, or one of each."""
    if not isinstance(value, Sequence) or isinstance(value, str | bytes):
        return _integer("status", value, 100, 999)
    if not value:
        raise ValueError("status: expected the status of at least one attempt, got an empty list")
    return tuple(
        None if each is None else _integer(f"status[{index}]", each, 100, 999) for index, each in enumerate(value)
    )


def _outcome(value: object) -> str:
    outcome = _choice("outcome", ("succeeded", "delivered", "failed"), value)
    return "succeeded" if outcome == "delivered" else outcome


def _body(value: object) -> bytes:
    if isinstance(value, bytes):
        return value
    if not isinstance(value, str):
        raise TypeError(f"body: expected bytes or a text, got {value!r}; is body_json meant?")
    return value.encode()


def _headers(value: object) -> tuple[tuple[str, HeaderValue], ...] | None:
    if not isinstance(value, Mapping):
        raise TypeError(f"headers: expected a mapping, got {value!r}")
    for name, wanted in value.items():
        if not isinstance(name, str):
            raise TypeError(f"headers: expected a header's name, got {name!r}")
        is_pattern = isinstance(wanted, re.Pattern) and isinstance(wanted.pattern, str)
        if not is_pattern and wanted is not None and not isinstance(wanted, str):
            raise TypeError(f"headers: {name}: expected a text, a compiled pattern or None, got {wanted!r}")
    return tuple(value.items()) or None


def _text(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{name}: expected a text, got {value!r}")
    if not value:
        raise ValueError(f"{name}: expected a text, got an empty one")
    return value


def _integer(name: str, value: object, minimum: int, maximum: int | None = None) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name}: expected an integer, got {value!r}")
    if value < minimum or (maximum is not None and value > maximum):
        span = f"of at least {minimum}" if maximum is None else f"from {minimum} to {maximum}"
        raise ValueError(f"{name}: expected an integer {span}, got {value}")
    # An HTTPStatus would be shown by its name.
    return int(value)


def _choice(name: str, choices: tuple[str, ...], value: object) -> str:
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{name}: expected one of {', '.join(choices)}, got {value!r}")
    return value


# What only an attempt has.
_OF_AN_ATTEMPT = ("at", "status", "outcome", "body", "body_json", "headers", "signed_with")

# In the order in which errors list the keywords.
_READERS: dict[str, Callable[[Any], Any]] = {
    "message_id": partial(_text, "message_id"),
    "url": partial(_text, "url"),
    "method": lambda value: _text("method", value).upper(),
    "times": lambda value: _integer("times", value, 0),
    "label": partial(_text, "label"),
    "queue": partial(_text, "queue"),
    "schedule_id": partial(_text, "schedule_id"),
    "pending": partial(check_flag, "pending"),
    "attempts": lambda value: _integer("attempts", value, 0),
    "at": _at,
    "status": _status,
    "outcome": _outcome,
    "body": _body,
    "body_json": lambda value: value,
    "headers": _headers,
    "signed_with": partial(_choice, "signed_with", ("current", "next")),
}
