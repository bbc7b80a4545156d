"""Header names the way the service writes them."""

from __future__ import annotations

import pytest

from emulator.core.language.headers import by_canonical_name, canonical_name, value_of, without

HEADERS = (("x-tag", "a"), ("Content-TYPE", "text/plain"), ("X-TAG", "b"))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        pytest.param("content-type", "Content-Type", id="lower"),
        pytest.param("CONTENT-TYPE", "Content-Type", id="upper"),
        pytest.param("x-amz-meta-ID", "X-Amz-Meta-Id", id="every-part"),
        pytest.param("etag", "Etag", id="one-part"),
        pytest.param("x--y", "X--Y", id="empty-part"),
        pytest.param("x_a", "X_a", id="underscore-parts-nothing"),
        pytest.param("not a token", "not a token", id="no-token-stays"),
        pytest.param("", "", id="empty"),
    ],
)
def test_canonical_names(name: str, expected: str) -> None:
    """Decision D-040."""
    assert canonical_name(name) == expected


def test_values_of_one_name_stand_together_in_order() -> None:
    assert by_canonical_name(HEADERS) == {"X-Tag": ["a", "b"], "Content-Type": ["text/plain"]}


def test_a_value_is_found_whatever_the_case() -> None:
    assert value_of(HEADERS, "X-Tag") == "a"
    assert value_of(HEADERS, "content-type") == "text/plain"
    assert value_of(HEADERS, "accept") is None


def test_headers_are_left_out_by_lower_case_name() -> None:
    assert without(HEADERS, frozenset(("x-tag",))) == (("Content-TYPE", "text/plain"),)
