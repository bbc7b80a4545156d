"""A publish as a request of its own: the destination in its path, options in headers and query, the body as it is."""

from __future__ import annotations

from emulator.core.commands import PublishItem
from emulator.core.errors import InvalidInput
from emulator.core.model.names import QueueName
from emulator.wire.dialect import Dialect
from emulator.wire.messaging import run_options
from emulator.wire.messaging.destinations import read_destination
from emulator.wire.messaging.options import RequestKind, Tell, read_options
from emulator.wire.parts import RequestParts


def read_publish(
    parts: RequestParts,
    dialect: Dialect,
    rest_of_raw_path: str,
    *,
    kind: RequestKind,
    tell: Tell,
    queue: QueueName | None = None,
) -> PublishItem:
    """The message to publish. Raises InvalidInput naming what is wrong, for a message of a run another one (D-364)."""
    try:
        destination = read_destination(rest_of_raw_path, parts.raw_query, dialect)
    except InvalidInput as problem:
        raise run_options.problem_of(problem, (*parts.headers, *parts.query), dialect) from None
    return PublishItem(
        destination=destination,
        body=parts.body,
        options=read_options(parts, dialect, kind=kind, tell=tell),
        caller_ip=parts.client_ip,
        queue=queue,
    )
