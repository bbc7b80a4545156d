"""Bodies of which a list shows the beginning."""

from __future__ import annotations

import pytest

from emulator.wire.messaging.views import trimmed, trimmed_text


@pytest.mark.parametrize(
    ("text", "trim", "expected"),
    [
        pytest.param("abc", None, "abc", id="all-of-it"),
        pytest.param("abc", 0, "", id="nothing"),
        pytest.param("abc", 1, "a", id="the-first"),
        pytest.param("abc", 3, "abc", id="just-all"),
        pytest.param("abc", -1, None, id="left-out"),
    ],
)
def test_a_body_is_trimmed_to_so_many_bytes(text: str, trim: int | None, expected: str | None) -> None:
    """D-387."""
    assert trimmed_text(text, trim) == expected
    assert trimmed(text.encode(), trim) == (None if expected is None else expected.encode())


def test_a_text_is_not_cut_within_a_character() -> None:
    """D-387."""
    assert [trimmed_text("aé", trim) for trim in (1, 2, 3)] == ["a", "a", "aé"]


def test_a_text_that_utf_8_cannot_say_is_trimmed_all_the_same() -> None:
    assert trimmed_text("a\ud800b", 2) == "a?"
