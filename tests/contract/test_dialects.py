"""A document in a dialect's names."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest

from emulator.contract.dialects import in_dialect
from emulator.contract.document import Api
from emulator.wire import dialect
from tests.contract.openapi import document, schemas

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
