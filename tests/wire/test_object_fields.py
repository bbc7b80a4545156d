"""Reading the fields of an object: what is there, what is missing, and how a refusal names it."""

from __future__ import annotations

import pytest

from emulator.core.errors import InvalidInput
from emulator.core.model.names import QueueName
from emulator.wire.json_fields import Json
from emulator.wire.names import parse_name
from emulator.wire.object_fields import Fields, boolean, encoded_text, integer, parsed


def test_a_field_is_read_with_its_path() -> None:
    given = Fields({"a": 1}, "items[2]", ("a", "b"))
    assert given.need("a", lambda value, path: (value, path)) == (1, "items[2].a")
    assert given.get("b", integer(0), 7) == 7
    assert "a" in given
    assert "b" not in given


@pytest.mark.parametrize(
    ("value", "field"),
    [
        ([], "at"),
        ({"c": 1}, "at.c"),
        ({}, "at.a"),
        ({"a": True}, "at.a"),
        ({"a": 10}, "at.a"),
    ],
)
def test_a_refusal_names_the_field(value: Json, field: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        Fields(value, "at", ("a", "b")).need("a", integer(0, 9))
    assert caught.value.field == field


def test_texts_that_follow_a_grammar() -> None:
    name = parsed(parse_name, QueueName)
    assert name("a-b", "") == QueueName("a-b")
    for value in ("a b", "", 1, None):
        with pytest.raises(InvalidInput):
            name(value, "name")


def test_flags_and_bytes() -> None:
    assert boolean(False, "") is False
    assert encoded_text("é", "") == b"\xc3\xa9"
    for read, value in ((boolean, "true"), (boolean, 1), (encoded_text, 1), (encoded_text, "\ud800")):
        with pytest.raises(InvalidInput):
            read(value, "x")
