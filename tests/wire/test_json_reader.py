"""JSON as it is read, and errors as they are written."""

from __future__ import annotations

import time

import msgspec
import pytest

from emulator.core import errors
from emulator.core.errors import InvalidInput, NotFound, PayloadTooLarge, QuotaExceeded, Refused
from emulator.core.record import QueueName
from emulator.wire import dialect, json_reader
from emulator.wire.error_body import error_json, extra_headers, status_of
from emulator.wire.json_reader import Fields, Json, Read, boolean, decoded, encoded_text, integer, parsed, read_json
from emulator.wire.names import parse_name
from tests.wire.request_parts import refused

# -- the reader of JSON: of bodies with a declared shape, and of objects field by field ------------


class Inner(msgspec.Struct):
    name: str
    count: int | None = None
    ratio: float = 1.0


class Outer(msgspec.Struct, forbid_unknown_fields=True):
    inner: Inner | None = None
    names: list[str] | str | None = None
    headers: dict[str, str | list[str]] = {}
    flag: bool = False
    timeout: str | int = 0
    anything: dict[str, msgspec.Raw] = {}


DECODER = msgspec.json.Decoder(list[Outer])


def test_body_of_the_declared_shape_is_read() -> None:
    body = b' [{"inner":{"name":"a","more":1},"names":["b"],"headers":{"x":"1","y":["2"]},"anything":{"z":{}}}] '
    [read] = decoded(DECODER, body)
    assert read.inner == Inner("a")
    assert (read.names, read.headers) == (["b"], {"x": "1", "y": ["2"]})
    assert read_json(body) == [
        {
            "inner": {"name": "a", "more": 1},
            "names": ["b"],
            "headers": {"x": "1", "y": ["2"]},
            "anything": {"z": {}},
        }
    ]


@pytest.mark.parametrize(
    ("body", "refusal"),
    [
        ('{"a":1}', "body: expected a list, got an object"),
        ("[1]", "[0]: expected an object, got a number"),
        ("[{},null]", "[1]: expected an object, got null"),
        ('[{"other":1}]', "[0].other: unknown name"),
        ('[{"inner":{}}]', "[0].inner.name: is missing"),
        ('[{"inner":{"name":{}}}]', "[0].inner.name: expected a string, got an object"),
        ('[{"inner":{"name":null}}]', "[0].inner.name: expected a string, got null"),
        ('[{"inner":{"name":"a","count":1.0}}]', "[0].inner.count: expected an integer, got a number"),
        ('[{"inner":{"name":"a","count":true}}]', "[0].inner.count: expected an integer, got a boolean"),
        ('[{"inner":{"name":"a","ratio":[]}}]', "[0].inner.ratio: expected a number, got a list"),
        ('[{"names":5}]', "[0].names: expected a list or a string, got a number"),
        ('[{"names":["a",5]}]', "[0].names[1]: expected a string, got a number"),
        ('[{"headers":{"a":"1","b":{}}}]', "[0].headers.b: expected a string or a list, got an object"),
        ('[{"headers":{"a":["1",null]}}]', "[0].headers.a[1]: expected a string, got null"),
        ('[{"headers":{"a\\n":5}}]', "[0].headers.'a\\n': expected a string or a list, got a number"),
        ('[{"flag":"true"}]', "[0].flag: expected true or false, got a string"),
        ('[{"timeout":1.5}]', "[0].timeout: expected a string or an integer, got a number"),
        ('[{"anything":[]}]', "[0].anything: expected an object, got a list"),
        ('[{"anything":{"a":1e999}},5]', "[0].anything.a: the number is out of range"),
        ('[{"names":"\\ud800"}]', "[0].names: holds half a surrogate pair, expected Unicode text"),
    ],
)
def test_wrong_value_is_named_by_its_path_in_words_of_json(body: str, refusal: str) -> None:
    """D-620."""
    with pytest.raises(InvalidInput) as refused:
        decoded(DECODER, body.encode())
    assert f"{refused.value.field}: {refused.value.reason}" == refusal


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "expected JSON, got an empty body"),
        (b" \n", "expected JSON, got an empty body"),
        (b"[" * 100_000, "expected JSON: too many nested values"),
        (b'"\xff"', "expected JSON in UTF-8: invalid start byte, byte 0xff"),
        (b"[1,", "expected JSON: Input data was truncated (byte 3)"),
        (b"1" * 5000, "expected JSON: a number is out of range"),
    ],
)
def test_what_is_no_json_is_refused_as_a_whole(body: bytes, reason: str) -> None:
    for read in (read_json, lambda text: decoded(DECODER, text)):
        with pytest.raises(InvalidInput) as refused:
            read(body)
        assert (refused.value.field, refused.value.reason) == ("body", reason)


# -- field by field ----------------------------------------------------------------------------


def test_a_field_is_read_with_its_path() -> None:
    given = Fields({"a": 1}, "items[2]", ("a", "b"))
    assert given.need("a", lambda value, path: (value, path)) == (1, "items[2].a")
    assert given.get("b", integer(0), 7) == 7
    assert "a" in given
    assert "b" not in given


@pytest.mark.parametrize(
    ("value", "field"), [([], "at"), ({"c": 1}, "at.c"), ({}, "at.a"), ({"a": True}, "at.a"), ({"a": 10}, "at.a")]
)
def test_a_refusal_names_the_field(value: Json, field: str) -> None:
    with refused(field):
        Fields(value, "at", ("a", "b")).need("a", integer(0, 9))


def test_texts_that_follow_a_grammar_flags_and_bytes() -> None:
    name = parsed(parse_name, QueueName)
    assert name("a-b", "") == QueueName("a-b")
    assert boolean(False, "") is False
    assert encoded_text("é", "") == b"\xc3\xa9"
    wrong: dict[Read[object], tuple[Json, ...]] = {
        name: ("a b", "", 1, None),
        boolean: ("true", 1),
        encoded_text: (1, "\ud800"),
    }
    for read, values in wrong.items():
        for value in values:
            with refused("x"):
                read(value, "x")


# -- refusals over HTTP (D-080) --------------------------------------------------------------------


_DAILY = QuotaExceeded("quota exceeded", limit=10, remaining=0, reset_s=86_400, daily=True)
_BURST = QuotaExceeded("too fast", limit=100, remaining=1, reset_s=5, daily=False)

_STATUSES: list[tuple[Refused, int]] = [
    (InvalidInput("Svc-Delay", "expected a duration"), 400),
    (errors.Unauthenticated("unable to authenticate: invalid token"), 401),
    (errors.Forbidden("read-only"), 403),
    (errors.RunOver("workflow run wfr_1 has ended"), 400),
    (errors.InvalidRunMessage("Svc-Delay", "expected a duration"), 412),
    (NotFound("message", "msg_1"), 404),
    (errors.NotInstalled("metrics need a library"), 404),
    (errors.NotAcceptable("xml only"), 406),
    (errors.Conflict("busy"), 409),
    (errors.LimitReached("quota maxQueues exceeded"), 412),
    (errors.OverLimit("Svc-Retries", "quota maxRetries exceeded"), 412),
    (errors.PayloadTooLarge("too large"), 413),
    (_DAILY, 429),
    (errors.NoRoom("the bodies exceed 1 byte"), 503),
    (errors.InsufficientStorage("no room"), 507),
]


@pytest.mark.parametrize(("refused", "status"), _STATUSES)
def test_status_of_every_refusal(refused: Refused, status: int) -> None:
    assert status_of(refused) == status


def test_no_kind_of_refusal_is_forgotten() -> None:
    assert {type(refused) for refused, _ in _STATUSES} == {*Refused.__subclasses__(), *InvalidInput.__subclasses__()}


def test_invalid_input_names_the_field_in_the_dialect() -> None:
    """D-001: also a field whose name a client left empty; found by fuzzing."""
    nameless = error_json(InvalidInput("", "expected the name of a header"), dialect.SVC)
    assert nameless == {"error": "'': expected the name of a header", "field": "''"}
    refused = InvalidInput("Svc-Callback-Delay", "a callback cannot be delayed")
    assert error_json(refused, dialect.SVC) == {
        "error": "Svc-Callback-Delay: a callback cannot be delayed",
        "field": "Svc-Callback-Delay",
    }
    assert error_json(refused, dialect.load("upstash")) == {
        "error": "Upstash-Callback-Delay: a callback cannot be delayed",
        "field": "Upstash-Callback-Delay",
    }


def test_other_refusals_have_no_field() -> None:
    """D-001."""
    assert error_json(NotFound("message", "msg_1"), dialect.SVC) == {"error": "message msg_1 not found"}


def test_quota_headers() -> None:
    assert extra_headers(_DAILY) == (
        ("RateLimit-Limit", "10"),
        ("RateLimit-Remaining", "0"),
        ("RateLimit-Reset", "86400"),
    )
    assert extra_headers(_BURST) == (
        ("Burst-RateLimit-Limit", "100"),
        ("Burst-RateLimit-Remaining", "1"),
        ("Burst-RateLimit-Reset", "5"),
    )
    assert extra_headers(NotFound("message", "x")) == ()


# -- JSON that is too large ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"[" + b"[]," * 600_000 + b"[]]", id="lists"),
        pytest.param(b"[" + b"{}," * 600_000 + b"{}!", id="objects that are no JSON"),
        pytest.param(b"[" + b'"",' * 1_000_001 + b'"\\ud800"]', id="texts with half a pair"),
        pytest.param(b'"' * 2_000_002 + b"[" * 1_000_000, id="texts alone"),
        pytest.param(b'[{"a":"\\"","b":[' + b"1," * 1_000_000 + b"1]}]", id="an escaped quote"),
    ],
)
def test_json_of_too_many_values_is_refused_before_it_is_read(body: bytes) -> None:
    """D-811."""
    for read in (read_json, lambda body: decoded(DECODER, body)):
        with pytest.raises(PayloadTooLarge) as refusal:
            read(body)
        assert refusal.value.text == "body: expected JSON of at most 1000000 values"


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b'["' + b",[{" * 2_000_000 + b'"]', id="within a text"),
        pytest.param(b'["' + b'\\",' * 2_000_000 + b'"]', id="behind escaped quotes"),
        pytest.param(b"[" + b"1," * 900_000 + b"1]", id="just as many"),
    ],
)
def test_what_stands_in_texts_is_no_value(body: bytes) -> None:
    """D-811."""
    assert read_json(body)


def test_json_of_too_many_bytes_is_refused() -> None:
    """D-811."""
    body = b'["' + b"x" * json_reader.MAX_BYTES + b'"]'
    with pytest.raises(PayloadTooLarge, match=r"body: expected at most 8388608 bytes of JSON, got 8388612"):
        read_json(body)


def test_quotes_that_nothing_ends_take_no_longer_than_others() -> None:
    """D-811: by processor time, so that other programs do not count."""
    body = b'["' + b'\\",' * 2_000_000
    started_s = time.process_time()
    with pytest.raises(InvalidInput, match="expected JSON"):
        read_json(body)
    assert time.process_time() - started_s < 2


def test_a_wrong_value_of_a_large_body_is_named_by_its_kind_alone() -> None:
    """D-811: to name its path, the body would have to be read again."""
    body = b"[" + b'{"flag":true},' * 100_000 + b'{"flag":"no"}]'
    with pytest.raises(InvalidInput, match=r"flag: expected true or false, got a string"):
        decoded(DECODER, body)
    with pytest.raises(InvalidInput, match="expected JSON: "):
        read_json(b"[" + b'"",' * 100_000 + b'"\\ud800"]')
