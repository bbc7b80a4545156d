"""What a schema says of values, as far as documents are compared by it."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping

from emulator.contract.document import items, resolved, table, texts
from emulator.core.record import Record
from emulator.wire.json_fields import Json, JsonObject

# Schemas may refer to themselves; deeper nesting is not compared.
DEEPEST = 12


class Shape(Record):
    """What matters of a schema; no types mean any type, no choices (None) any value."""

    types: frozenset[str] = frozenset()
    choices: frozenset[str] | None = None
    fields: Mapping[str, Json]
    required: frozenset[str] = frozenset()
    items: Json = None


def shape_of(document: JsonObject, value: Json, depth: int = 0) -> Shape:
    """The shape of a schema that stands in a document."""
    if depth > DEEPEST:
        return Shape(fields={})
    schema = resolved(document, value)
    fields = table(schema.get("properties"))
    types = set(texts(schema.get("type"))) or ({"object"} if fields else set())
    if schema.get("nullable") is True and types:
        types.add("null")
    if "number" in types:
        types.add("integer")
    values = [schema["const"]] if "const" in schema else items(schema["enum"]) if "enum" in schema else None
    shape = Shape(
        types=frozenset(types),
        choices=None if values is None else frozenset(map(_text_of, values)),
        fields=fields,
        required=frozenset(texts(schema.get("required"))),
        items=schema.get("items"),
    )
    for part in items(schema.get("allOf")):
        shape = _all_of(shape, shape_of(document, part, depth + 1))
    for key in ("oneOf", "anyOf"):
        if alternatives := [shape_of(document, part, depth + 1) for part in items(schema.get(key))]:
            shape = _all_of(shape, functools.reduce(_any_of, alternatives))
    return shape


def _all_of(one: Shape, other: Shape) -> Shape:
    if one.choices is None or other.choices is None:
        choices = one.choices if other.choices is None else other.choices
    else:
        choices = one.choices & other.choices
    return Shape(
        types=one.types & other.types if one.types and other.types else one.types | other.types,
        choices=choices,
        fields={**one.fields, **other.fields},
        required=one.required | other.required,
        items=one.items if other.items is None else other.items,
    )


def _any_of(one: Shape, other: Shape) -> Shape:
    objects = [each for each in (one, other) if "object" in each.types or each.fields]
    return Shape(
        types=one.types | other.types if one.types and other.types else frozenset(),
        choices=None if one.choices is None or other.choices is None else one.choices | other.choices,
        fields={**one.fields, **other.fields},
        required=frozenset.intersection(*(each.required for each in objects)) if objects else frozenset(),
        items=one.items if other.items is None else other.items,
    )


def _text_of(value: Json) -> str:
    return value if isinstance(value, str) and value else json.dumps(value, ensure_ascii=False)
