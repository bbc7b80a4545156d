"""A request cut into parts."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emulator.core.errors import InvalidInput
from emulator.wire.parts import read_parts, read_query


def test_path_and_query_are_kept_byte_for_byte() -> None:
    parts = read_parts(
        method="POST",
        raw_path=b"/v2/publish/https://example.com//a/../b%2F",
        query_string=b"a=%41&&b",
        raw_headers=[],
        body=b"\x00\xff",
        client_ip="10.0.0.1",
    )
    assert parts.path == "/v2/publish/https://example.com//a/../b%2F"
    assert parts.raw_query == "a=%41&&b"
    assert parts.query == (("a", "A"), ("b", ""))
    assert (parts.method, parts.body, parts.client_ip) == ("POST", b"\x00\xff", "10.0.0.1")


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        pytest.param(b"", (), id="empty"),
        pytest.param(b"a=1&a=2", (("a", "1"), ("a", "2")), id="repeated"),
        pytest.param(b"a=1=2", (("a", "1=2"),), id="equals-in-value"),
        pytest.param(b"a+b=c+d%2Be", (("a b", "c d+e"),), id="plus-is-a-space"),
        pytest.param(b"svc%2Ddelay=5s", (("svc-delay", "5s"),), id="encoded-name"),
        pytest.param(b"a=%C3%A9", (("a", "é"),), id="utf-8"),
        pytest.param(b"a=%FF&b=\xff", (("a", "\ufffd"), ("b", "\ufffd")), id="not-utf-8"),
        pytest.param(b"a=%zz", (("a", "%zz"),), id="no-escape"),
    ],
)
def test_query_is_decoded_like_a_form(query: bytes, expected: Sequence[tuple[str, str]]) -> None:
    assert read_query(query) == expected


def test_header_names_are_lower_case_and_values_utf8() -> None:
    parts = read_parts(
        method="POST",
        raw_path=b"/",
        query_string=b"",
        raw_headers=[(b"X-A", "é".encode()), (b"x-a", b"2")],
        body=b"",
        client_ip="",
    )
    assert parts.headers == (("x-a", "é"), ("x-a", "2"))
    assert parts.header("x-a") == "é"
    assert parts.header("x-b") is None


def test_header_that_is_not_utf8_is_named() -> None:
    with pytest.raises(InvalidInput) as caught:
        read_parts(
            method="POST", raw_path=b"/", query_string=b"", raw_headers=[(b"x-odd", b"\xff")], body=b"", client_ip=""
        )
    assert caught.value.field == "X-Odd"


@settings(deadline=None)
@given(st.binary())
def test_every_query_gives_pairs(query: bytes) -> None:
    for name, value in read_query(query):
        assert f"{name}={value}".encode()
