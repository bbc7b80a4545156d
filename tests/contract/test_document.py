"""The contract as data: following references, and rebuilding what stands in a document."""

from __future__ import annotations

from emulator.contract.document import objects, rebuilt, resolved
from emulator.wire.json_fields import Json
from tests.contract.openapi import document, schemas


def test_references_are_followed_and_a_circle_ends() -> None:
    found = document(
        components=schemas(A={"$ref": "#/components/schemas/B", "description": "mine"}, B={"type": "null"})
    )
    circle = document(components=schemas(A={"$ref": "#/components/schemas/A"}))

    assert resolved(found, {"$ref": "#/components/schemas/A"}) == {"type": "null", "description": "mine"}
    assert resolved(circle, {"$ref": "#/components/schemas/A"}) == {}
    assert resolved(found, {"$ref": "other.yaml#/x"}) == {}


def test_every_object_is_found_from_the_outside_in() -> None:
    value: Json = {"a": [{"b": {"c": 1}}, "text"], "d": None}

    assert list(objects(value)) == [value, {"b": {"c": 1}}, {"c": 1}]


def test_every_object_is_rebuilt_from_the_inside_out() -> None:
    value: Json = {"a": [{"b": {}}, "text"], "d": None}

    assert rebuilt(value, lambda found: {**found, "keys": sorted(found)}) == {
        "a": [{"b": {"keys": []}, "keys": ["b"]}, "text"],
        "d": None,
        "keys": ["a", "d"],
    }
