"""What differs between two values, in lines that a person can read."""

from __future__ import annotations

from typing import Any
from unittest.mock import ANY

import pytest

from emulator.client.verify.differences import bytes_difference, json_differences, text_difference


@pytest.mark.parametrize(
    ("expected", "got", "lines"),
    [
        pytest.param({"a": [1, None, "x"]}, {"a": [1.0, None, "x"]}, [], id="equal"),
        pytest.param({"b": 1, "a": 2}, {"a": 2, "b": 1}, [], id="any order of keys"),
        pytest.param((1, 2), [1, 2], [], id="a tuple is a list"),
        pytest.param({"user": {"id": 7}}, {"user": {"id": 8}}, ["$.user.id: expected 7, got 8"], id="value"),
        pytest.param(1, True, ["$: expected 1, got true"], id="true is not 1"),
        pytest.param(False, 0, ["$: expected false, got 0"], id="0 is not false"),
        pytest.param(None, {}, ["$: expected null, got {}"], id="null"),
        pytest.param({}, [], ["$: expected {}, got []"], id="object and list"),
        pytest.param("1", 1, ['$: expected "1", got 1'], id="text and number"),
        pytest.param({"a": 1}, {}, ["$.a: missing, expected 1"], id="missing"),
        pytest.param({}, {"a": [1]}, ["$.a: unexpected, got [1]"], id="unexpected"),
        pytest.param(
            {"name": "Ann"},
            {"nmae": "Ann"},
            ['$.name: missing, expected "Ann"; there is "nmae"', '$.nmae: unexpected, got "Ann"'],
            id="misspelt",
        ),
        pytest.param(
            {"items": [1, 2, 3]},
            {"items": [1, 4]},
            [
                "$.items: expected a list of 3, got one of 2",
                "$.items[1]: expected 2, got 4",
                "$.items[2]: missing, expected 3",
            ],
            id="shorter list",
        ),
        pytest.param(
            [{}],
            [{"a b": 1}, 2],
            [
                "$: expected a list of 1, got one of 2",
                '$[0]["a b"]: unexpected, got 1',
                "$[1]: unexpected, got 2",
            ],
            id="longer list, a key that is no word",
        ),
        pytest.param({"id": ANY, "n": ANY}, {"id": "x", "n": {}}, [], id="anything"),
        pytest.param({"n": pytest.approx(0.3)}, {"n": 0.1 + 0.2}, [], id="approximately"),
        pytest.param({"n": {1, 2}}, {"n": [1, 2]}, ["$.n: expected {1, 2}, got [1, 2]"], id="what is no JSON"),
        pytest.param("x" * 80, 1, [f'$: expected "{"x" * 56}..., got 1'], id="a long value is cut"),
        pytest.param("\ud800", "\x07", ['$: expected "\\ud800", got "\\u0007"'], id="what cannot be printed"),
        pytest.param("é", "ë", ['$: expected "é", got "ë"'], id="what can be printed"),
    ],
)
def test_json_differs_by_path(expected: Any, got: Any, lines: list[str]) -> None:
    assert list(json_differences(expected, got)) == lines


def test_of_long_texts_the_part_is_shown_where_they_begin_to_differ() -> None:
    begin = "The quick brown fox jumps over the lazy dog and then over "

    assert text_difference(begin + "the fence.", begin + "the hedge, out of sight, and was not seen again.") == (
        'expected ..." then over the fence.", '
        'got ..." then over the hedge, out of sight, and was not seen again.": '
        "they differ from character 62 on (68 and 106 characters long)"
    )
    assert text_difference("a" + begin + "the wall", "b" + begin + "the wall") == (
        'expected "aThe quick brown fox jumps over the lazy dog "..., '
        'got "bThe quick brown fox jumps over the lazy dog "...: they differ from character 0 on'
    )


def test_bodies_are_compared_as_text_if_they_are_text_and_as_bytes_if_not() -> None:
    assert bytes_difference(b"yes", b"no") == 'expected "yes", got "no"'
    assert bytes_difference(b"\xff\x00\x01", b"\xff\x00\x02\x03") == (
        "expected 3 bytes, got 4, which differ from byte 2 on: expected b'\\x01', got b'\\x02\\x03'"
    )
