"""Schemas of the contract, ready to be held against values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from emulator.wire.json_fields import Json, JsonObject

if TYPE_CHECKING:
    from jsonschema.protocols import Validator

_BASE = "contract:"


def validator(document: JsonObject, schema: Json) -> Validator:
    """The validator of a schema that stands in a document."""
    from jsonschema import Draft202012Validator
    from referencing import Registry
    from referencing.jsonschema import DRAFT202012, SchemaRegistry

    registry: SchemaRegistry = Registry()
    registry = registry.with_resource(_BASE, DRAFT202012.create_resource(document))
    # References within the schema are meant from the document that it stands in.
    return Draft202012Validator(_absolute(schema), registry=registry)


def closed(value: Json) -> Json:
    """A document or schema whose objects have no other fields than those that are named.

    The service ignores what it does not know, so its contract lets it pass; in strict mode it is a mistake.
    """
    match value:
        case str():
            return value
        case Mapping():
            found = {key: closed(each) for key, each in value.items()}
            is_object = value.get("type") == "object" and isinstance(value.get("properties"), Mapping)
            return {"additionalProperties": False, **found} if is_object else found
        case Sequence():
            return [closed(each) for each in value]
        case _:
            return value


def _absolute(value: Json) -> dict[str, object]:
    """A schema whose own references name the document. What they lead to resolves against it already."""
    found = _with_base(value)
    return found if isinstance(found, dict) else {}


def _with_base(value: Json) -> object:
    match value:
        case Mapping():
            return {
                key: f"{_BASE}{each}" if key == "$ref" and isinstance(each, str) else _with_base(each)
                for key, each in value.items()
            }
        case str():
            return value
        case Sequence():
            return [_with_base(each) for each in value]
        case _:
            return value
