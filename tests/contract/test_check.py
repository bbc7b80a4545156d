"""Contracts: merged, renamed for a dialect, compared with one's own."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest

from emulator.contract.check import Contract
from emulator.contract.dialects import in_dialect, merged
from emulator.contract.document import Api, objects, rebuilt, resolved
from emulator.wire import dialect
from emulator.wire.json_reader import Json
from tests.contracts.conformance import contract
from tests.wire.request_parts import request


def document(**fields: Any) -> dict[str, Any]:
    return {"openapi": "3.1.0", "info": {"title": "T", "version": "v2"}, "paths": {}, **fields}


def schemas(**entries: Any) -> dict[str, Any]:
    return {"schemas": entries}


# -- answers held against the contract, and the operation that a request means ---------------------


@pytest.mark.parametrize(
    ("call", "status", "headers", "body", "wrong"),
    [
        ("GET /v2/keys", 200, {}, {"current": "sig_a", "next": 5}, ["next: expected string, got a number"]),
        ("GET /v2/keys", 200, {}, {"current": "a", "more": 1}, ["next: missing", "more: unknown field"]),
        ("GET /v2/keys", 200, {"content-type": "text/plain"}, {}, ["header Content-Type: expected application/json"]),
        ("GET /v2/keys", 200, {"content-length": "2", "x-new": "1"}, None, ["header X-New: not in the contract"]),
        ("GET /v2/keys", 418, {}, {}, ["status 418: not in the contract"]),
        ("GET /v2/keys", 500, {}, {"error": "x"}, ["status 500: never part of the contract"]),
        ("GET /v2/keys", 401, {"www-authenticate": "Bearer"}, {"message": "x"}, ["error: missing"]),
        ("GET /v2/keys", 401, {}, {"error": "x"}, ["header WWW-Authenticate: missing"]),
        ("POST /v2/queues/q/pause", 200, {}, {}, ["body: expected none"]),
        ("GET /v2/nowhere", 400, {}, {"error": "x"}, ["status 400: not in the contract"]),
        ("PUT /v2/keys", 405, {}, {"error": "x"}, ["header Allow: missing"]),
        ("PUT /v2/keys", 405, {"allow": "PUT"}, {"error": "x"}, ["header Allow: expected GET"]),
        ("GET /v2/nowhere", 200, {}, {}, ["status 200: not in the contract"]),
    ],
)
def test_what_is_wrong_with_an_answer(
    call: str, status: int, headers: dict[str, str], body: object, wrong: list[str]
) -> None:
    given = tuple({"content-type": "application/json", **headers}.items())
    sent = None if body is None else json.dumps(body).encode()
    found = contract().answer(contract().find(*call.split()), status, given, sent)
    assert [each for each in found if each != "message: unknown field"] == wrong


def test_of_many_unknown_names_a_hundred_are_compared() -> None:
    """D-810: in the query, and in the items of a batch, at each place of a name."""
    many = "&".join(f"svc-retires-{number}=1" for number in range(300))
    found = contract().request(contract().find("GET", "/v2/keys"), request(query=many, method="GET", path="/v2/keys"))
    assert len(found.wrong) == 100

    names = [f"svc-retires-{number}" for number in range(300)]
    batch = [{"destination": "https://a.test", "headers": dict.fromkeys(each, "1")} for each in (names, names[:1])]
    call = request(("content-type", "application/json"), body=json.dumps(batch).encode(), path="/v2/batch")
    found = contract().request(contract().find("POST", "/v2/batch"), call)
    places = [line.partition("headers: ")[0] for line in found.wrong]
    assert [places.count(place) for place in ("[0].", "[1].")] == [100, 1]


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


# -- a document in a dialect's names ---------------------------------------------------------------


SVC, UPSTASH = dialect.load("svc"), dialect.load("upstash")


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        pytest.param("Svc-Retries", "Upstash-Retries", id="header"),
        pytest.param("svc-retries", "upstash-retries", id="query-parameter"),
        pytest.param("Svc-Forward-*", "Upstash-Forward-*", id="wildcard"),
        pytest.param("`Svc-A`, `svc-...`", "`Upstash-A`, `upstash-...`", id="in-prose"),
        pytest.param("svc-emulator serve", "svc-emulator serve", id="the-program"),
        pytest.param("Svc-Emulator-Contract", "Svc-Emulator-Contract", id="strict-mode's-header"),
        pytest.param("queue_token", "qstash_token", id="token-parameter"),
        pytest.param("/v2/queue/user/{id}", "/v2/qstash/user/{id}", id="queue-segment"),
        pytest.param("/v2/queues/{queueName}", "/v2/queues/{queueName}", id="queues"),
        pytest.param("a queue", "a queue", id="the-word"),
    ],
)
def test_names_are_those_of_the_dialect(written: str, shown: str) -> None:
    found = in_dialect(document(paths={written: {"x": [written]}}), Api.MESSAGING, UPSTASH)

    assert found["paths"] == {shown: {"x": [shown]}}


def test_management_fields_and_enum_values_are_renamed_where_they_are_data() -> None:
    account = {
        "description": "`metrics_enabled` is a field, metrics_enabled is a word.",
        "required": ["metrics_enabled", "id"],
        "properties": {"metrics_enabled": {"type": "boolean"}, "type": {"enum": ["", "queue_fixed_1m"]}},
        "example": {"metrics_enabled": True, "type": "queue_fixed_1m"},
    }

    found = in_dialect(document(components=schemas(Account=account)), Api.MANAGEMENT, UPSTASH)

    assert cast(Any, found)["components"]["schemas"]["Account"] == {
        "description": "`prometheus_enabled` is a field, metrics_enabled is a word.",
        "required": ["prometheus_enabled", "id"],
        "properties": {"prometheus_enabled": {"type": "boolean"}, "type": {"enum": ["", "qstash_fixed_1m"]}},
        "example": {"prometheus_enabled": True, "type": "qstash_fixed_1m"},
    }


def test_enum_values_in_a_pattern_are_renamed_as_whole_words() -> None:
    pattern = r"^(?:|queue_fixed(?:_1m)?|queue_fixed_10m|my_queue_fixed|\d+)$"

    found = in_dialect(document(components=schemas(A={"pattern": pattern})), Api.MANAGEMENT, UPSTASH)

    assert cast(Any, found)["components"]["schemas"]["A"] == {
        "pattern": r"^(?:|qstash_fixed(?:_1m)?|qstash_fixed_10m|my_queue_fixed|\d+)$"
    }


def test_messaging_fields_are_the_same_in_every_dialect() -> None:
    written = document(components=schemas(M={"properties": {"queue_id": {"type": "string"}}}))

    assert in_dialect(written, Api.MESSAGING, UPSTASH) == written


def test_the_control_api_renames_fields_of_accounts_only() -> None:
    field = {"properties": {"queue_id": {"type": "string"}}}
    written = document(
        paths={
            "/_emulator/accounts": {"get": {"x": {"$ref": "#/components/schemas/Account"}}},
            "/_emulator/worlds": {"get": {"x": {"$ref": "#/components/schemas/World"}}},
        },
        components=schemas(Account=field, World=field),
    )

    found = cast(Any, in_dialect(written, Api.CONTROL, UPSTASH))["components"]["schemas"]

    assert found == {"Account": {"properties": {"qstash_id": {"type": "string"}}}, "World": field}


def test_the_dialect_of_the_document_changes_nothing() -> None:
    written = document(
        paths={"/v2/queue/user": {"get": {"parameters": [{"name": "Svc-Delay"}, {"name": "queue_token"}]}}}
    )

    assert in_dialect(written, Api.MANAGEMENT, SVC) == written


def test_documents_can_be_written_as_json() -> None:
    """What renaming gives is plain data."""
    assert json.loads(json.dumps(in_dialect(document(components={}), Api.CONTROL, UPSTASH))) == document(components={})


# -- the contract as data: following references, and rebuilding what stands in a document ----------


def test_references_are_followed_and_a_circle_ends() -> None:
    found = document(
        components=schemas(A={"$ref": "#/components/schemas/B", "description": "mine"}, B={"type": "null"})
    )
    circle = document(components=schemas(A={"$ref": "#/components/schemas/A"}))

    assert resolved(found, {"$ref": "#/components/schemas/A"}) == {"type": "null", "description": "mine"}
    assert resolved(circle, {"$ref": "#/components/schemas/A"}) == {}
    assert resolved(found, {"$ref": "other.yaml#/x"}) == {}


def test_every_object_is_found_from_the_outside_in() -> None:
    value: Json = {"a": [{"b": {"c": 1}}, "text"], "d": None}

    assert list(objects(value)) == [value, {"b": {"c": 1}}, {"c": 1}]


def test_every_object_is_rebuilt_from_the_inside_out() -> None:
    value: Json = {"a": [{"b": {}}, "text"], "d": None}

    assert rebuilt(value, lambda found: {**found, "keys": sorted(found)}) == {
        "a": [{"b": {"keys": []}, "keys": ["b"]}, "text"],
        "d": None,
        "keys": ["a", "d"],
    }


# -- several documents as one ----------------------------------------------------------------------


def operation(operation_id: str, reference: str) -> dict[str, Any]:
    return {"operationId": operation_id, "x": {"$ref": reference}}


def test_components_that_differ_get_their_apis_name_and_references_follow() -> None:
    error = "#/components/schemas/Error"
    wrapped = {"items": {"$ref": error}}
    first = document(
        paths={"/a": {"get": operation("list", error)}},
        components=schemas(Error={"type": "object"}, List=wrapped, Id={"type": "string"}),
    )
    second = document(
        paths={"/b": {"get": operation("list", "#/components/schemas/List")}},
        components=schemas(Error={"type": "string"}, List=wrapped, Id={"type": "string"}),
    )

    found = cast(Any, merged({Api.MESSAGING: first, Api.CONTROL: second}, "1.2.3"))

    assert found["components"]["schemas"] == {
        "Error": {"type": "object"},
        "List": {"items": {"$ref": "#/components/schemas/Error"}},
        "Id": {"type": "string"},
        "ControlError": {"type": "string"},
        # The same words, but of another error.
        "ControlList": {"items": {"$ref": "#/components/schemas/ControlError"}},
    }
    assert found["paths"]["/a"]["get"]["operationId"] == "list"
    assert found["paths"]["/b"]["get"] == {
        "operationId": "controlList",
        "x": {"$ref": "#/components/schemas/ControlList"},
        "security": [],
    }
    assert found["info"]["version"] == "1.2.3"


def test_security_of_a_document_goes_to_its_operations() -> None:
    schemes = [{"type": "http", "scheme": "bearer"}, {"type": "http", "scheme": "basic"}]
    documents = {
        api: document(
            security=[{"login": []}],
            paths={f"/{api}": {"get": {}, "post": {"security": []}}},
            components={"securitySchemes": {"login": scheme}},
        )
        for api, scheme in zip((Api.MESSAGING, Api.MANAGEMENT), schemes, strict=True)
    }

    found = cast(Any, merged(documents, "1"))

    assert "security" not in found
    assert found["paths"]["/messaging"] == {"get": {"security": [{"login": []}]}, "post": {"security": []}}
    assert found["paths"]["/management"]["get"] == {"security": [{"ManagementLogin": []}]}
    assert found["components"]["securitySchemes"] == {"login": schemes[0], "ManagementLogin": schemes[1]}


def test_a_single_document_stays_as_it_is() -> None:
    assert merged({Api.CONTROL: document(x=1)}, "1") == document(x=1)
