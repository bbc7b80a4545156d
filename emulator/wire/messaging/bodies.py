"""The JSON bodies that clients send, as the core takes them.

Everywhere null means "not said" and unknown keys are ignored, except where ignoring a
misspelt filter would make it match everything (D-077).

Source: the interface document shows the body of the group defaults alone; the others are those
that public clients send (D-077).
"""

from __future__ import annotations

import re
from typing import TypeVar

import msgspec

from emulator.core.commands import EndpointSelector, PublishItem, SetGroupDefaults, UpsertQueue
from emulator.core.errors import InvalidInput, Refused
from emulator.core.language.excerpts import excerpt
from emulator.core.model import AccountId, DeadLetterId, Endpoint, GroupName
from emulator.wire import names
from emulator.wire.dialect import Dialect
from emulator.wire.fields import read_field
from emulator.wire.messaging import destinations
from emulator.wire.messaging.options import RequestKind, Tell, read_listed_options, tell_nobody
from emulator.wire.messaging.run_options import names_run

T = TypeVar("T")

MAX_PARALLELISM = 10**9

# The field that a refusal names when no single JSON field is wrong.
WHOLE = "body"


def read_batch(
    body: bytes, dialect: Dialect, caller_ip: str, tell: Tell = tell_nobody
) -> tuple[PublishItem | Refused, ...]:
    """The items of a batch; one whose destination or options are wrong is its refusal (D-121).

    `tell` is called for each item that gives something in vain.

    Raises: InvalidInput for a body that is no array of items, naming the JSON field.
    """
    decoded = _decoded(_BATCH, body)
    decoded.reverse()
    # Free each item once it is read: a batch may carry 100 MB, and its texts become bytes here.
    return tuple([_item(decoded.pop(), dialect, caller_ip, tell) for _ in range(len(decoded))])


def read_endpoints(body: bytes) -> tuple[Endpoint, ...]:
    """The endpoints to add to a URL group. Raises: InvalidInput naming the JSON field."""
    endpoints = []
    for index, given in enumerate(_endpoints(body)):
        url = _text(given.url)
        if url is None:
            raise InvalidInput(f"endpoints[{index}].url", "expected the URL of the endpoint")
        destinations.check_url(f"endpoints[{index}].url", url)
        endpoints.append(Endpoint(url=url, name=_endpoint_name(given.name, index)))
    return tuple(endpoints)


def read_endpoint_selectors(body: bytes) -> tuple[EndpointSelector, ...]:
    """The endpoints to remove from a URL group, each by name or URL. Raises: InvalidInput naming the JSON field."""
    selectors = []
    for index, given in enumerate(_endpoints(body)):
        selector = EndpointSelector(url=_text(given.url), name=_text(given.name))
        if selector.url is None and selector.name is None:
            raise InvalidInput(f"endpoints[{index}]", "expected the name or the URL of an endpoint")
        selectors.append(selector)
    return tuple(selectors)


def read_group_defaults(
    body: bytes, dialect: Dialect, account_id: AccountId, name: GroupName, tell: Tell = tell_nobody
) -> SetGroupDefaults:
    """The default headers of a URL group: as given, and what they say.

    Raises: InvalidInput naming the JSON field or the header.
    Source: interface document, "URL group default headers".
    """
    try:
        given = _decoded(_GROUP_DEFAULTS, body).headers
    except InvalidInput as problem:
        # A header is at fault by its own name, like an option with a wrong value.
        raise InvalidInput(problem.field.removeprefix("headers."), problem.reason) from None
    headers = tuple((key, (value,) if isinstance(value, str) else tuple(value)) for key, value in given.items())
    pairs = [(key, value) for key, values in headers for value in values]
    options = read_listed_options(pairs, dialect, kind=RequestKind.GROUP_DEFAULTS, tell=tell)
    return SetGroupDefaults(account_id=account_id, name=name, headers=headers, defaults=options)


def read_queue(body: bytes, account_id: AccountId) -> UpsertQueue:
    """A queue to create or update. Raises: InvalidInput naming the JSON field."""
    given = _decoded(_QUEUE, body)
    parallelism = given.parallelism
    if parallelism is not None and not 1 <= parallelism <= MAX_PARALLELISM:
        raise InvalidInput("parallelism", f"expected a number from 1 to {MAX_PARALLELISM}")
    name = names.read_queue_name(given.queueName)
    return UpsertQueue(account_id=account_id, name=name, parallelism=parallelism, paused=given.paused)


def read_dead_letter_ids(body: bytes) -> tuple[DeadLetterId, ...] | None:
    """The dead letters a body lists; None if it says nothing, so that filters decide.

    Raises: InvalidInput naming the JSON field.
    """
    if not body:
        return None
    given = _decoded(_DEAD_LETTERS, body)
    if given is None or given.dlqIds is None:
        return None
    return tuple(DeadLetterId(dead_letter_id) for dead_letter_id in given.dlqIds)


def read_cancel_filters(body: bytes) -> dict[str, tuple[str, ...]]:
    """The filters of a bulk cancel that older clients send as a body, under the names of the query.

    Dates and counts come as digits, like in a query. Raises: InvalidInput naming the JSON field.
    """
    if not body:
        return {}
    given = _decoded(_CANCEL, body)
    if given is None:
        return {}
    filters: dict[str, tuple[str, ...]] = {}
    for name in given.__struct_fields__:
        value: str | int | list[str] | None = getattr(given, name)
        if isinstance(value, list):
            filters[name] = tuple(value)
        elif value is not None:
            filters[name] = (str(value),)
    return filters


# --- the shapes ---------------------------------------------------------------------------------

# The names of the fields are those on the wire.


class _Item(msgspec.Struct):
    destination: str
    headers: dict[str, str] | None = None
    body: str | None = None
    queue: str | None = None


class _Endpoint(msgspec.Struct):
    url: str | None = None
    name: str | None = None


class _Endpoints(msgspec.Struct):
    endpoints: list[_Endpoint]


class _GroupDefaults(msgspec.Struct):
    headers: dict[str, str | list[str]]


class _Queue(msgspec.Struct):
    queueName: str  # noqa: N815
    parallelism: int | None = None
    paused: bool | None = None


class _DeadLetters(msgspec.Struct, forbid_unknown_fields=True):
    dlqIds: list[str] | None = None  # noqa: N815


class _Cancel(msgspec.Struct, forbid_unknown_fields=True):
    messageIds: list[str] | str | None = None  # noqa: N815
    topicName: list[str] | str | None = None  # noqa: N815
    queueName: list[str] | str | None = None  # noqa: N815
    url: list[str] | str | None = None
    host: list[str] | str | None = None
    path: list[str] | str | None = None
    label: list[str] | str | None = None
    flowControlKey: list[str] | str | None = None  # noqa: N815
    scheduleId: list[str] | str | None = None  # noqa: N815
    callerIp: list[str] | str | None = None  # noqa: N815
    callerIP: list[str] | str | None = None  # noqa: N815
    fromDate: int | None = None  # noqa: N815
    toDate: int | None = None  # noqa: N815
    count: int | None = None


_BATCH = msgspec.json.Decoder(list[_Item])
_ENDPOINTS = msgspec.json.Decoder(_Endpoints)
_GROUP_DEFAULTS = msgspec.json.Decoder(_GroupDefaults)
_QUEUE = msgspec.json.Decoder(_Queue)
_DEAD_LETTERS: msgspec.json.Decoder[_DeadLetters | None] = msgspec.json.Decoder(_DeadLetters | None)
_CANCEL: msgspec.json.Decoder[_Cancel | None] = msgspec.json.Decoder(_Cancel | None)


def _item(item: _Item, dialect: Dialect, caller_ip: str, tell: Tell) -> PublishItem | Refused:
    headers = () if item.headers is None else item.headers.items()
    try:
        return PublishItem(
            destination=destinations.read_batch_destination(item.destination, dialect),
            body=b"" if item.body is None else item.body.encode(),
            options=read_listed_options(headers, dialect, kind=RequestKind.BATCH_ITEM, tell=tell),
            caller_ip=caller_ip,
            queue=names.read_queue_name(item.queue, field="queue") if item.queue else None,
        )
    except Refused as refusal:
        if names_run(((name.lower(), value) for name, value in headers), dialect):
            raise
        return refusal


def _endpoints(body: bytes) -> list[_Endpoint]:
    endpoints = _decoded(_ENDPOINTS, body).endpoints
    if not endpoints:
        raise InvalidInput("endpoints", "expected at least one endpoint")
    return endpoints


def _endpoint_name(text: str | None, index: int) -> str | None:
    name = _text(text)
    if name is None:
        return None
    return read_field(f"endpoints[{index}].name", name, names.parse_free_text)


def _text(text: str | None) -> str | None:
    """A text, with an empty one counted as absent."""
    return text or None


# --- decoding -----------------------------------------------------------------------------------

_PLACE = re.compile(r"(?P<what>.*?)(?: - at `\$(?P<path>[^`]*)`)?", re.DOTALL)
_FIELD = re.compile(r"Object (?P<fault>missing required|contains unknown) field `(?P<name>.*)`", re.DOTALL)


def _decoded(decoder: msgspec.json.Decoder[T], body: bytes) -> T:
    if not body or body.isspace():
        raise InvalidInput(WHOLE, "expected JSON, got an empty body")
    try:
        return decoder.decode(body)
    except msgspec.ValidationError as error:
        raise _wrong_shape(str(error), body) from None
    except msgspec.DecodeError as error:
        reason = str(error)
        if "(byte" not in reason:
            reason = f"{reason} (byte {len(body)})"
        raise InvalidInput(WHOLE, f"expected JSON: {reason}") from None
    except UnicodeDecodeError as error:
        # Its position counts from the start of one string of the document.
        raise InvalidInput(
            WHOLE, f"expected JSON in UTF-8: {error.reason}, byte {error.object[error.start]:#x}"
        ) from None
    except RecursionError:
        raise InvalidInput(WHOLE, "expected JSON: too many nested values") from None


def _wrong_shape(text: str, body: bytes) -> InvalidInput:
    """The refusal for a document of another shape; its field is the path of the wrong value."""
    place = _PLACE.fullmatch(text)
    what, path = (text, "") if place is None else (place["what"], place["path"] or "")
    path = path.removeprefix(".")
    beginning, any_key, rest = path.partition("[...]")
    if any_key:
        name = _key_at_fault(
            _inside(msgspec.json.decode(body), beginning), rest, may_be_list="array" in what.partition(",")[0]
        )
        path = f"{beginning}.{name}{rest}"
    named = _FIELD.fullmatch(what)
    if named is not None:
        field = f"{path}.{named['name']}" if path else named["name"]
        return InvalidInput(field, "is missing" if named["fault"].startswith("missing") else "unknown name")
    reason = what[:1].lower() + what[1:].replace("`", "")
    return InvalidInput(path or WHOLE, reason)


_STEP = re.compile(r"\[([0-9]+)\]|\.?([^.\[\]]+)")


def _inside(value: object, path: str) -> object:
    """The value at a path such as `[0].headers`, None where there is none."""
    for index, key in _STEP.findall(path):
        if index:
            value = value[int(index)] if isinstance(value, list) and int(index) < len(value) else None
        else:
            value = value.get(key) if isinstance(value, dict) else None
    return value


def _key_at_fault(value: object, rest: str, *, may_be_list: bool) -> str:
    """Which key of an object of texts holds something else, which the decoder does not say.

    `rest` is the wrong element's place if the key holds a list: `[1]`.
    """
    for key, held in value.items() if isinstance(value, dict) else ():
        if rest:
            index = int(rest[1:-1])
            is_wrong = isinstance(held, list) and index < len(held) and not isinstance(held[index], str)
        else:
            is_wrong = not isinstance(held, str) and not (may_be_list and isinstance(held, list))
        if is_wrong:
            return key if key.isprintable() and len(key) <= names.MAX_LENGTH else excerpt(key)
    return "..."
