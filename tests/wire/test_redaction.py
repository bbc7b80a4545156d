"""Which fields a client asks to redact, and what the API shows instead of them (D-087)."""

from __future__ import annotations

import pytest

from emulator.core.errors import Malformed
from emulator.core.model.options import Redaction
from emulator.wire.redaction import parse_redaction, redact_headers, redacted_text

NOTHING = Redaction(body=False, all_headers=False, header_names=())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("body", (True, False, ()), id="body"),
        pytest.param("headers", (False, True, ()), id="headers"),
        pytest.param("header", (False, True, ()), id="header-means-all"),
        pytest.param("header[Authorization]", (False, False, ("authorization",)), id="one-header-in-lower-case"),
        pytest.param("header[ X-Key ]", (False, False, ("x-key",)), id="blanks-in-brackets"),
        pytest.param("body,header[Authorization]", (True, False, ("authorization",)), id="list"),
        pytest.param(" body , header[B] ,header[A]", (True, False, ("b", "a")), id="blanks-and-order"),
        pytest.param("header[A],header[a],body,body", (True, False, ("a",)), id="repetitions"),
        pytest.param("headers,header[A]", (False, True, ("a",)), id="all-and-one"),
    ],
)
def test_redaction_lists_body_and_headers(text: str, expected: tuple[bool, bool, tuple[str, ...]]) -> None:
    body, all_headers, names = expected
    assert parse_redaction(text) == Redaction(body=body, all_headers=all_headers, header_names=names)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        pytest.param("", "''", id="empty"),
        pytest.param("url", "'url'", id="unknown-item"),
        pytest.param("Body", "'Body'", id="items-are-case-sensitive"),
        pytest.param("body,,header", "''", id="empty-item"),
        pytest.param("header[]", r"'header\[\]'", id="empty-brackets"),
        pytest.param("header[A", r"'header\[A'", id="unclosed"),
        pytest.param("header[A,B]", r"'header\[A'", id="two-names-in-brackets"),
        pytest.param("header[Ä]", r"'header\[Ä\]'", id="not-a-header-name"),
    ],
)
def test_anything_else_is_malformed(text: str, shown: str) -> None:
    with pytest.raises(Malformed, match=r"expected a list of body, headers, header\[<name>\], got " + shown):
        parse_redaction(text)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param(b"", "REDACTED:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", id="empty"),
        pytest.param(b"abc", "REDACTED:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad", id="abc"),
    ],
)
def test_redacted_text_is_the_hash_in_lowercase_hexadecimal(value: bytes, expected: str) -> None:
    assert redacted_text(value) == expected


HEADERS = (("Authorization", "abc"), ("Content-Type", "text/plain"), ("authorization", ""))
ABC = "REDACTED:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
EMPTY = "REDACTED:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
TEXT_PLAIN = "REDACTED:dc23933049d8b06808e15916d9cc735bd5c82fc87e5f3a970442f6fc04f5a275"


@pytest.mark.parametrize(
    ("redaction", "expected"),
    [
        pytest.param(NOTHING, HEADERS, id="nothing"),
        pytest.param(Redaction(body=True, all_headers=False, header_names=()), HEADERS, id="body-only"),
        pytest.param(
            Redaction(body=False, all_headers=False, header_names=("authorization",)),
            (("Authorization", ABC), ("Content-Type", "text/plain"), ("authorization", EMPTY)),
            id="one-name-in-any-case",
        ),
        pytest.param(
            Redaction(body=False, all_headers=True, header_names=()),
            (("Authorization", ABC), ("Content-Type", TEXT_PLAIN), ("authorization", EMPTY)),
            id="all",
        ),
    ],
)
def test_redacted_headers_keep_names_and_order(redaction: Redaction, expected: tuple[tuple[str, str], ...]) -> None:
    assert redact_headers(HEADERS, redaction) == expected


@pytest.mark.parametrize(
    "value", [pytest.param("ü€", id="beyond-ascii"), pytest.param("\ud800", id="half-a-surrogate-pair")]
)
def test_every_text_has_a_hash(value: str) -> None:
    redaction = Redaction(body=False, all_headers=True, header_names=())
    ((_, shown),) = redact_headers((("X-Note", value),), redaction)
    assert len(shown) == 73
