"""The contract as data: a dialect's names, several documents as one, and what a request asks for."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest

from emulator.contract import document as contract
from emulator.contract.document import Api, Format
from emulator.core.errors import InvalidInput, NotAcceptable
from emulator.wire import dialect
from tests.wire.request_parts import request

SVC, UPSTASH = dialect.load("svc"), dialect.load("upstash")
EVERYTHING = tuple(Api)


def document(**fields: Any) -> dict[str, Any]:
    return {"openapi": "3.1.0", "info": {"title": "T", "version": "v2"}, "paths": {}, **fields}


def schemas(**entries: Any) -> dict[str, Any]:
    return {"schemas": entries}


# -- the dialect ------------------------------------------------------------------------------


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
    found = contract.in_dialect(document(paths={written: {"x": [written]}}), Api.MESSAGING, UPSTASH)

    assert found["paths"] == {shown: {"x": [shown]}}


def test_management_fields_and_enum_values_are_renamed_where_they_are_data() -> None:
    account = {
        "description": "`metrics_enabled` is a field, metrics_enabled is a word.",
        "required": ["metrics_enabled", "id"],
        "properties": {"metrics_enabled": {"type": "boolean"}, "type": {"enum": ["", "queue_fixed_1m"]}},
        "example": {"metrics_enabled": True, "type": "queue_fixed_1m"},
    }

    found = contract.in_dialect(document(components=schemas(Account=account)), Api.MANAGEMENT, UPSTASH)

    assert cast(Any, found)["components"]["schemas"]["Account"] == {
        "description": "`prometheus_enabled` is a field, metrics_enabled is a word.",
        "required": ["prometheus_enabled", "id"],
        "properties": {"prometheus_enabled": {"type": "boolean"}, "type": {"enum": ["", "qstash_fixed_1m"]}},
        "example": {"prometheus_enabled": True, "type": "qstash_fixed_1m"},
    }


def test_enum_values_in_a_pattern_are_renamed_as_whole_words() -> None:
    pattern = r"^(?:|queue_fixed(?:_1m)?|queue_fixed_10m|my_queue_fixed|\d+)$"

    found = contract.in_dialect(document(components=schemas(A={"pattern": pattern})), Api.MANAGEMENT, UPSTASH)

    assert cast(Any, found)["components"]["schemas"]["A"] == {
        "pattern": r"^(?:|qstash_fixed(?:_1m)?|qstash_fixed_10m|my_queue_fixed|\d+)$"
    }


def test_messaging_fields_are_the_same_in_every_dialect() -> None:
    written = document(components=schemas(M={"properties": {"queue_id": {"type": "string"}}}))

    assert contract.in_dialect(written, Api.MESSAGING, UPSTASH) == written


def test_the_control_api_renames_fields_of_accounts_only() -> None:
    field = {"properties": {"queue_id": {"type": "string"}}}
    written = document(
        paths={
            "/_emulator/accounts": {"get": {"x": {"$ref": "#/components/schemas/Account"}}},
            "/_emulator/worlds": {"get": {"x": {"$ref": "#/components/schemas/World"}}},
        },
        components=schemas(Account=field, World=field),
    )

    found = cast(Any, contract.in_dialect(written, Api.CONTROL, UPSTASH))["components"]["schemas"]

    assert found == {"Account": {"properties": {"qstash_id": {"type": "string"}}}, "World": field}


def test_the_dialect_of_the_document_changes_nothing() -> None:
    written = document(
        paths={"/v2/queue/user": {"get": {"parameters": [{"name": "Svc-Delay"}, {"name": "queue_token"}]}}}
    )

    assert contract.in_dialect(written, Api.MANAGEMENT, SVC) == written


# -- one document of several ------------------------------------------------------------------


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

    found = cast(Any, contract.merged({Api.MESSAGING: first, Api.CONTROL: second}, "1.2.3"))

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

    found = cast(Any, contract.merged(documents, "1"))

    assert "security" not in found
    assert found["paths"]["/messaging"] == {"get": {"security": [{"login": []}]}, "post": {"security": []}}
    assert found["paths"]["/management"]["get"] == {"security": [{"ManagementLogin": []}]}
    assert found["components"]["securitySchemes"] == {"login": schemes[0], "ManagementLogin": schemes[1]}


def test_a_single_document_stays_as_it_is() -> None:
    assert contract.merged({Api.CONTROL: document(x=1)}, "1") == document(x=1)


def test_references_are_followed_and_a_circle_ends() -> None:
    found = document(
        components=schemas(A={"$ref": "#/components/schemas/B", "description": "mine"}, B={"type": "null"})
    )
    circle = document(components=schemas(A={"$ref": "#/components/schemas/A"}))

    assert contract.resolved(found, {"$ref": "#/components/schemas/A"}) == {"type": "null", "description": "mine"}
    assert contract.resolved(circle, {"$ref": "#/components/schemas/A"}) == {}
    assert contract.resolved(found, {"$ref": "other.yaml#/x"}) == {}


# -- what a request asks for ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "accept", "apis", "form"),
    [
        pytest.param("", None, EVERYTHING, Format.JSON, id="nothing-said"),
        pytest.param("", "*/*", EVERYTHING, Format.JSON, id="anything"),
        pytest.param("", "application/yaml", EVERYTHING, Format.YAML, id="yaml"),
        pytest.param("", "text/yaml, */*;q=0.1", EVERYTHING, Format.YAML, id="yaml-first"),
        pytest.param("", "application/yaml;q=0.1, application/json", EVERYTHING, Format.JSON, id="json-first"),
        pytest.param("format=yaml", "application/json", EVERYTHING, Format.YAML, id="the-query-wins"),
        pytest.param("format=json&api=control", "text/html", (Api.CONTROL,), Format.JSON, id="one-api"),
        pytest.param("api=all", None, EVERYTHING, Format.JSON, id="all"),
    ],
)
def test_what_a_request_wants(query: str, accept: str | None, apis: tuple[Api, ...], form: Format) -> None:
    wanted = contract.read_wanted(request(*([("Accept", accept)] if accept else []), query=query))

    assert (wanted.apis, wanted.format) == (apis, form)


@pytest.mark.parametrize(
    ("query", "field"),
    [("format=xml", "format"), ("api=queues", "api"), ("api=Control", "api"), ("format=YAML", "format")],
)
def test_an_unknown_format_or_api_is_refused_by_name(query: str, field: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        contract.read_wanted(request(query=query))

    assert caught.value.field == field


@pytest.mark.parametrize("accept", ["text/html", "application/json;q=0", "image/*, application/yaml;q=0"])
def test_a_client_that_takes_neither_is_told_so(accept: str) -> None:
    with pytest.raises(NotAcceptable):
        contract.read_wanted(request(("Accept", accept)))


def test_documents_can_be_written_as_json() -> None:
    """What renaming gives is plain data."""
    assert json.loads(json.dumps(contract.in_dialect(document(components={}), Api.CONTROL, UPSTASH))) == document(
        components={}
    )
