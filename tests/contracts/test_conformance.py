"""Every operation with its success and each of its failures: what the application answers is in the contracts.

Each scenario calls the application through `Checked`, which holds every response against the
contracts. A last test holds the other way round: whatever a contract promises, some scenario met.
"""

from __future__ import annotations

import json

import pytest

from tests.contracts import control_scenarios, failure_scenarios, messaging_scenarios
from tests.contracts.conformance import NotInContract, check_response
from tests.contracts.documents import all_operations
from tests.contracts.scenarios import SCENARIOS

# Importing them registers their scenarios.
MODULES = (messaging_scenarios, failure_scenarios, control_scenarios)


@pytest.mark.slow
@pytest.mark.parametrize("name", SCENARIOS)
def test_responses_are_those_of_the_contracts(name: str) -> None:
    assert SCENARIOS[name]()


@pytest.mark.slow
def test_every_status_of_every_operation_was_met() -> None:
    met = set[tuple[str, int]]().union(*(find_out() for find_out in SCENARIOS.values()))
    statuses = [(operation.id, status) for operation in all_operations() for status in operation.responses]
    promised = {(name, int(status)) for name, status in statuses if status != "default"}
    assert sorted(promised - met) == []


# -- the check itself ---------------------------------------------------------------------------

JSON = {"content-type": "application/json"}


@pytest.mark.parametrize(
    ("method", "path", "status", "headers", "body"),
    [
        pytest.param("GET", "/v2/keys", 200, JSON, {"current": "a"}, id="a field is missing"),
        pytest.param("GET", "/v2/keys", 200, JSON, {"current": "a", "next": "b", "last": "c"}, id="an unknown field"),
        pytest.param("GET", "/v2/keys", 200, JSON, {"current": "a", "next": 1}, id="a field of another type"),
        pytest.param("GET", "/v2/keys", 201, JSON, {"current": "a", "next": "b"}, id="another status"),
        pytest.param("GET", "/v2/keys", 200, {}, {"current": "a", "next": "b"}, id="no content type"),
        pytest.param("GET", "/v2/keys", 200, {**JSON, "X-New": "1"}, {"current": "a", "next": "b"}, id="a new header"),
        pytest.param("GET", "/v2/keys", 401, JSON, {"error": "x"}, id="a header is missing"),
        pytest.param("GET", "/v2/keys", 400, JSON, {"message": "x"}, id="another error shape"),
        pytest.param("POST", "/v2/queues/q/pause", 200, JSON, {}, id="a body where there is none"),
        pytest.param("GET", "/v2/nothing", 200, JSON, {}, id="an operation that there is not"),
        pytest.param("PUT", "/v2/keys", 405, {**JSON, "Allow": "PUT"}, {"error": "x"}, id="other methods in Allow"),
    ],
)  # fmt: skip
def test_a_response_that_is_not_in_the_contract_is_noticed(
    method: str, path: str, status: int, headers: dict[str, str], body: object
) -> None:
    with pytest.raises(NotInContract):
        check_response(method, path, status, headers, json.dumps(body).encode())
