"""Schemas of the contract, ready to be held against values."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

from emulator.contract.document import Api, rebuilt, table
from emulator.wire.json_fields import Json, JsonObject

if TYPE_CHECKING:
    from jsonschema.protocols import Validator


class Schemas:
    """The schemas of some documents as validators, each compiled at its first use.

    A closed schema takes no fields that it does not name: the service ignores what it does not know,
    so its contract lets that pass, and in strict mode it is a mistake.
    """

    def __init__(self, documents: Mapping[Api, JsonObject]) -> None:
        from referencing import Registry
        from referencing.jsonschema import DRAFT202012, SchemaRegistry

        registry: SchemaRegistry = Registry()
        for api, document in documents.items():
            for is_closed in (False, True):
                content = rebuilt(document, _closed) if is_closed else document
                registry = registry.with_resource(_base(api, is_closed), DRAFT202012.create_resource(content))
        self._registry = registry
        self._compiled: dict[tuple[str, str], Validator] = {}

    def validator(self, api: Api, schema: Json, *, is_closed: bool = False) -> Validator:
        """The validator of a schema that stands in the document of an API, or could stand there."""
        from jsonschema import Draft202012Validator

        base = _base(api, is_closed)
        key = (base, json.dumps(schema, sort_keys=True))
        if key not in self._compiled:

            def absolute(found: JsonObject) -> JsonObject:
                reference = found.get("$ref")
                return {**found, "$ref": f"{base}{reference}"} if isinstance(reference, str) else found

            # The schema is compiled by itself, so its references have to name the document.
            content = table(rebuilt(schema, absolute))
            if is_closed:
                content = table(rebuilt(content, _closed))
            self._compiled[key] = Draft202012Validator(dict(content), registry=self._registry)
        return self._compiled[key]


def _base(api: Api, is_closed: bool) -> str:
    return f"contract:{api}{':closed' if is_closed else ''}"


def _closed(found: JsonObject) -> JsonObject:
    is_object = found.get("type") == "object" and isinstance(found.get("properties"), Mapping)
    return {"additionalProperties": False, **found} if is_object else found
