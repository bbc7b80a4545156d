"""What strict mode says of a request: options that are taken and not applied, and mismatches in words."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, cast

from emulator.contract.document import items, table, text, texts
from emulator.core.language.text import canonical_name, near
from emulator.core.record import Record
from emulator.core.rules.options import ignored_by_queues
from emulator.wire.dialect import Dialect
from emulator.wire.json_reader import WHOLE, Json, JsonObject, joined, kind_of
from emulator.wire.messaging.option_values import RUN_ID
from emulator.wire.parts import Pairs, RequestParts

if TYPE_CHECKING:
    from jsonschema.exceptions import ValidationError


# -- ignored options --------------------------------------------------------------------------
# Options that the emulator takes and does not apply, which strict mode refuses.
#
# A queue does not apply some (D-021), runs are in no queue (D-325), and only a schedule has an id of
# its own (D-074).

ENQUEUE, PUBLISH, SCHEDULE, BATCH = "enqueueMessage", "publishMessage", "createSchedule", "publishBatch"


class Ignored(Record):
    """An option that does not apply: the field of the request, how a line names it, and why it does not.

    `is_of_operation` says whether the contract has it for the operation.
    """

    field: str
    what: str
    why: str
    is_of_operation: bool


def ignored_options(operation_id: str, parts: RequestParts, body: Json, dialect: Dialect) -> Iterator[Ignored]:
    """The options in a request that do not apply; `body` is its JSON."""
    # Of each message: its place in the body, its options, and the field that names its queue.
    messages: list[tuple[str, Pairs, str | None]] = []
    if operation_id == BATCH:
        for number, item in enumerate(map(table, items(body))):
            headers = tuple((name, text(value)) for name, value in table(item.get("headers")).items())
            messages.append((f"[{number}].", headers, "queue" if text(item.get("queue")) else None))
    elif operation_id in (ENQUEUE, PUBLISH, SCHEDULE):
        messages.append(("", (*parts.headers, *parts.query), "queueName" if operation_id == ENQUEUE else None))
    for place, options, queue in messages:
        given = {name.lower() for name, value in options if value.strip()}
        yield from _with_queue(operation_id, given, queue, place, dialect)
    header = dialect.header("schedule-id")
    for place, options, _ in messages if operation_id != SCHEDULE else ():
        for name, value in options:
            if name.lower() == header.lower() and (value if place else value.strip()):
                field, what = _header(header, place)
                why = "does not apply to messages, which have no schedule"
                yield Ignored(field=field, what=what, why=why, is_of_operation=False)


def _with_queue(
    operation_id: str, given: set[str], queue: str | None, place: str, dialect: Dialect
) -> Iterator[Ignored]:
    """What does not apply if a queue is named: by the field `queue`, or by a header."""
    header = dialect.header("queue-name")
    if queue is None and header.lower() not in given:
        return
    if operation_id == SCHEDULE or dialect.header(RUN_ID).lower() not in given:
        yield from _ignored(operation_id, given, place, dialect)
        return
    field, what = (f"{place}{queue}",) * 2 if queue is not None else _header(header, place)
    yield Ignored(field=field, what=what, why="does not apply to messages of a workflow run", is_of_operation=True)


def _ignored(operation_id: str, given: set[str], place: str, dialect: Dialect) -> Iterator[Ignored]:
    for headers in ignored_by_queues(keeps_delay=operation_id == SCHEDULE).values():
        for header in map(dialect.rename_field_at_fault, headers):
            if header.lower() in given:
                field, what = _header(header, place)
                yield Ignored(
                    field=field,
                    what=what,
                    why="does not apply to queued messages",
                    is_of_operation=operation_id != ENQUEUE,
                )


def _header(header: str, place: str) -> tuple[str, str]:
    """A header as a field, and as a line names it."""
    return (f"{place}headers.{header}", f"{place}headers: header {header}") if place else (header, f"header {header}")


# -- how a mismatch is described: in the words of the contract, and never with a value --------

_LONGEST = 120


def described(error: ValidationError, place: str = "") -> Iterator[str]:
    """What is wrong, each with the path of the value at fault; `place` is the path of what was validated."""
    path = place
    for key in error.path:
        path = f"{path}[{key}]" if isinstance(key, int) else joined(path, key)
    schema = error.schema if isinstance(error.schema, Mapping) else {}
    known = table(schema.get("properties"))
    description = _first_words(text(schema.get("description")))
    instance, rule = cast(Json, error.instance), cast(Json, error.validator_value)
    at = shown(path or WHOLE)
    match error.validator:
        case "additionalProperties" if isinstance(instance, Mapping) and not isinstance(rule, Mapping):
            for name in instance:
                if name not in known:
                    yield f"{shown(joined(path, name))}: unknown field{meant(name, known)}"
        case "required" if isinstance(instance, Mapping):
            for needed in items(rule):
                if isinstance(needed, str) and needed not in instance:
                    yield f"{joined(path, needed)}: missing"
        case "type":
            yield f"{at}: expected {' or '.join(texts(rule))}, got {kind_of(instance)}"
        case "enum":
            choices = ", ".join(json.dumps(each) for each in items(rule))
            yield f"{at}: expected one of {choices}"
        case "oneOf" | "anyOf" if error.context:
            # The alternative with the fewest mismatches is most likely what was meant.
            branches: dict[object, list[ValidationError]] = {}
            for each in error.context:
                branches.setdefault(each.schema_path[0], []).append(each)
            nearest = min(branches.values(), key=_distance)
            # What is said of a part of an object or list says more than the description of the whole.
            of_fields = ("additionalProperties", "required")
            if description and not any(each.path or each.validator in of_fields for each in nearest):
                yield f"{at}: expected {description}"
                return
            for each in nearest:
                yield from described(each, path)
        case _ if description:
            yield f"{at}: expected {description}"
        case _:
            words = f" {rule}" if isinstance(rule, int | float | str) else ""
            yield f"{at}: not as the contract says ({error.validator}{words})"


def _first_words(description: str) -> str:
    """The first sentence of a description, to be read behind `expected`; nothing of one that would be too long."""
    sentence = " ".join(description.split()).partition(". ")[0].removesuffix(".")
    if len(sentence) > _LONGEST:
        return ""
    is_word = sentence[:1].isupper() and sentence[1:2].islower()
    return sentence[:1].lower() + sentence[1:] if is_word else sentence


def _distance(errors: list[ValidationError]) -> tuple[int, int]:
    """How far an alternative is from the value: one of another type is far, however little else is wrong."""
    return sum(each.validator == "type" and not each.path for each in errors), len(errors)


def meant(name: str, known: Iterable[str]) -> str:
    """A hint at the name that was meant, nothing if none is like it."""
    close = near(name, (each for each in known if not each.endswith("*")))
    return f", did you mean {close[0]}?" if close else ""


def spelt(parameter: JsonObject, lower_name: str) -> str:
    """The name of a parameter as a client writes it."""
    name = text(parameter.get("name"))
    return canonical_name(lower_name) if name.endswith("*") else name


def shown(name: str) -> str:
    """A name of the client's own, which may be long."""
    return name if len(name) <= 80 else f"{name[:80]}…"
