"""Several documents as one."""

from __future__ import annotations

from typing import Any, cast

from emulator.contract.document import Api
from emulator.contract.merging import merged
from tests.contract.openapi import document, schemas


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
