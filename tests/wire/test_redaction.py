"""Which fields a client asks to redact, and what the API shows instead of them (D-087)."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from msgspec.structs import replace

import emulator
from emulator.core.errors import Malformed
from emulator.core.language.text import value_of
from emulator.core.model.messages import Response
from emulator.core.model.options import CallType, Method, Redaction, RunPart
from emulator.core.record import AccountId, MessageId, RunId
from emulator.wire.redaction import (
    Surface,
    Visibility,
    parse_redaction,
    redacted_fields,
    redacted_text,
    url_of_span,
    visibility_of,
    visibility_of_fields,
)
from tests.harness.simulations import make_message

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
    assert Visibility(redaction, Surface.SERVICE).headers(HEADERS) == expected


@pytest.mark.parametrize(
    "value", [pytest.param("ü€", id="beyond-ascii"), pytest.param("\ud800", id="half-a-surrogate-pair")]
)
def test_every_text_has_a_hash(value: str) -> None:
    redaction = Redaction(body=False, all_headers=True, header_names=())
    ((_, shown),) = Visibility(redaction, Surface.SERVICE).headers((("X-Note", value),))
    assert len(shown) == 73


# -- surfaces (D-775, D-776) ------------------------------------------------------------------------

BODY = Redaction(body=True, all_headers=False, header_names=())
ONE = Redaction(body=False, all_headers=False, header_names=("authorization",))
ANSWER = Response(status=500, headers=(("Authorization", "abc"), ("Content-Type", "text/plain; a=b")), body=b"abc")


@pytest.mark.parametrize(
    ("redaction", "surface", "body", "authorization"),
    [
        pytest.param(None, Surface.SERVICE, b"abc", "abc", id="nothing"),
        pytest.param(None, Surface.OWN, b"abc", "abc", id="nothing-on-own"),
        pytest.param(BODY, Surface.SERVICE, ABC.encode(), "abc", id="body"),
        pytest.param(ONE, Surface.SERVICE, b"abc", ABC, id="header"),
        pytest.param(BODY, Surface.OWN, ABC.encode(), "abc", id="body-on-own"),
        # It may repeat the header.
        pytest.param(ONE, Surface.OWN, ABC.encode(), ABC, id="header-on-own"),
        pytest.param(BODY, Surface.EXACT, b"abc", "abc", id="exact"),
        pytest.param(None, Surface.LOG, b"3 bytes of text/plain", None, id="log"),
        pytest.param(ONE, Surface.LOG, b"redacted", None, id="log-redacted"),
    ],
)
def test_what_a_surface_shows_of_an_answer(
    redaction: Redaction | None, surface: Surface, body: bytes, authorization: str | None
) -> None:
    shown = Visibility(redaction, surface).response(ANSWER)
    assert (shown.status, shown.body) == (500, body)
    assert value_of(shown.headers, "authorization") == authorization


@pytest.mark.parametrize(
    ("surface", "in_a_run", "expected"),
    [
        pytest.param(Surface.SERVICE, False, b"abc", id="service"),
        pytest.param(Surface.SERVICE, True, ABC.encode(), id="service-run"),
        pytest.param(Surface.OWN, False, ABC.encode(), id="own"),
    ],
)
def test_the_service_hides_answers_to_messages_of_runs_alone(surface: Surface, in_a_run: bool, expected: bytes) -> None:
    """D-513, D-776."""
    message = make_message(
        message_id=MessageId("msg_1"),
        number=1,
        account_id=AccountId("a"),
        created_ms=0,
        not_before_ms=0,
        url="https://app.test/",
        method=Method.POST,
        headers=(),
        body=b"",
        max_retries=0,
        retry_delay=None,
        timeout_ms=1,
        callback=None,
        failure_callback=None,
        caller_ip="",
        redaction=BODY,
    )
    if in_a_run:
        part = RunPart(
            run_id=RunId("wfr_one"), run_number=1, run_created_ms=0, url="https://app.test/", call_type=CallType.STEP
        )
        message = replace(message, run=part)
    assert visibility_of(message, surface).response(ANSWER).body == expected


@pytest.mark.parametrize(
    "fields", [("body",), ("headers",), ("body", "header[x-card]", "header[x-key]")], ids=["body", "headers", "names"]
)
def test_fields_are_listed_as_they_are_read(fields: tuple[str, ...]) -> None:
    assert redacted_fields(parse_redaction(", ".join(fields))) == fields
    assert visibility_of_fields(fields, Surface.OWN).redaction == parse_redaction(",".join(fields))
    assert visibility_of_fields((), Surface.OWN).redaction is None


def test_what_an_endpoint_reports_of_headers_is_hidden_with_the_body_and_by_name() -> None:
    assert Visibility(BODY, Surface.SERVICE).reported_value("X-Any", "abc") == ABC
    assert Visibility(ONE, Surface.SERVICE).reported_value("Authorization", "abc") == ABC
    assert Visibility(ONE, Surface.SERVICE).reported_value("X-Any", "abc") == "abc"


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://app.test/a?b=c&d", "https://app.test/a?b=REDACTED&REDACTED"),
        ("https://app.test/a?", "https://app.test/a?"),
        ("https://user:pass@app.test/a", "https://app.test/a"),
    ],
    ids=["query", "empty", "user"],
)
def test_urls_of_spans_have_names_without_values(url: str, expected: str) -> None:
    """D-777."""
    assert url_of_span(url) == expected


# -- one place decides ------------------------------------------------------------------------------

EMULATOR = Path(emulator.__file__).parent
PLACE = Path("wire/redaction.py")
# What reads which fields are hidden, and shows nothing: the record itself, and rules by which one message hides what
# another does.
READERS = {PLACE, Path("core/model/options.py"), Path("core/rules/callbacks.py"), Path("core/rules/runs.py")}
FIELDS = {"all_headers", "header_names"}


def test_redaction_is_decided_in_one_place() -> None:
    """D-775: no other module makes the marker or asks which fields are hidden; the page only recognises it."""
    deciding = {}
    for file in sorted(EMULATOR.rglob("*.py")):
        tree = ast.parse(file.read_text("utf-8"))
        texts = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        found = [
            ast.unparse(node)
            for node in ast.walk(tree)
            if (isinstance(node, ast.Attribute) and _asks(node))
            or (isinstance(node, ast.Constant) and id(node) not in texts and "REDACTED:" in str(node.value))
        ]
        if found:
            deciding[file.relative_to(EMULATOR)] = found
    assert deciding.keys() - READERS == set(), deciding
    assert PLACE in deciding
    pages = [file.name for file in EMULATOR.glob("inspector/**/*.js") if "REDACTED:" in file.read_text("utf-8")]
    assert pages == ["assertions.js"]


def _asks(node: ast.Attribute) -> bool:
    of_redaction = ast.unparse(node.value).rpartition(".")[2] in ("redaction", "_redaction")
    return node.attr in FIELDS or (node.attr == "body" and of_redaction)
