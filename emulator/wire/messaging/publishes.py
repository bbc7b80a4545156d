"""A publish as a request of its own: the destination in its path, options in headers and query, the body as it is."""

from __future__ import annotations

from emulator.core.commands import PublishItem
from emulator.core.errors import InvalidInput
from emulator.core.model.names import QueueName
from emulator.wire.dialect import Dialect
from emulator.wire.messaging import run_options
from emulator.wire.messaging.destinations import read_destination
from emulator.wire.messaging.options import RequestKind, Tell, is_option, read_options
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
