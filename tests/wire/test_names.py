"""Names that clients choose (D-076)."""

from __future__ import annotations

import pytest

from emulator.core.errors import InvalidInput
from emulator.wire import names


@pytest.mark.parametrize("text", ["a", "A-b_c.9", ".", "x" * 256])
def test_names_are_letters_digits_hyphens_underscores_and_periods(text: str) -> None:
    assert names.read_queue_name(text) == text
    assert names.read_group_name(text) == text


@pytest.mark.parametrize("text", ["", "a b", "a/b", "a:b", "é", "a\n", "x" * 257])
def test_other_names_are_refused_by_the_field(text: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        names.read_queue_name(text)
    assert caught.value.field == "queueName"
    with pytest.raises(InvalidInput) as caught:
        names.read_group_name(text)
    assert caught.value.field == "url_group_name"


@pytest.mark.parametrize(("raw", "key"), [("a", "a"), ("a%20b%2Fc", "a b/c"), ("%C3%A9", "é"), ("a+b", "a+b")])
def test_flow_key_is_decoded_from_the_path(raw: str, key: str) -> None:
    assert names.read_flow_key(raw) == key


@pytest.mark.parametrize("raw", ["", "%FF", "%00", "x" * 257])
def test_flow_key_that_cannot_be_is_refused(raw: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        names.read_flow_key(raw)
    assert caught.value.field == "flowControlKey"
