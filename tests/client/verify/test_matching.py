"""What a test expects: matching and expectations."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone
from http import HTTPStatus
from types import CodeType
from typing import Any
from unittest.mock import ANY

import pytest

from emulator.client.verify.differences import bytes_difference, json_differences, partial, text_difference
from emulator.client.verify.expectations import NOTHING, Expected, ExpectedTime, expectation
from tests.client.deliveries import CURRENT, NEXT, checked, delivery, findings, message_id, signature
from tests.client.mistakes import mistakes
from tests.harness.emulators import EPOCH_MS

# -- which messages are as expected, and in what the nearest of the others is not (D-250) ----------

HOOK = "https://app.test/hook"
RETRIED = [
    delivery(status=503),
    delivery(after_s=10, attempt=2, status=None),
    delivery(after_s=40, attempt=3, status=200),
]


@pytest.mark.parametrize(
    "expected",
    [
        {"url": HOOK},
        {"url": "https://*/hook"},
        {"message_id": message_id("a")},
        {"method": "post"},
        {"attempts": 3},
        {"at": ["0s", "10s", "40s"]},
        {"at": [0, "2026-01-01T00:00:10Z", "40s"]},
        {"status": 200},
        {"status": [503, None, 200]},
        {"outcome": "succeeded"},
        {"outcome": "delivered"},
        {"times": 1},
        {"url": "https://other.test/*", "times": 0},
        {"attempts": 2, "times": 0},
    ],
)
def test_a_message_that_is_as_expected_passes(expected: dict[str, Any]) -> None:
    assert checked(RETRIED, **expected) is None


@pytest.mark.parametrize(
    ("expected", "lines"),
    [
        ({"url": "https://app.test/h"}, ["expected https://app.test/h, got https://app.test/hook"]),
        ({"url": "https://app.test/?ook"}, ["expected https://app.test/?ook, got https://app.test/hook"]),
        ({"message_id": "msg_b"}, [f"expected msg_b, got {message_id('a')}"]),
        ({"method": "PUT"}, ["expected PUT, got POST"]),
        ({"attempts": 2}, ["expected 2, got 3"]),
        (
            {"at": ["0s", "12s"]},
            [
                "attempt 2: expected +12s (2026-01-01T00:00:12.000Z), began +10s (2026-01-01T00:00:10.000Z)",
                "attempt 3: unexpected, began +40s (2026-01-01T00:00:40.000Z)",
            ],
        ),
        (
            {"at": ["2026-01-01", "10s", "40s", "1d"]},
            ["attempt 4: expected +1d (2026-01-02T00:00:00.000Z), not made so far"],
        ),
        (
            {"at": ["2026-01-02", "10s", "40s"]},
            ["attempt 1: expected 2026-01-02T00:00:00.000Z (+1d), began +0s (2026-01-01T00:00:00.000Z)"],
        ),
        ({"status": 503}, ["expected 503, got 200 for attempt 3, the last so far"]),
        (
            {"status": [None, 200]},
            [
                "attempt 1: expected no response, got 503",
                "attempt 2: expected 200, got no response (connection refused)",
                "attempt 3: unexpected, got 200",
            ],
        ),
        ({"status": [503, None, 200, 204]}, ["attempt 4: expected 204, not made so far"]),
        ({"outcome": "failed"}, ["expected failed, but attempt 3 got 200"]),
    ],
)
def test_what_differs_is_said(expected: dict[str, Any], lines: list[str]) -> None:
    [(about, said)] = findings(RETRIED, **expected).items()

    assert about in expected
    assert list(said) == lines


def test_an_attempt_that_the_journal_no_longer_holds_is_not_counted() -> None:
    assert checked(RETRIED[1:], attempts=2) is None
    assert findings(RETRIED[1:], attempts=3) == {
        "attempts": ("expected 3, got 2 (the journal begins with attempt 2: it was cleared)",)
    }


def test_attempts_are_told_in_the_order_in_which_they_began() -> None:
    assert checked([RETRIED[2], RETRIED[0], RETRIED[1]], at=["0s", "10s", "40s"]) is None


# -- content ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "expected", "lines"),
    [
        (b"hello", {"body": b"hello"}, None),
        ("grüß".encode(), {"body": "grüß"}, None),
        (b"hello", {"body": "hallo"}, ['expected "hallo", got "hello"']),
        (b"", {"body": b"x"}, ['expected "x", got ""']),
        (b'{"a": 1, "b": [2]}', {"body_json": {"b": [2], "a": 1}}, None),
        (b"null", {"body_json": None}, None),
        (b"{}", {"body_json": None}, ["$: expected null, got {}"]),
        (b"", {"body_json": {}}, ["expected JSON, got an empty body"]),
        (b"no", {"body_json": {}}, ['expected JSON, got "no"']),
        (b"[" * 100_000, {"body_json": []}, [f'expected JSON, got "{"[" * 56}...']),
        (
            b"[" + b"1," * 20 + b"1]",
            {"body_json": []},
            [
                "$: expected a list of 0, got one of 21",
                *(f"$[{index}]: unexpected, got 1" for index in range(11)),
                "... 10 more",
            ],
        ),
    ],
)
def test_a_body_is_compared_exactly_and_json_by_value(
    body: bytes, expected: dict[str, Any], lines: list[str] | None
) -> None:
    deliveries = [delivery(body=body)]
    if lines is None:
        assert checked(deliveries, **expected) is None
    else:
        assert [list(said) for said in findings(deliveries, **expected).values()] == [lines]


@pytest.mark.parametrize(
    ("headers", "line"),
    [
        ({"x-tenant": "a"}, None),
        ({"X-TENANT": re.compile("^a$")}, None),
        ({"X-Several": "1"}, None),
        ({"X-Several": "1, 2"}, None),
        ({"X-Other": None}, None),
        ({"X-Tenant": "b"}, 'X-Tenant: expected "b", got "a"'),
        ({"X-Tenant": re.compile("b+")}, "X-Tenant: expected a value with 'b+' in it, got \"a\""),
        ({"X-Tenant": None}, 'X-Tenant: expected none, got "a"'),
        ({"X-Several": "3"}, 'X-Several: expected "3", got "1, 2"'),
        ({"X-Tenent": "a"}, 'X-Tenent: missing, expected "a"; did you mean X-Tenant?'),
        ({"Retry-After": re.compile("1")}, "Retry-After: missing, expected a value with '1' in it"),
    ],
)
def test_headers_are_exact_or_matched_or_absent(headers: dict[str, Any], line: str | None) -> None:
    deliveries = [delivery(headers=[("X-Tenant", "a"), ("X-Several", "1"), ("X-Several", "2")])]
    if line is None:
        assert checked(deliveries, headers=headers) is None
    else:
        assert findings(deliveries, headers=headers) == {"headers": (line,)}


def test_headers_are_those_of_the_last_attempt() -> None:
    deliveries = [delivery(headers={"A": "0"}), delivery(after_s=1, attempt=2, headers={"A": "1"})]

    assert checked(deliveries, headers={"A": "1"}) is None
    assert findings(deliveries, headers={"A": "0"}) == {"headers": ('A: expected "0", got "1"',)}


# -- signatures -------------------------------------------------------------------------------


def signed(*tokens: str, attempt: int = 1, body: bytes = b"") -> Any:
    return delivery(after_s=attempt, attempt=attempt, body=body, headers=[("Svc-Signature", token) for token in tokens])


def test_a_signature_fits_its_key_url_and_body_whose_hash_may_go_without_padding() -> None:
    assert checked([signed(signature(NEXT, body=b"x"), body=b"x")], signed_with="next") is None
    digest = "47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU="
    for spelling in (digest, digest.rstrip("=")):
        assert checked([signed(signature(CURRENT, hash=spelling))], signed_with="current") is None


WRONG_SIGNATURES: dict[str, tuple[list[str], str]] = {
    "none": ([], "there is no Svc-Signature"),
    "two": (["a.b.c"] * 2, "there are 2 headers Svc-Signature"),
    "no JWT": (["nonsense"], "the signature cannot be read: expected three parts"),
    "no objects": (["MQ.MQ.MQ"], "the signature cannot be read: expected JSON objects"),
    "algorithm": ([signature(CURRENT + CURRENT, algorithm="HS512")], 'alg: expected "HS256", got "HS512"'),
    "the other key": ([signature(NEXT)], "expected the current key, it is signed with the next one"),
    "a foreign key": (
        [signature("sig_some_other_key_of_thirty_two_chars")],
        "it is signed with neither key of this world's first account (were they rotated afterwards?)",
    ),
    "issuer": ([signature(CURRENT, iss="Upstash")], 'iss: expected "Svc", got "Upstash"'),
    "URL": (
        [signature(CURRENT, sub="https://app.test/")],
        'sub: expected "https://app.test/hook", got "https://app.test/"',
    ),
    "body": ([signature(CURRENT, body=b"x")], "body: the hash is that of another body"),
}


@pytest.mark.parametrize(("tokens", "line"), WRONG_SIGNATURES.values(), ids=WRONG_SIGNATURES)
def test_what_is_wrong_with_a_signature_is_named(tokens: list[str], line: str) -> None:
    assert findings([signed(*tokens)], signed_with="current") == {"signed_with": (line,)}


def test_every_attempt_has_to_be_signed() -> None:
    good, other = signature(CURRENT), signature(NEXT)
    wrong = "expected the current key, it is signed with the next one"

    assert checked([signed(good), signed(good, attempt=2)], signed_with="current") is None
    for second, which in ((good, "attempt 1"), (other, "all 2 attempts")):
        found = findings([signed(other), signed(second, attempt=2)], signed_with="current")
        assert found == {"signed_with": (f"{which}: {wrong}",)}


# -- several messages -------------------------------------------------------------------------


def test_one_message_has_to_meet_all_expectations() -> None:
    deliveries = [delivery("a", body=b"1", status=500), delivery("b", body=b"2", created_s=1)]

    assert checked(deliveries, body=b"2", status=200) is None
    assert checked(deliveries, body=b"1", status=200) is not None


@pytest.mark.parametrize(("times", "is_met"), [(0, False), (1, False), (2, True), (3, False)])
def test_times_counts_messages_not_attempts(times: int, is_met: bool) -> None:
    deliveries = [*RETRIED, delivery("b", created_s=50), delivery("c", url="https://other.test/")]

    assert (checked(deliveries, url=HOOK, times=times) is None) is is_met


@pytest.mark.parametrize(
    ("expected", "nearest"),
    [
        pytest.param({"message_id": message_id("a"), "url": "https://app.test/two"}, "a", id="the id before all"),
        pytest.param({"url": "https://app.test/two", "status": 201, "body": b"one"}, "b", id="the URL before content"),
        pytest.param({"url": "https://app.test/two/"}, "b", id="the URL most alike"),
        pytest.param({"status": 201, "body": b"one"}, "a", id="the fewest differences"),
        pytest.param({"status": 201}, "c", id="the latest of equals"),
    ],
)
def test_the_nearest_message_is_told(expected: dict[str, Any], nearest: str) -> None:
    mismatch = checked(
        [
            delivery("a", body=b"one", url="https://app.test/one"),
            delivery("b", body=b"two", url="https://app.test/two"),
            delivery("c", body=b"three", url="https://app.test/three"),
        ],
        **expected,
    )

    assert mismatch is not None
    assert mismatch.nearest is not None
    assert mismatch.nearest.message.last.message_id == message_id(nearest)


# -- what is expected, as a sentence, and what differs, in lines that a person can read ------------


def read(**expected: Any) -> Any:
    wanted: Expected = expected  # type: ignore[assignment]  # what the types forbid is tested too
    return expectation(**wanted)


@pytest.mark.parametrize(
    ("value", "times"),
    [
        pytest.param("10s", (ExpectedTime(10_000),), id="one duration"),
        pytest.param(
            ["0s", "1m30s", "1d"], (ExpectedTime(0), ExpectedTime(90_000), ExpectedTime(86_400_000)), id="durations"
        ),
        pytest.param(timedelta(seconds=1.5), (ExpectedTime(1500),), id="timedelta"),
        pytest.param("2026-01-01T00:00:10Z", (ExpectedTime(EPOCH_MS + 10_000, absolute=True),), id="time"),
        pytest.param("2026-01-02", (ExpectedTime(EPOCH_MS + 86_400_000, absolute=True),), id="date"),
        pytest.param(datetime(2026, 1, 1, tzinfo=UTC), (ExpectedTime(EPOCH_MS, absolute=True),), id="datetime"),
        pytest.param(
            datetime(2026, 1, 1, 1, tzinfo=timezone(timedelta(hours=1))),
            (ExpectedTime(EPOCH_MS, absolute=True),),
            id="datetime of another zone",
        ),
    ],
)
def test_at_takes_durations_since_the_message_was_made_and_instants(
    value: Any, times: tuple[ExpectedTime, ...]
) -> None:
    assert read(at=value).at == times


def test_a_status_is_that_of_the_last_attempt_and_a_list_has_one_of_each() -> None:
    assert read(status=200).status == 200
    assert read(status=[503, None]).status == (503, None)
    assert str(read(status=HTTPStatus.OK)) == "a message, answered 200"


def test_what_is_none_is_not_expected_but_for_json() -> None:
    nothing = dict.fromkeys(set(Expected.__annotations__) - {"body_json", "times"})

    assert read(**nothing, times=1).aspects == ()
    assert read(**nothing, times=1).body_json is NOTHING
    assert read(body_json=None).aspects == ("body_json",)


@pytest.mark.parametrize(
    ("expected", "sentence"),
    [
        ({"times": 0}, "no message"),
        (
            {"label": "red", "queue": "mail", "schedule_id": "s", "attempts": 0, "pending": True},
            "a message with the label red of the queue mail of the schedule s that was never tried, that waits",
        ),
        ({"url": "https://a.test/", "pending": False}, "a message to https://a.test/, that has ended"),
        ({"times": 1}, "exactly 1 message"),
        ({"times": 2, "url": "https://app.test/*"}, "exactly 2 messages to https://app.test/*"),
        (
            {"message_id": "msg_1", "url": "https://app.test/", "method": "put", "attempts": 1, "at": "0s"},
            "a message with the id msg_1 to https://app.test/ by PUT in 1 attempt at +0s",
        ),
        (
            {"at": ["0s", "2026-01-01"], "status": [None, 200], "outcome": "delivered"},
            "a message at +0s and 2026-01-01T00:00:00.000Z, answered nothing and 200, that succeeded",
        ),
        (
            {"status": 500, "outcome": "failed", "body": b"x", "headers": {"X-A": "1"}, "signed_with": "next"},
            "a message, answered 500, that failed, with the given body and headers, signed with the next key",
        ),
    ],
)
def test_an_expectation_is_the_object_of_a_sentence(expected: dict[str, Any], sentence: str) -> None:
    assert str(read(**expected)) == sentence


@mistakes(
    r"""
{'url': 7} -> TypeError: url: expected a text, got 7
{'url': ''} -> ValueError: url: expected a text, got an empty one
{'message_id': b'x'} -> TypeError: message_id: expected a text, got b'x'
{} -> TypeError: verify: expected something to hold the messages against, such as url=, message_id= or times=
{'url': None}
    -> TypeError: verify: expected something to hold the messages against, such as url=, message_id= or times=
{'attempts': -1} -> ValueError: attempts: expected an integer of at least 0, got -1
{'attempts': 0, 'status': 200}
    -> ValueError: status: expected none beside attempts=0, a message that was never tried has sent nothing
{'pending': 1} -> TypeError: pending: expected True or False, got 1
{'label': ''} -> ValueError: label: expected a text, got an empty one
{'queue': 7} -> TypeError: queue: expected a text, got 7
{'attempts': True} -> TypeError: attempts: expected an integer, got True
{'times': -1} -> ValueError: times: expected an integer of at least 0, got -1
{'status': 42} -> ValueError: status: expected an integer from 100 to 999, got 42
{'status': '200'} -> TypeError: status: expected an integer, got '200'
{'status': [200, 'x']} -> TypeError: status[1]: expected an integer, got 'x'
{'status': []} -> ValueError: status: expected the status of at least one attempt, got an empty list
{'at': []} -> ValueError: at: expected the start of at least one attempt, got an empty list
{'at': 1.5}
    -> TypeError: at: expected a duration such as "10s", or an instant, got 1.5 without a unit, did you mean
    timedelta(seconds=1.5)?
{'at': ['0s', '10x']}
    -> ValueError: at[1]: expected a duration such as 10s or 1d10h30m, each of the units ms, s, m, h, d, w at most
    once, got '10x'
{'at': '2026-13-01'}
    -> ValueError: at: expected an ISO 8601 time such as 2026-01-01T00:00:00Z, or integer milliseconds, got
    '2026-13-01'
{'at': timedelta(seconds=-1)} -> ValueError: at: expected 0 or more, got datetime.timedelta(days=-1, seconds=86399)
{'attempts': 2, 'at': ['0s']} -> ValueError: at: lists 1 attempt, but attempts=2
{'attempts': 1, 'status': [200, 200]} -> ValueError: status: lists 2 attempts, but attempts=1
{'at': ['0s'], 'status': [200, 200]} -> ValueError: status: lists 2 attempts, but at lists 1
{'outcome': 'ok'} -> ValueError: outcome: expected one of succeeded, delivered, failed, got 'ok'
{'signed_with': 'old'} -> ValueError: signed_with: expected one of current, next, got 'old'
{'body': {'a': 1}} -> TypeError: body: expected bytes or a text, got {'a': 1}; is body_json meant?
{'body': b'', 'body_json': 1} -> TypeError: body_json: expected body or body_json, got both
{'headers': 'X'} -> TypeError: headers: expected a mapping, got 'X'
{'headers': {1: 'x'}} -> TypeError: headers: expected a header's name, got 1
{'headers': {'A': 1}} -> TypeError: headers: A: expected a text, a compiled pattern or None, got 1
{'headers': {'A': re.compile(b'x')}}
    -> TypeError: headers: A: expected a text, a compiled pattern or None, got re.compile(b'x')
{'after': 'x'}
    -> TypeError: after: verify knows no such keyword; it knows url, message_id, method, label, queue, schedule_id,
    times, pending, attempts, at, status, outcome, body, body_json, headers, signed_with
{'attempt': 2} -> TypeError: attempt: verify knows no such keyword, did you mean attempts?
{'json': 1} -> TypeError: json: verify knows no such keyword, did you mean body_json?
"""
)
def test_a_keyword_that_cannot_be_meant_is_named(call: CodeType, kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=f"^{re.escape(text)}$"):
        read(**eval(call, {"re": re, "timedelta": timedelta}))


# -- what differs between two values, in lines that a person can read ------------------------------


JSON_DIFFERENCES: dict[str, tuple[Any, Any, list[str]]] = {
    "equal": ({"a": [1, None, "x"]}, {"a": [1.0, None, "x"]}, []),
    "any order of keys": ({"b": 1, "a": 2}, {"a": 2, "b": 1}, []),
    "a tuple is a list": ((1, 2), [1, 2], []),
    "value": ({"user": {"id": 7}}, {"user": {"id": 8}}, ["$.user.id: expected 7, got 8"]),
    "true is not 1": (1, True, ["$: expected 1, got true"]),
    "0 is not false": (False, 0, ["$: expected false, got 0"]),
    "null": (None, {}, ["$: expected null, got {}"]),
    "object and list": ({}, [], ["$: expected {}, got []"]),
    "text and number": ("1", 1, ['$: expected "1", got 1']),
    "missing": ({"a": 1}, {}, ["$.a: missing, expected 1"]),
    "unexpected": ({}, {"a": [1]}, ["$.a: unexpected, got [1]"]),
    "misspelt": (
        {"name": "Ann"},
        {"nmae": "Ann"},
        ['$.name: missing, expected "Ann"; there is "nmae"', '$.nmae: unexpected, got "Ann"'],
    ),
    "shorter list": (
        {"items": [1, 2, 3]},
        {"items": [1, 4]},
        [
            "$.items: expected a list of 3, got one of 2",
            "$.items[1]: expected 2, got 4",
            "$.items[2]: missing, expected 3",
        ],
    ),
    "longer list, a key that is no word": (
        [{}],
        [{"a b": 1}, 2],
        [
            "$: expected a list of 1, got one of 2",
            '$[0]["a b"]: unexpected, got 1',
            "$[1]: unexpected, got 2",
        ],
    ),
    "anything": ({"id": ANY, "n": ANY}, {"id": "x", "n": {}}, []),
    "approximately": ({"n": pytest.approx(0.3)}, {"n": 0.1 + 0.2}, []),
    "what is no JSON": ({"n": {1, 2}}, {"n": [1, 2]}, ["$.n: expected {1, 2}, got [1, 2]"]),
    "a long value is cut": ("x" * 80, 1, [f'$: expected "{"x" * 56}..., got 1']),
    "what cannot be printed": ("\ud800", "\x07", ['$: expected "\\ud800", got "\\u0007"']),
    "what can be printed": ("é", "ë", ['$: expected "é", got "ë"']),
    "a part at any depth": (partial({"a": {"b": 1}}), {"a": {"b": 1, "c": 2}, "d": 3}, []),
    "parts of a list": (partial({"a": [1, {"b": 1}]}), {"a": [1, {"b": 1, "c": 2}]}, []),
    "a part in a whole": ({"a": partial({"b": 1})}, {"a": {"b": 1, "c": 2}}, []),
    "in a part": (partial({"a": {"b": 1}}), {"a": {"b": 2}}, ["$.a.b: expected 1, got 2"]),
    "missing in a part": (partial({"a": 1}), {}, ["$.a: missing, expected 1"]),
    "a list in a part is whole": (
        partial({"a": [1]}),
        {"a": [1, 2]},
        ["$.a: expected a list of 1, got one of 2", "$.a[1]: unexpected, got 2"],
    ),
    "a list and an object": (partial([1]), {}, ["$: expected [1], got {}"]),
}


@pytest.mark.parametrize(("expected", "got", "lines"), JSON_DIFFERENCES.values(), ids=JSON_DIFFERENCES)
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


# -- what is redacted (D-779) ------------------------------------------------------------------------

DIFFERS = "differs, and is redacted; emulator.deliveries() has the original"


@pytest.mark.parametrize(
    ("redacts", "expected", "lines"),
    [
        (("body",), {"body": "4112"}, [DIFFERS]),
        (("body",), {"body_json": {"card": "4112"}}, [DIFFERS]),
        (("body",), {"body_json": {"other": 1}}, [DIFFERS]),
        (("header[x-card]",), {"body_json": {"card": "4112"}}, ['$.card: expected "4112", got "4111"']),
        (("header[x-card]",), {"headers": {"X-Card": "4112"}}, [f"X-Card: {DIFFERS}"]),
        (("header[x-card]",), {"headers": {"X-Card": None}}, [f"X-Card: {DIFFERS}"]),
        (("header[x-card]",), {"headers": {"X-Other": "1"}}, ['X-Other: expected "1", got "open"']),
        (("headers",), {"headers": {"X-Other": re.compile("1")}}, [f"X-Other: {DIFFERS}"]),
        (("headers",), {"headers": {"X-None": "1"}}, ['X-None: missing, expected "1"']),
    ],
)
def test_a_redacted_difference_says_only_that_there_is_one(
    redacts: tuple[str, ...], expected: dict[str, Any], lines: list[str]
) -> None:
    headers = {"X-Card": "4111", "X-Other": "open"}
    sent = delivery(body=b'{"card":"4111"}', headers=headers, redacts=redacts)
    assert [*findings([sent], **expected).values()] == [tuple(lines)]


@pytest.mark.parametrize("expected", [{"body": '{"card":"4111"}'}, {"body_json": {"card": "4111"}}])
def test_what_is_redacted_is_compared_exactly(expected: dict[str, Any]) -> None:
    assert checked([delivery(body=b'{"card":"4111"}', redacts=("body", "headers"))], **expected) is None
