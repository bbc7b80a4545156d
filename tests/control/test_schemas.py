"""The contract's schemas of what the control API answers are those of its records."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_type_hints

import pytest
import yaml
from msgspec import Meta, UnsetType, to_builtins
from msgspec.structs import fields

from emulator import resources
from emulator.client import records
from emulator.control import routes, schemas
from emulator.control.deliveries import Delivery
from emulator.control.records import TWIN, Instant, InstantMs, View
from emulator.core.model.options import Method


class Example(View):
    """A record of each kind of field
    (D-001).
    """

    at: Instant = TWIN  #: When it was.
    at_ms: InstantMs
    until: Instant | None = TWIN
    until_ms: InstantMs | None
    #: How it was done,
    #: in two lines.
    method: Method
    count: Annotated[int, Meta(ge=1)] | None  #: How often.
    names: tuple[str, ...]
    extra: str | UnsetType


class Step(View):
    """A base."""

    kind: str  #: What is done.
    name: str


class Moving(Step):
    metres: int  #: How far.


class Move(Moving):
    kind: Literal["walk", "run"]
    to: str | UnsetType


class Rest(Step):
    kind: Literal["rest"]
    metres: int | UnsetType


class Torn(View):
    """A base of two kinds that differ."""

    kind: str  #: Which.


class Number(Torn):
    kind: Literal["number"]
    value: int


class Word(Torn):
    kind: Literal["text"]
    value: str


def test_contract_is_fresh() -> None:
    # python -m emulator.control.schemas
    contract = resources.path("contracts", "control.openapi.yaml").read_text("utf-8")
    assert schemas.written(contract) == contract


def test_the_python_api_has_the_fields_of_a_delivery() -> None:
    module = Path(records.__file__).read_text("utf-8")
    assert schemas.with_python_fields(module) == module
    assert {each.name for each in dataclasses.fields(records.Delivery)} == {
        field.encode_name for field in fields(Delivery)
    } - {"at", "body_base64"}


def test_schema_has_the_fields_in_their_order_with_their_comments() -> None:
    schema = schemas.schema_of(Example)
    assert schema["description"] == "A record of each kind of field (D-001)."
    assert schema["required"] == ["at", "at_ms", "until", "until_ms", "method", "count", "names"]
    assert list(schema["properties"].items()) == [
        ("at", {"$ref": "#/components/schemas/Instant", "description": "When it was."}),
        ("at_ms", {"$ref": "#/components/schemas/InstantMs", "description": "The same in milliseconds."}),
        ("until", {"oneOf": [{"$ref": "#/components/schemas/Instant"}, {"type": "null"}]}),
        ("until_ms", {"oneOf": [{"$ref": "#/components/schemas/InstantMs"}, {"type": "null"}]}),
        (
            "method",
            {
                "type": "string",
                "enum": ["GET", "POST", "PUT", "PATCH", "DELETE"],
                "description": "How it was done, in two lines.",
            },
        ),
        ("count", {"type": ["integer", "null"], "minimum": 1, "description": "How often."}),
        ("names", {"type": "array", "items": {"type": "string"}}),
        ("extra", {"type": "string"}),
    ]


def test_a_base_of_kinds_has_the_fields_of_all_and_says_which_each_has() -> None:
    schema = schemas.schema_of(Step)
    assert list(schema) == ["type", "description", "required", "oneOf", "properties", "additionalProperties"]
    assert schema["required"] == ["kind", "name"]
    assert schema["oneOf"] == [
        {"properties": {"kind": {"const": "walk"}}, "required": ["kind", "metres"]},
        {"properties": {"kind": {"const": "run"}}, "required": ["kind", "metres"]},
        {"properties": {"kind": {"const": "rest"}}, "required": ["kind"]},
    ]
    assert schema["properties"] == {
        "kind": {"type": "string", "enum": ["walk", "run", "rest"], "description": "What is done."},
        "name": {"type": "string"},
        "metres": {"type": "integer", "description": "How far."},
        "to": {"type": "string"},
    }


def test_kinds_that_mean_different_things_by_one_field_are_refused() -> None:
    with pytest.raises(ValueError, match="two kinds have one field as"):
        schemas.schema_of(Torn)


def test_a_handler_returns_the_record_that_the_contract_says_its_operation_answers() -> None:
    contract = yaml.load(
        Path(str(resources.path("contracts", "control.openapi.yaml"))).read_text("utf-8"), Loader=yaml.CSafeLoader
    )
    operations = {re.sub(r"{[^}]*}", "{}", path): found for path, found in contract["paths"].items()}
    compared = 0
    for route in routes.ROUTES:
        view: Any = get_type_hints(route.handler)["return"]
        if not issubclass(view, View):
            continue  # Another status than 200, or no JSON.
        operation = operations[re.sub(r"{[^}]*}", "{}", route.path)][route.method.lower()]
        schema = operation["responses"]["200"]["content"]["application/json"]["schema"]
        if "$ref" in schema:
            assert schema["$ref"] == f"#/components/schemas/{view.__name__}", route
        else:
            assert list(schema["properties"]) == [field.encode_name for field in fields(view)], route
            kinds = get_type_hints(view)
            required = [each.encode_name for each in fields(view) if UnsetType not in get_args(kinds[each.name])]
            assert schema["required"] == required, route
        compared += 1
    assert compared >= 25


def test_a_record_fills_in_the_texts_of_its_instants() -> None:
    assert to_builtins(_View(at_ms=0, until_ms=None)) == {
        "at": "1970-01-01T00:00:00.000Z",
        "at_ms": 0,
        "until": None,
        "until_ms": None,
    }


def test_a_schema_that_is_referred_to_and_missing_is_named() -> None:
    with pytest.raises(ValueError, match="QueueCredentials refers to a schema AccountId, which the contract has not"):
        schemas.written("components:\n  schemas:\n    QueueCredentials:\n      type: object\n")


class _View(View):
    at: Instant = TWIN
    at_ms: InstantMs
    until: Instant | None = TWIN
    until_ms: InstantMs | None
