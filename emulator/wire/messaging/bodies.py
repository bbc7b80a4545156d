"""The JSON bodies that clients send, as the core takes them.

Everywhere null means "not said" and unknown keys are ignored, except where ignoring a
misspelt filter would make it match everything (D-077).

Source: the interface document shows the body of the group defaults alone; the others are those
that public clients send (D-077).
"""

from __future__ import annotations

from typing import TypeVar

import msgspec

from emulator.core.commands import EndpointSelector, PublishItem, SetGroupDefaults, UpsertQueue
from emulator.core.errors import InvalidInput, InvalidRunMessage, Refused
from emulator.core.model.names import AccountId, DeadLetterId, GroupName
from emulator.core.model.resources import Endpoint
from emulator.wire import names
from emulator.wire.dialect import Dialect
from emulator.wire.fields import read_field
from emulator.wire.json_bodies import decoded
from emulator.wire.messaging import destinations
from emulator.wire.messaging.invocations import with_invoker
from emulator.wire.messaging.options import RequestKind, Tell, read_listed_options, tell_nobody
from emulator.wire.messaging.run_options import RUN_ID, names_run, problem_of

T = TypeVar("T")

MAX_PARALLELISM = 10**9


def read_batch(
    body: bytes, dialect: Dialect, caller_ip: str, tell: Tell = tell_nobody
) -> tuple[PublishItem | Refused, ...]:
    """The items of a batch; one whose destination or options are wrong is its refusal (D-121).

    `tell` is called for each item that gives something in vain.

    Raises: InvalidInput for a body that is no array of items, naming the JSON field.
    """
    try:
        items = decoded(_BATCH, body)
    except InvalidInput as problem:
        # What the client means by it is not known, but a 400 it would take for the end of a run (D-364).
        if f'"{dialect.lower_prefix}{RUN_ID}"'.encode() in body.lower():
            raise InvalidRunMessage(problem.field, problem.reason) from None
        raise
    items.reverse()
    # Free each item once it is read: a batch may carry 100 MB, and its texts become bytes here.
    return tuple([_item(items.pop(), dialect, caller_ip, tell) for _ in range(len(items))])


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
        given = decoded(_GROUP_DEFAULTS, body).headers
    except InvalidInput as problem:
        # A header is at fault by its own name, like an option with a wrong value.
        raise InvalidInput(problem.field.removeprefix("headers."), problem.reason) from None
    headers = tuple((key, (value,) if isinstance(value, str) else tuple(value)) for key, value in given.items())
    pairs = [(key, value) for key, values in headers for value in values]
    options = read_listed_options(pairs, dialect, kind=RequestKind.GROUP_DEFAULTS, tell=tell)
    return SetGroupDefaults(account_id=account_id, name=name, headers=headers, defaults=options)


def read_queue(body: bytes, account_id: AccountId) -> UpsertQueue:
    """A queue to create or update. Raises: InvalidInput naming the JSON field."""
    given = decoded(_QUEUE, body)
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
    given = decoded(_DEAD_LETTERS, body)
    if given is None or given.dlqIds is None:
        return None
    return tuple(DeadLetterId(dead_letter_id) for dead_letter_id in given.dlqIds)


def read_cancel_filters(body: bytes) -> dict[str, tuple[str, ...]]:
    """The filters of a bulk cancel that older clients send as a body, under the names of the query.

    Dates and counts come as digits, like in a query. Raises: InvalidInput naming the JSON field.
    """
    if not body:
        return {}
    given = decoded(_CANCEL, body)
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
        read = PublishItem(
            destination=destinations.read_batch_destination(item.destination, dialect),
            body=b"" if item.body is None else item.body.encode(),
            options=read_listed_options(headers, dialect, kind=RequestKind.BATCH_ITEM, tell=tell),
            caller_ip=caller_ip,
            queue=names.read_queue_name(item.queue, field="queue") if item.queue else None,
        )
        return with_invoker(read, dialect)
    except Refused as refusal:
        if isinstance(refusal, InvalidInput):
            refusal = problem_of(refusal, headers, dialect)
        if names_run(headers, dialect):
            raise refusal from None
        return refusal


def _endpoints(body: bytes) -> list[_Endpoint]:
    endpoints = decoded(_ENDPOINTS, body).endpoints
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
