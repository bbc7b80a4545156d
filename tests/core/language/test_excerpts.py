"""How an error sentence shows a client its own text."""

from __future__ import annotations

import pytest

from emulator.core.language.excerpts import excerpt


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("", "''", id="empty"),
        pytest.param("5x", "'5x'", id="short"),
        pytest.param("x" * 40, "'" + "x" * 40 + "'", id="40-characters"),
        pytest.param("x" * 41, "'" + "x" * 40 + "'...", id="41-characters"),
        pytest.param("a\r\n\x1b", "'a\\r\\n\\x1b'", id="control-characters"),
    ],
)
def test_text_is_quoted_and_shortened(text: str, expected: str) -> None:
    assert excerpt(text) == expected
