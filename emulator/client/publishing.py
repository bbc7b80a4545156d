"""What a publish takes and answers: the service's options as keywords, bodies, and what was made.

Keywords are checked by the parsers that read the service's own headers, so that a wrong one is an
error of the test's line before any call leaves.
"""

# D-350.

from __future__ import annotations

import json as jsons
import math
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from http import HTTPStatus
from typing import Any, Literal, NotRequired, Required, TypeAlias, TypedDict, cast

from emulator.client.arguments import EPOCH, aware, check_flag, check_names, check_number, described
from emulator.client.errors import Refused, is_error_of_a_call
from emulator.core.errors import Malformed
from emulator.core.record import Record
from emulator.wire.messaging.flow_control import parse_flow_control_value
from emulator.wire.messaging.option_values import VALUES
from emulator.wire.names import parse_free_text
from emulator.wire.times import parse_duration_ms, read_instant_ms
from emulator.wire.urls import parse_url

__tracebackhide__ = is_error_of_a_call

# A duration of the service: `1d2h30m`, or a timedelta of whole seconds. Zero needs no unit.
Wait: TypeAlias = str | timedelta | Literal[0]
# Texts, one or several.
Texts: TypeAlias = str | Sequence[str]

_SECOND = timedelta(seconds=1)


# -- keywords ---------------------------------------------------------------------------------


class FlowControl(TypedDict, total=False):
    """A flow control key and the limits that a message sets for it.

    `period` belongs to `rate`; a number is seconds, as in the service's records.
    """

    key: Required[str]
    parallelism: NotRequired[int]
    rate: NotRequired[int]
    period: NotRequired[Wait | int]


class MessageOptions(TypedDict, total=False):
    """What can be said of every message; None says nothing, and the service's default holds.

    Durations are `1d2h30m` or a timedelta of whole seconds. `retry_delay` may also be an expression
    such as `1000 * (1 + retried)`, whose unit is the service's: milliseconds. `label` and `redact` are
    one text or several. Other options of callbacks are headers, such as `Svc-Callback-Retries`.
    """

    delay: Wait | None
    retries: int | None
    retry_delay: Wait | None
    timeout: Wait | None
    method: str | None
    label: Texts | None
    flow_control: FlowControl | None
    callback: str | None
    failure_callback: str | None
    redact: Texts | None


class ScheduleOptions(MessageOptions, total=False):
    """What can be said of the messages of a schedule."""

    queue: str | None


class PublishOptions(ScheduleOptions, total=False):
    """What can be said of a message that is published.

    `not_before` is a datetime with its time zone, ISO 8601, or Unix seconds as in the service's header.
    """

    not_before: datetime | str | float | None
    deduplication_id: str | None
    content_based_deduplication: bool | None


class BatchMessage(PublishOptions, total=False):
    """One message of `publish_batch`: the arguments of `publish`."""

    destination: Required[str]
    body: bytes | str | None
    json: Any
    headers: Mapping[str, str] | None


def batch_item(place: str, message: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """One message as the service's JSON has it in a batch. Raises TypeError and ValueError that begin with `place`."""
    try:
        if not isinstance(message, Mapping):
            raise TypeError(f"expected a message such as {{'destination': 'https://app.test'}}, got {message!r}")
        check_names(message, BatchMessage.__annotations__)
        options = {name: value for name, value in message.items() if name in PublishOptions.__annotations__}
        if "destination" not in message:
            raise TypeError("expected a destination, got none")
        destination = destination_text(message["destination"])
        queue = queue_of(cast(PublishOptions, options))
        options.pop("queue", None)
        said = option_headers(options, PublishOptions.__annotations__, prefix, message.get("headers"))
        body, headers = content(message.get("body"), message.get("json"), said)
        item: dict[str, Any] = {"destination": destination, "headers": headers}
        if queue is not None:
            item["queue"] = queue
        if body is not None:
            # JSON has no bytes.
            item["body"] = body.decode()
    except UnicodeDecodeError:
        raise ValueError(f"{place}: body: a batch takes text alone, expected UTF-8") from None
    except (TypeError, ValueError) as error:
        raise type(error)(f"{place}: {error}") from None
    return item


def destination_text(value: object) -> str:
    """A destination as a path has it. Raises TypeError and ValueError."""
    if not isinstance(value, str):
        raise TypeError(f"destination: expected a URL such as https://app.test/hook, or a URL group, got {value!r}")
    if not value.strip():
        raise ValueError(f"destination: expected a URL such as https://app.test/hook, or a URL group, got {value!r}")
    return value


def option_headers(
    options: Mapping[str, Any], known: Mapping[str, Any], prefix: str, headers: Mapping[str, str] | None
) -> dict[str, str]:
    """The service's headers for keywords, with those that were given as such.

    Raises TypeError and ValueError that name the keyword; TypeError for one that is not among `known`.
    """
    check_names(options, known)
    made = dict(headers or {})
    taken = {name.lower() for name in made}
    for keyword, value in options.items():
        if value is None:
            continue
        for suffix, text in _texts(keyword, value):
            name = prefix + suffix
            if name.lower() in taken:
                raise TypeError(f"{keyword}: expected the keyword or the header {name}, got both")
            made[name] = text
    return made


def queue_of(options: PublishOptions) -> str | None:
    """The queue that a publish goes through. Raises ValueError naming an option that a queue ignores, or `queue`."""
    queue = options.get("queue")
    if queue is not None:
        _texts("queue", queue)
        for keyword in ("delay", "not_before", "flow_control"):
            if options.get(keyword) is not None:
                raise ValueError(f"{keyword}: a queue ignores it, expected no {keyword} beside queue={queue!r}")
    return queue


def _texts(keyword: str, value: Any) -> list[tuple[str, str]]:
    """The headers of one keyword, each by what follows the prefix, and its text."""
    if keyword == "flow_control":
        return _flow_control(value)
    suffix, write = _WRITERS[keyword]
    text = write(keyword, value)
    if not text.isascii():
        raise ValueError(f"{keyword}: expected a text in ASCII, got {text!r}")
    _check(keyword, _PARSERS.get(keyword) or VALUES[suffix.lower()][1], text)
    return [(suffix, text)]


def _check(keyword: str, parse: Callable[[str], object], text: str) -> None:
    try:
        parse(text)
    except Malformed as malformed:
        raise ValueError(f"{keyword}: {malformed.reason}") from None


def _flow_control(value: Any) -> list[tuple[str, str]]:
    if not isinstance(value, Mapping) or "key" not in value:
        raise TypeError(
            f"flow_control: expected a key and its limits, such as {{'key': 'a', 'rate': 2}}, got {value!r}"
        )
    check_names(value, FlowControl.__annotations__, "flow_control: ")
    key = _text("flow_control", value["key"])
    _check("flow_control", parse_free_text, key)
    if not key.isascii():
        raise ValueError(f"flow_control: expected a key in ASCII, got {key!r}")
    limits = []
    for name in ("parallelism", "rate", "period"):
        if (limit := value.get(name)) is not None:
            write = whole_seconds if name == "period" and not isinstance(limit, int) else whole_number
            limits.append(f"{name}={write(f'flow_control: {name}', limit)}")
    if not limits:
        return [("Flow-Control-Key", key)]
    text = ", ".join(limits)
    _check("flow_control", parse_flow_control_value, text)
    return [("Flow-Control-Key", key), ("Flow-Control-Value", text)]


def _text(keyword: str, value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{keyword}: expected a text, got {value!r}")
    if not value.strip():
        # In a header it would say nothing.
        raise ValueError(f"{keyword}: expected a text that is not empty")
    return value


def _several(keyword: str, value: Any) -> str:
    if isinstance(value, str):
        return _text(keyword, value)
    if not isinstance(value, Sequence) or isinstance(value, bytes):
        raise TypeError(f"{keyword}: expected a text or several, got {value!r}")
    texts = [_text(keyword, each) for each in value]
    if not texts or any("," in each for each in texts):
        raise ValueError(f"{keyword}: expected at least one text, each without a comma, got {value!r}")
    return ",".join(texts)


def whole_number(keyword: str, value: Any) -> str:
    """A number as the service reads it. Raises TypeError that names the keyword."""
    check_number(keyword, value)
    return str(value)


def whole_seconds(keyword: str, value: Any) -> str:
    """A duration as the service reads it. Raises TypeError and ValueError that name the keyword."""
    if isinstance(value, str):
        return _text(keyword, value)
    seconds = _seconds(keyword, value)
    if seconds != int(seconds):
        raise ValueError(f"{keyword}: expected whole seconds, got {value!r}")
    return f"{int(seconds)}s"


def _seconds(keyword: str, value: Any) -> float:
    """Raises TypeError also for a number, which has no unit."""
    # D-500.
    if not isinstance(value, timedelta):
        if isinstance(value, int) and not isinstance(value, bool) and value == 0:
            return 0
        raise TypeError(f'{keyword}: expected a duration such as "1d2h30m" or a timedelta, got {described(value)}')
    if value < timedelta(0):
        raise ValueError(f"{keyword}: expected 0 or more, got {value!r}")
    return value / _SECOND


def retry_delay_text(keyword: str, value: Any) -> str:
    """A delay or an expression as the header says it, in milliseconds. Raises ValueError and TypeError."""
    if not isinstance(value, str):
        return str(round(_seconds(keyword, value) * 1000))
    try:
        return str(parse_duration_ms(_text(keyword, value)))
    except Malformed:
        return value


def _not_before(keyword: str, value: Any) -> str:
    """Unix seconds, the next whole one so that it is not earlier than asked for."""
    if isinstance(value, datetime):
        return str(math.ceil((aware(keyword, value) - EPOCH) / _SECOND))
    if isinstance(value, str):
        try:
            return str(-(-read_instant_ms(value) // 1000))
        except Malformed:
            raise ValueError(f"{keyword}: expected ISO 8601 such as 2026-01-01T00:00:00Z, got {value!r}") from None
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise TypeError(f"{keyword}: expected a datetime, ISO 8601 or Unix seconds, got {value!r}")
    if not math.isfinite(value):
        raise ValueError(f"{keyword}: expected Unix seconds, got {value!r}")
    return str(math.ceil(value))


# By keyword: what follows the prefix in the header's name, and how its text is written.
_WRITERS: Mapping[str, tuple[str, Callable[[str, Any], str]]] = {
    "delay": ("Delay", whole_seconds),
    "not_before": ("Not-Before", _not_before),
    "retries": ("Retries", whole_number),
    "retry_delay": ("Retry-Delay", retry_delay_text),
    "timeout": ("Timeout", whole_seconds),
    "method": ("Method", _text),
    "label": ("Label", _several),
    "queue": ("Queue-Name", _text),
    "callback": ("Callback", _text),
    "failure_callback": ("Failure-Callback", _text),
    "redact": ("Redact-Fields", _several),
    "deduplication_id": ("Deduplication-Id", _text),
    "content_based_deduplication": ("Content-Based-Deduplication", lambda *given: str(check_flag(*given)).lower()),
}
_PARSERS: Mapping[str, Callable[[str], object]] = {"callback": parse_url, "failure_callback": parse_url}


# -- bodies -----------------------------------------------------------------------------------


def content(
    body: bytes | str | None, json: Any, headers: Mapping[str, str] | None
) -> tuple[bytes | None, dict[str, str]]:
    """A body and the headers with it. Raises TypeError and ValueError for what cannot be sent."""
    given = dict(headers or {})
    for name, value in given.items():
        if not isinstance(value, str):
            raise TypeError(f"headers: {name}: expected a text, got {value!r}")
        if not value.isascii():
            raise ValueError(f"headers: {name}: expected a text in ASCII, got {value!r}")
    if not isinstance(body, bytes | str | None):
        raise TypeError(f"body: expected bytes or a text, got {body!r}; is json meant?")
    if json is None:
        return body.encode() if isinstance(body, str) else body, given
    if body is not None:
        raise TypeError("expected body or json, got both")
    if not any(name.lower() == "content-type" for name in given):
        given["Content-Type"] = "application/json"
    try:
        return jsons.dumps(json).encode(), given
    except (TypeError, ValueError) as error:
        raise TypeError(f"json: expected what JSON can say, got {json!r}: {error}") from None


# -- answers ----------------------------------------------------------------------------------


class PublishedMessage(Record):
    """One message that a publish made, or for `deduplicated` found; `url` is the destination as given."""

    message_id: str
    url: str
    deduplicated: bool


class Published(str):
    """What a publish made. It is the message's id, and can be used wherever one is wanted.

    For a URL group of several endpoints it is the id of the first endpoint's message, and
    `message_ids` has them all, in the order of the endpoints.
    """

    # D-351.

    __slots__ = ("_messages",)
    _messages: tuple[PublishedMessage, ...]

    def __new__(cls, messages: tuple[PublishedMessage, ...]) -> Published:
        made = super().__new__(cls, messages[0].message_id)
        made._messages = messages
        return made

    def __getnewargs__(self) -> tuple[Any, ...]:
        return (self._messages,)

    @property
    def messages(self) -> tuple[PublishedMessage, ...]:
        """A record of each message."""
        return self._messages

    @property
    def message_id(self) -> str:
        """The id as a plain text."""
        return self._messages[0].message_id

    @property
    def message_ids(self) -> tuple[str, ...]:
        """The id of every message: one, or for a URL group one of each endpoint."""
        return tuple(message.message_id for message in self._messages)

    @property
    def deduplicated(self) -> bool:
        """Whether nothing was made, as all of it had been published before."""
        return all(message.deduplicated for message in self._messages)


def read_published(answer: Any, destination: str) -> Published:
    """What was made, from the service's JSON."""
    made = answer if isinstance(answer, list) else [answer]
    return Published(
        tuple(
            PublishedMessage(
                message_id=each["messageId"],
                url=each.get("url", destination),
                deduplicated=each.get("deduplicated", False),
            )
            for each in made
        )
    )


def read_batch(answer: Any, items: Sequence[Mapping[str, Any]]) -> list[Published]:
    """What each message of a batch made. Raises Refused for those that the service has refused, naming them."""
    refused = [
        f"messages[{index}] ({items[index]['destination']}): {each['error']}"
        for index, each in enumerate(answer)
        if isinstance(each, Mapping) and "error" in each
    ]
    if refused:
        count = len(answer) - len(refused)
        others = f"; {count} of {len(answer)} were published" if count else ""
        raise Refused("; ".join(refused) + others, status=HTTPStatus.BAD_REQUEST)
    return [read_published(each, item["destination"]) for each, item in zip(answer, items, strict=True)]
