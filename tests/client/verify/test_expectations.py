"""The keywords of `verify`: what they mean, and what is wrong with those that cannot be meant."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone
from http import HTTPStatus
from typing import Any

import pytest

from emulator.client.verify.expectations import NOTHING, Expected, Moment, expectation
from tests.harness.emulators import EPOCH_MS


def read(**expected: Any) -> Any:
    wanted: Expected = expected  # type: ignore[assignment]  # what the types forbid is tested too
    return expectation(**wanted)


@pytest.mark.parametrize(
    ("value", "moments"),
    [
        pytest.param("10s", (Moment(10_000),), id="one duration"),
        pytest.param(["0s", "1m30s", "1d"], (Moment(0), Moment(90_000), Moment(86_400_000)), id="durations"),
        pytest.param((250,), (Moment(250),), id="milliseconds"),
        pytest.param(timedelta(seconds=1.5), (Moment(1500),), id="timedelta"),
        pytest.param("2026-01-01T00:00:10Z", (Moment(EPOCH_MS + 10_000, absolute=True),), id="time"),
        pytest.param("2026-01-02", (Moment(EPOCH_MS + 86_400_000, absolute=True),), id="date"),
        pytest.param(datetime(2026, 1, 1, tzinfo=UTC), (Moment(EPOCH_MS, absolute=True),), id="datetime"),
        pytest.param(
            datetime(2026, 1, 1, 1, tzinfo=timezone(timedelta(hours=1))),
            (Moment(EPOCH_MS, absolute=True),),
            id="datetime of another zone",
        ),
        pytest.param(datetime(2026, 1, 1), (Moment(EPOCH_MS, absolute=True),), id="naive datetime is UTC"),
    ],
)
def test_at_takes_durations_since_the_message_was_made_and_instants(value: Any, moments: tuple[Moment, ...]) -> None:
    assert read(at=value).at == moments


def test_a_status_is_that_of_the_last_attempt_and_a_list_has_one_of_each() -> None:
    assert read(status=200).status == 200
    assert read(status=[503, None]).status == (503, None)
    assert str(read(status=HTTPStatus.OK)) == "a message, answered 200"


def test_what_is_none_is_not_expected_but_for_json() -> None:
    nothing = dict.fromkeys(set(Expected.__annotations__) - {"body_json"})

    assert read(**nothing).aspects == ()
    assert read(**nothing).body_json is NOTHING
    assert read(body_json=None).aspects == ("body_json",)


@pytest.mark.parametrize(
    ("expected", "sentence"),
    [
        ({}, "a message"),
        ({"times": 0}, "no message"),
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


@pytest.mark.parametrize(
    ("expected", "kind", "text"),
    [
        ({"url": 7}, TypeError, "url: expected a text, got 7"),
        ({"url": ""}, ValueError, "url: expected a text, got an empty one"),
        ({"message_id": b"x"}, TypeError, "message_id: expected a text, got b'x'"),
        ({"attempts": 0}, ValueError, "attempts: expected an integer of at least 1, got 0"),
        ({"attempts": True}, TypeError, "attempts: expected an integer, got True"),
        ({"times": -1}, ValueError, "times: expected an integer of at least 0, got -1"),
        ({"status": 42}, ValueError, "status: expected an integer from 100 to 999, got 42"),
        ({"status": "200"}, TypeError, "status: expected an integer, got '200'"),
        ({"status": [200, "x"]}, TypeError, "status[1]: expected an integer, got 'x'"),
        ({"status": []}, ValueError, "status: expected the status of at least one attempt, got an empty list"),
        ({"at": []}, ValueError, "at: expected the start of at least one attempt, got an empty list"),
        ({"at": 1.5}, TypeError, 'at: expected a duration such as "10s", or an instant, got 1.5'),
        (
            {"at": ["0s", "10x"]},
            ValueError,
            "at[1]: expected a duration such as 10s or 1d10h30m, each of the units ms, s, m, h, d, w at most once, "
            "got '10x'",
        ),
        (
            {"at": "2026-13-01"},
            ValueError,
            "at: expected an ISO 8601 time such as 2026-01-01T00:00:00Z, or integer milliseconds, got '2026-13-01'",
        ),
        (
            {"at": timedelta(seconds=-1)},
            ValueError,
            "at: expected milliseconds from 0 to 9007199254740991, or a duration such as 1h30m",
        ),
        ({"attempts": 2, "at": ["0s"]}, ValueError, "at: lists 1 attempt, but attempts=2"),
        ({"attempts": 1, "status": [200, 200]}, ValueError, "status: lists 2 attempts, but attempts=1"),
        ({"at": ["0s"], "status": [200, 200]}, ValueError, "status: lists 2 attempts, but at lists 1"),
        ({"outcome": "ok"}, ValueError, "outcome: expected one of succeeded, delivered, failed, got 'ok'"),
        ({"signed_with": "old"}, ValueError, "signed_with: expected one of current, next, got 'old'"),
        ({"body": {"a": 1}}, TypeError, "body: expected bytes or a text, got {'a': 1}; is body_json meant?"),
        ({"body": b"", "body_json": 1}, TypeError, "body_json: expected body or body_json, got both"),
        ({"headers": "X"}, TypeError, "headers: expected a mapping, got 'X'"),
        ({"headers": {1: "x"}}, TypeError, "headers: expected a header's name, got 1"),
        ({"headers": {"A": 1}}, TypeError, "headers: A: expected a text, a compiled pattern or None, got 1"),
        (
            {"headers": {"A": re.compile(b"x")}},
            TypeError,
            "headers: A: expected a text, a compiled pattern or None, got re.compile(b'x')",
        ),
        (
            {"after": "x"},
            TypeError,
            "after: verify knows no such keyword; it knows url, message_id, method, times, attempts, at, status, "
            "outcome, body, body_json, headers, signed_with",
        ),
        ({"attempt": 2}, TypeError, "attempt: verify knows no such keyword, did you mean attempts?"),
        ({"json": 1}, TypeError, "json: verify knows no such keyword, did you mean body_json?"),
    ],
)
def test_a_keyword_that_cannot_be_meant_is_named(expected: dict[str, Any], kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=f"^{re.escape(text)}$"):
        read(**expected)
