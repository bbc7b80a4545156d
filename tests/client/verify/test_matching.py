"""Which messages are as expected, and in what the nearest of the others is not (D-250)."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.client.deliveries import (
    CURRENT,
    NEXT,
    checked,
    delivery,
    findings,
    message_id,
    signature,
)

HOOK = "https://app.test/hook"
RETRIED = [
    delivery(status=503),
    delivery(after_s=10, attempt=2, status=None),
    delivery(after_s=40, attempt=3, status=200),
]


@pytest.mark.parametrize(
    "expected",
    [
        {},
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
    deliveries = [
        delivery(status=500, headers={"Svc-Retried": "0"}),
        delivery(after_s=1, attempt=2, headers={"Svc-Retried": "1"}),
    ]

    assert checked(deliveries, headers={"Svc-Retried": "1"}) is None
    assert findings(deliveries, headers={"Svc-Retried": "0"}) == {"headers": ('Svc-Retried: expected "0", got "1"',)}


# -- signatures -------------------------------------------------------------------------------


def signed(*tokens: str, attempt: int = 1, body: bytes = b"") -> Any:
    return delivery(after_s=attempt, attempt=attempt, body=body, headers=[("Svc-Signature", token) for token in tokens])


def test_a_signature_fits_its_key_url_and_body() -> None:
    deliveries = [signed(signature(NEXT, body=b"x"), body=b"x")]

    assert checked(deliveries, signed_with="next") is None
    assert checked([signed(signature(CURRENT))], signed_with="current") is None


def test_the_hash_of_the_body_may_go_without_padding() -> None:
    digest = "47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU="

    for spelling in (digest, digest.rstrip("=")):
        assert checked([signed(signature(CURRENT, hash=spelling))], signed_with="current") is None


@pytest.mark.parametrize(
    ("tokens", "line"),
    [
        pytest.param([], "there is no Svc-Signature", id="none"),
        pytest.param(["a.b.c"] * 2, "there are 2 headers Svc-Signature", id="two"),
        pytest.param(["nonsense"], "the signature cannot be read: expected three parts", id="no JWT"),
        pytest.param(["MQ.MQ.MQ"], "the signature cannot be read: expected JSON objects", id="no objects"),
        pytest.param(
            [signature(CURRENT + CURRENT, algorithm="HS512")], 'alg: expected "HS256", got "HS512"', id="algorithm"
        ),
        pytest.param([signature(NEXT)], "expected the current key, it is signed with the next one", id="the other key"),
        pytest.param(
            [signature("sig_some_other_key_of_thirty_two_chars")],
            "it is signed with neither key of this world's first account (were they rotated afterwards?)",
            id="a foreign key",
        ),
        pytest.param([signature(CURRENT, iss="Upstash")], 'iss: expected "Svc", got "Upstash"', id="issuer"),
        pytest.param(
            [signature(CURRENT, sub="https://app.test/")],
            'sub: expected "https://app.test/hook", got "https://app.test/"',
            id="URL",
        ),
        pytest.param([signature(CURRENT, body=b"x")], "body: the hash is that of another body", id="body"),
    ],
)
def test_what_is_wrong_with_a_signature_is_named(tokens: list[str], line: str) -> None:
    assert findings([signed(*tokens)], signed_with="current") == {"signed_with": (line,)}


def test_every_attempt_has_to_be_signed() -> None:
    good, other = signature(CURRENT), signature(NEXT)
    wrong = "expected the current key, it is signed with the next one"

    assert checked([signed(good), signed(good, attempt=2)], signed_with="current") is None
    assert findings([signed(other), signed(good, attempt=2)], signed_with="current") == {
        "signed_with": (f"attempt 1: {wrong}",)
    }
    assert findings([signed(other), signed(other, attempt=2)], signed_with="current") == {
        "signed_with": (f"all 2 attempts: {wrong}",)
    }


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
