"""Answers held against the contract, and the operation that a request means."""

from __future__ import annotations

import json

import pytest

from emulator.contract.check import Contract
from emulator.wire import dialect
from tests.contracts.conformance import contract


@pytest.mark.parametrize(
    ("method", "path", "status", "headers", "body", "said"),
    [
        (
            "GET",
            "/v2/keys",
            200,
            "application/json",
            {"current": "sig_a", "next": 5},
            "next: expected string, got a number",
        ),
        ("GET", "/v2/keys", 200, "application/json", {"current": "a", "more": 1}, "next: missing"),
        ("GET", "/v2/keys", 200, "application/json", {"current": "a", "more": 1}, "more: unknown field"),
        ("GET", "/v2/keys", 200, "text/plain", {}, "header Content-Type: expected application/json"),
        ("GET", "/v2/keys", 418, "application/json", {}, "status 418: not in the contract"),
        ("GET", "/v2/keys", 500, "application/json", {"error": "x"}, "status 500: never part of the contract"),
        ("GET", "/v2/keys", 401, "application/json", {"message": "x"}, "error: missing"),
        ("GET", "/v2/keys", 401, "application/json", {"error": "x"}, "header WWW-Authenticate: missing"),
        ("POST", "/v2/queues/q/pause", 200, "application/json", {}, "body: expected none"),
        ("GET", "/v2/nowhere", 400, "application/json", {"error": "x"}, "status 400: not in the contract"),
        ("PUT", "/v2/keys", 405, "application/json", {"error": "x"}, "header Allow: missing"),
        ("GET", "/v2/nowhere", 200, "application/json", {}, "status 200: not in the contract"),
    ],
)
def test_what_is_wrong_with_an_answer(
    method: str, path: str, status: int, headers: str, body: object, said: str
) -> None:
    match = contract().find(method, path)

    found = contract().answer(match, status, (("content-type", headers),), json.dumps(body).encode())

    assert said in found


def test_a_header_that_the_contract_does_not_have_is_named_and_those_of_http_are_not() -> None:
    headers = (("content-type", "application/json"), ("content-length", "2"), ("x-new", "1"))

    found = contract().answer(contract().find("GET", "/v2/keys"), 200, headers, None)

    assert found == ("header X-New: not in the contract",)


def test_without_the_document_of_an_api_nothing_is_said_of_its_paths() -> None:
    empty = Contract({}, dialect.load("svc"))

    assert empty.answer(empty.find("GET", "/v2/keys"), 200, (), b"") == ()


@pytest.mark.parametrize(
    ("method", "path", "name"),
    [
        ("POST", "/v2/publish/https://x.test/a?b=c", "publishMessage"),
        ("POST", "/v2/schedules/https://x.test/pause", "createSchedule"),
        ("POST", "/v2/schedules/x/pause", "pauseSchedule"),
        ("GET", "/v2/schedules/x", "getSchedule"),
        ("GET", "/V2/Queues/", "listQueues"),
        ("POST", "/v2/dlq/retry", "retryDeadLetters"),
        ("GET", "/v2/search/stats", "getSearchSummary"),
    ],
)
def test_a_request_means_the_operation_with_the_most_fixed_words(method: str, path: str, name: str) -> None:
    operation = contract().find(method, path.partition("?")[0]).operation
    assert operation is not None
    assert operation.id == name
