"""A publish that invokes a run: its body is a request, with the payload inside and the run that gets the result."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec
from msgspec.structs import replace

from emulator.core.commands import PublishItem
from emulator.core.errors import InvalidInput, InvalidRunMessage
from emulator.core.model.names import RunId
from emulator.core.model.options import MessageOptions
from emulator.core.workflows import Invoker, ListedHeaders
from emulator.wire.dialect import Dialect
from emulator.wire.fields import read_field
from emulator.wire.json_bodies import decoded
from emulator.wire.messaging import destinations, run_options
from emulator.wire.messaging.options import RequestKind, read_listed_options


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
        given = decoded(_INVOCATION, item.body)
        invoker = Invoker(
            run_id=read_field("workflowRunId", given.workflowRunId, run_options.parse_run_id),
            run_created_ms=given.workflowRunCreatedAt,
            url=destinations.check_url("workflowUrl", given.workflowUrl),
            options=options_of_run(given.headers, RunId(given.workflowRunId), dialect),
            step=step_of(given.step),
        )
    except InvalidInput as problem:
        raise InvalidRunMessage(problem.field, problem.reason) from None
    return replace(item, body=(given.body or "").encode(), invoker=invoker)


def step_of(fields: Mapping[str, msgspec.Raw]) -> bytes:
    """A step as JSON that a result can be added to later, when nobody can be refused. Raises: InvalidInput (D-327)."""
    step = _encode(fields)
    try:
        values: list[object] = [msgspec.json.decode(step)]
    except (msgspec.DecodeError, RecursionError) as error:
        raise InvalidInput("step", f"expected JSON that can be read again: {error}") from None
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
    named = (dialect.lower_prefix + run_options.RUN_ID, run_id)
    rest = (pair for pair in pairs if pair[0] != named[0])
    return read_listed_options((named, *rest), dialect, kind=RequestKind.PUBLISH)


def listed(headers: Mapping[str, str | Iterable[str]]) -> ListedHeaders:
    """Headers of a JSON body, each with all its values."""
    return tuple((name, (values,) if isinstance(values, str) else tuple(values)) for name, values in headers.items())
