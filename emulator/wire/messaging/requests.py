"""What clients send, as the core takes it: JSON bodies, invocations and publishes.

Everywhere null means "not said" and unknown keys are ignored, except where ignoring a
misspelt filter would make it match everything (D-077).

Source: the interface document shows the body of the group defaults alone; the others are those
that public clients send (D-077).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from emulator.core.commands import EndpointSelector, PublishItem, SetGroupDefaults, UpsertQueue
from emulator.core.errors import InvalidInput, InvalidRunMessage, PayloadTooLarge, Refused
from emulator.core.model.options import MessageOptions
from emulator.core.model.resources import Endpoint
from emulator.core.model.workflows import Invoker, ListedHeaders
from emulator.core.record import AccountId, GroupName, QueueName, RunId
from emulator.wire import names, urls
from emulator.wire.dialect import Dialect
from emulator.wire.json_reader import WHOLE, decoded
from emulator.wire.messaging.option_values import RUN_ID
from emulator.wire.messaging.options import (
    LogNote,
    RequestKind,
    discard_note,
    is_list_option,
    is_option,
    names_run,
    problem_of,
    read_listed_options,
    read_options,
)
from emulator.wire.names import read_field
from emulator.wire.parts import RequestParts
from emulator.wire.urls import read_destination

T = TypeVar("T")

MAX_PARALLELISM = 10**9
# More than a run has steps. Other calls wait while the items are read and published (D-811).
MAX_ITEMS = 25_000


def read_batch(
    body: bytes,
    dialect: Dialect,
    caller_ip: str,
    log_note: LogNote = discard_note,
    *,
    kind: RequestKind = RequestKind.BATCH_ITEM,
) -> tuple[PublishItem | Refused, ...]:
    """The items of a batch; one whose destination or options are wrong is its refusal (D-121).

    `log_note` is called for each item of which something is ignored.

    Raises: InvalidInput for a body that is no array of items, naming the JSON field; PayloadTooLarge.
    """
    try:
        items = decoded(_BATCH, body, most_bytes=None)
    except InvalidInput as problem:
        # What the client means by it is not known, but a 400 it would take for the end of a run (D-364).
        if f'"{dialect.lower_prefix}{RUN_ID}"'.encode() in body.lower():
            raise InvalidRunMessage(problem.field, problem.reason) from None
        raise
    if len(items) > MAX_ITEMS:
        raise PayloadTooLarge(f"{WHOLE}: expected at most {MAX_ITEMS} items, got {len(items)}")
    items.reverse()
    # Free each item once it is read: a batch may carry 100 MB, and its texts become bytes here.
    return tuple([_item(items.pop(), dialect, caller_ip, log_note, kind) for _ in range(len(items))])


def read_endpoints(body: bytes) -> tuple[Endpoint, ...]:
    """The endpoints to add to a URL group. Raises: InvalidInput naming the JSON field."""
    endpoints = []
    for index, given in enumerate(_endpoints(body)):
        if not given.url:
            raise InvalidInput(f"endpoints[{index}].url", "expected the URL of the endpoint")
        urls.check_url(f"endpoints[{index}].url", given.url)
        if given.name:
            read_field(f"endpoints[{index}].name", given.name, names.parse_free_text)
        endpoints.append(Endpoint(url=given.url, name=given.name or None))
    return tuple(endpoints)


def read_endpoint_selectors(body: bytes) -> tuple[EndpointSelector, ...]:
    """The endpoints to remove from a URL group, each by name or URL. Raises: InvalidInput naming the JSON field."""
    selectors = []
    for index, given in enumerate(_endpoints(body)):
        selector = EndpointSelector(url=given.url or None, name=given.name or None)
        if selector.url is None and selector.name is None:
            raise InvalidInput(f"endpoints[{index}]", "expected the name or the URL of an endpoint")
        selectors.append(selector)
    return tuple(selectors)


def read_group_defaults(
    body: bytes, dialect: Dialect, account_id: AccountId, name: GroupName, log_note: LogNote = discard_note
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
    headers = listed(given)
    # An option whose value is a list takes its items one by one too (D-520).
    joined = ((key, (",".join(values),) if is_list_option(key, dialect) else values) for key, values in headers)
    pairs = [(key, value) for key, values in joined for value in values]
    options = read_listed_options(pairs, dialect, kind=RequestKind.GROUP_DEFAULTS, log_note=log_note)
    return SetGroupDefaults(account_id=account_id, name=name, headers=headers, defaults=options)


def read_queue(body: bytes, account_id: AccountId) -> UpsertQueue:
    """A queue to create or update. Raises: InvalidInput naming the JSON field."""
    given = decoded(_QUEUE, body)
    parallelism = given.parallelism
    if parallelism is not None and not 1 <= parallelism <= MAX_PARALLELISM:
        raise InvalidInput("parallelism", f"expected a number from 1 to {MAX_PARALLELISM}")
    name = names.read_queue_name(given.queueName)
    return UpsertQueue(account_id=account_id, name=name, parallelism=parallelism, paused=given.paused)


# --- the shapes, with names as on the wire -------------------------------------------------------


class BatchItem(msgspec.Struct):
    """One publish of a batch, as its JSON has it."""

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


_BATCH = msgspec.json.Decoder(list[BatchItem])
_ENDPOINTS = msgspec.json.Decoder(_Endpoints)
_GROUP_DEFAULTS = msgspec.json.Decoder(_GroupDefaults)
_QUEUE = msgspec.json.Decoder(_Queue)


def _item(
    item: BatchItem, dialect: Dialect, caller_ip: str, log_note: LogNote, kind: RequestKind
) -> PublishItem | Refused:
    headers = () if item.headers is None else item.headers.items()
    try:
        read = PublishItem(
            destination=urls.read_batch_destination(item.destination, dialect),
            body=b"" if item.body is None else item.body.encode(),
            options=read_listed_options(headers, dialect, kind=kind, log_note=log_note),
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


# -- invocations: the body is a request, with the payload inside and the run that gets the result --


class _Invocation(msgspec.Struct):
    workflowRunId: str  # noqa: N815
    workflowUrl: str  # noqa: N815
    step: dict[str, msgspec.Raw]
    workflowRunCreatedAt: int = 0  # noqa: N815
    body: str | None = None
    headers: dict[str, str | list[str]] = {}


# Deeper than a client's step, and far from the depth at which JSON cannot be read.
_DEEPEST = 100

_INVOCATION = msgspec.json.Decoder(_Invocation)
_encode = msgspec.json.Encoder().encode


def with_invoker(item: PublishItem, dialect: Dialect) -> PublishItem:
    """The item as it is, or with the payload and the invoker that its body names. Raises InvalidRunMessage."""
    workflow = item.options.workflow
    if workflow is None or not workflow.invokes:
        return item
    try:
        given = decoded(_INVOCATION, item.body, most_bytes=None)
        invoker = Invoker(
            run_id=RunId(read_field("workflowRunId", given.workflowRunId, names.parse_free_text)),
            run_created_ms=given.workflowRunCreatedAt,
            url=urls.check_url("workflowUrl", given.workflowUrl),
            options=options_of_run(given.headers, RunId(given.workflowRunId), dialect),
            step=step_of(given.step),
        )
    except InvalidInput as problem:
        raise InvalidRunMessage(problem.field, problem.reason) from None
    return replace(item, body=(given.body or "").encode(), invoker=invoker)


def step_of(fields: Mapping[str, msgspec.Raw]) -> bytes:
    """A step as JSON that a result can be added to later without an error (D-327). Raises: InvalidInput."""
    step = _encode(fields)
    try:
        values: list[object] = [msgspec.json.decode(step)]
    except (msgspec.DecodeError, RecursionError) as error:
        reason = "too many nested values" if isinstance(error, RecursionError) else str(error)
        raise InvalidInput("step", f"expected JSON that can be read again: {reason}") from None
    for _ in range(_DEEPEST):
        values = [inner for value in values for inner in _inside(value)]
    if values:
        raise InvalidInput("step", f"expected values nested at most {_DEEPEST} deep")
    return step


def _inside(value: object) -> Iterable[object]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def options_of_run(headers: Mapping[str, str | list[str]], run_id: RunId, dialect: Dialect) -> MessageOptions:
    """What headers in a JSON body say of a later message of a run; one name in two spellings counts once.

    Raises: InvalidInput naming the header.
    """
    pairs = {(name.lower(), value): None for name, values in listed(headers) for value in values}
    named = (dialect.lower_prefix + RUN_ID, run_id)
    rest = (pair for pair in pairs if pair[0] != named[0])
    return read_listed_options((named, *rest), dialect, kind=RequestKind.PUBLISH)


def listed(headers: Mapping[str, str | Iterable[str]]) -> ListedHeaders:
    """Headers of a JSON body, each with all its values."""
    return tuple((name, (values,) if isinstance(values, str) else tuple(values)) for name, values in headers.items())


# -- publishes: the destination in the path, options in headers and query, the body as it is ----


def read_publish(
    parts: RequestParts,
    dialect: Dialect,
    rest_of_raw_path: str,
    *,
    kind: RequestKind,
    log_note: LogNote,
    queue: QueueName | None = None,
) -> PublishItem:
    """The message to publish. Raises InvalidInput naming what is wrong, for a message of a run another one (D-364)."""
    try:
        destination = read_destination(rest_of_raw_path, parts.typed_query, dialect)
    except InvalidInput as problem:
        raise problem_of(problem, (*parts.headers, *parts.query), dialect) from None
    return PublishItem(
        destination=destination,
        body=parts.body,
        options=read_options(parts, dialect, kind=kind, log_note=log_note),
        caller_ip=parts.client_ip,
        queue=queue,
    )


def options_beside_a_batch(parts: RequestParts, dialect: Dialect) -> tuple[str, ...]:
    """The options in the headers and the query of a batch's own call, which nothing reads: its items have theirs.

    Raises: InvalidInput for a cron expression, as on any call that makes no schedule (D-074).
    """
    prefix = dialect.lower_prefix
    given = [(dialect.header(name.removeprefix(prefix)), name, value) for name, value in parts.headers]
    given += [(name.lower(), name.lower(), value) for name, value in parts.query]
    is_given = {
        shown: name.removeprefix(prefix)
        for shown, name, value in given
        if name.startswith(prefix) and value.strip() and is_option(name.removeprefix(prefix))
    }
    for shown, key in is_given.items():
        if key == "cron":
            raise InvalidInput(shown, "expected only when a schedule is created")
    return tuple(is_given)
