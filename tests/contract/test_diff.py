"""How documents differ, and whose clients each difference breaks."""

from __future__ import annotations

from typing import Any

import pytest

from emulator.contract.diff import Difference, Side, common_paths, compare

OURS, THEIRS = Side.OURS, Side.THEIRS


def document(path: str = "/a", method: str = "post", components: Any = None, **operation: Any) -> dict[str, Any]:
    return {"openapi": "3.1.0", "paths": {path: {method: operation}}, "components": components or {}}


def asking(schema: Any, **body: Any) -> dict[str, Any]:
    return document(requestBody={"content": {"application/json": {"schema": schema}}, **body})


def answering(schema: Any, status: str = "200") -> dict[str, Any]:
    return document(responses={status: {"content": {"application/json": {"schema": schema}}}})


def taking(*parameters: Any) -> dict[str, Any]:
    return document(parameters=list(parameters))


def query(name: str, **fields: Any) -> dict[str, Any]:
    return {"name": name, "in": "query", **fields}


def fields(*required: str, **properties: Any) -> dict[str, Any]:
    return {"type": "object", "required": list(required), "properties": properties}


TEXT, NUMBER, INTEGER = {"type": "string"}, {"type": "number"}, {"type": "integer"}


@pytest.mark.parametrize(
    ("ours", "theirs", "what", "breaks"),
    [
        pytest.param(document("/a"), {"paths": {}}, "operation", {OURS}, id="path"),
        pytest.param(document(), {"paths": {"/a": {}}}, "operation", {OURS}, id="method"),
        pytest.param(taking(query("x")), taking(), "query parameter x", {OURS}, id="parameter-here-only"),
        pytest.param(taking(), taking(query("x")), "query parameter x", {THEIRS}, id="parameter-there-only"),
        pytest.param(
            taking(), taking(query("x", required=True)), "query parameter x", {OURS, THEIRS}, id="required-parameter"
        ),
        pytest.param(
            taking(query("x", required=True)), taking(query("x")), "query parameter x", {THEIRS}, id="more-required"
        ),
        pytest.param(
            taking(query("x", schema={"enum": ["a"]})),
            taking(query("x", schema={"enum": ["a", "b"]})),
            "query parameter x values",
            {THEIRS},
            id="parameter-values",
        ),
        pytest.param(asking(TEXT), document(), "request body", {OURS}, id="body-here-only"),
        pytest.param(asking(TEXT, required=True), asking(TEXT), "request body", {THEIRS}, id="body-required"),
        pytest.param(
            asking(fields(a=TEXT)), asking(fields(a=INTEGER)), "request field a type", {OURS, THEIRS}, id="type"
        ),
        pytest.param(asking(fields(a=NUMBER)), asking(fields(a=INTEGER)), "request field a type", {OURS}, id="wider"),
        pytest.param(
            answering(fields(a=NUMBER)),
            answering(fields(a=INTEGER)),
            "response 200 field a type",
            {THEIRS},
            id="answer",
        ),
        pytest.param(
            answering(fields(a={"enum": ["x", "y"]})),
            answering(fields(a={"enum": ["x"]})),
            "response 200 field a values",
            {THEIRS},
            id="an-answer-they-do-not-know",
        ),
        pytest.param(
            asking(fields(a=TEXT)), asking(fields(a=TEXT, b=TEXT)), "request field b", {THEIRS}, id="request-field"
        ),
        pytest.param(
            asking(fields("a", a=TEXT)), asking(fields(a=TEXT)), "request field a", {THEIRS}, id="request-required"
        ),
        pytest.param(
            answering(fields("a", a=TEXT)), answering(fields(a=TEXT)), "response 200 field a", {OURS}, id="may-lack"
        ),
        pytest.param(
            answering(fields(a=TEXT)),
            answering(fields("b", a=TEXT, b=TEXT)),
            "response 200 field b",
            {THEIRS},
            id="lacks",
        ),
        pytest.param(
            answering(fields(a=TEXT)),
            answering(fields(a=TEXT, b=TEXT)),
            "response 200 field b",
            set(),
            id="may-not-rely",
        ),
        pytest.param(answering(TEXT), answering(TEXT, "201"), "response 201", {OURS}, id="success"),
        pytest.param(document(), answering(TEXT, "418"), "response 418", set(), id="error"),
        pytest.param(
            answering({"type": "array", "items": fields(a=TEXT)}),
            answering({"type": "array", "items": fields(a=TEXT, b=TEXT)}),
            "response 200 field [].b",
            set(),
            id="in-a-list",
        ),
        pytest.param(
            answering(TEXT), answering({**TEXT, "nullable": True}), "response 200 type", {OURS}, id="nullable"
        ),
    ],
)
def test_a_difference_and_whom_it_breaks(ours: Any, theirs: Any, what: str, breaks: set[Side]) -> None:
    found = {each.what: each.breaks for each in compare(ours, theirs)}

    assert found[what] == breaks
    # Seen from the other side it is the same, and breaks the others.
    back = {each.what: each.breaks for each in compare(theirs, ours)}
    other_side = {OURS: THEIRS, THEIRS: OURS}
    assert back[what] == {other_side[side] for side in breaks}


def test_the_first_difference_in_full() -> None:
    assert compare(asking(fields(a=TEXT)), asking(fields(a=TEXT, b=TEXT))) == (
        Difference(
            operation="POST /a", what="request field b", theirs="optional", ours="—", breaks=frozenset({THEIRS})
        ),
    )


ERROR = {"schemas": {"E": fields("error", error=TEXT)}}


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        pytest.param(document("/a/{id}"), document("/A/{name}/"), id="names-and-case-in-paths"),
        pytest.param(
            document("/v2/a"), {**document("/a"), "servers": [{"url": "https://x.test/v2"}]}, id="server-path"
        ),
        pytest.param(
            taking({"name": "Svc-Retries", "in": "header", "x-query-name": "svc-retries"}),
            taking({"name": "svc-retries", "in": "header"}, query("svc-retries")),
            id="case-and-query-twin",
        ),
        pytest.param(
            taking({"name": "Svc-Forward-*", "in": "header"}),
            taking({"name": "Svc-Forward-Accept", "in": "header"}),
            id="wildcard",
        ),
        pytest.param(
            taking(), taking({"name": "Authorization", "in": "header", "required": True}), id="said-by-security"
        ),
        pytest.param(
            {**answering({"$ref": "#/components/schemas/E"}), "components": ERROR},
            answering({"allOf": [fields("error", error=TEXT)]}),
            id="reference-and-all-of",
        ),
        pytest.param(answering({"const": "x"}), answering({"enum": ["x"]}), id="const-and-enum"),
        pytest.param(
            answering({"type": ["string", "null"]}),
            answering({"anyOf": [TEXT, {"type": "null"}]}),
            id="null-and-any-of",
        ),
        pytest.param(taking(query("x", schema=TEXT)), taking(query("x", schema=INTEGER)), id="parameters-are-texts"),
        pytest.param(document(responses={"404": {}}), document(responses={"4XX": {}}), id="range-of-statuses"),
        pytest.param(document(summary="one"), document(summary="other", description="x"), id="words"),
    ],
)
def test_what_is_no_difference(ours: Any, theirs: Any) -> None:
    assert compare(ours, theirs) == ()
    assert compare(theirs, ours) == ()


def test_schemas_that_hold_themselves_end() -> None:
    circle = {"schemas": {"T": fields(children={"type": "array", "items": {"$ref": "#/components/schemas/T"}})}}
    ours = {**answering({"$ref": "#/components/schemas/T"}), "components": circle}

    assert compare(ours, ours) == ()


@pytest.mark.parametrize(
    "theirs",
    [
        {"openapi": "3.0.0"},
        {"openapi": "3.0.0", "paths": {"/a": None, "/b": [], "/c": {"post": "x", "parameters": 3}}},
        document(parameters=[3, {"in": 1}], requestBody=[], responses={"200": 7}),
        document(responses={"200": {"content": {"application/json": {"schema": [1]}}}}),
        {**document(), "servers": [{"url": "http://[x"}]},
    ],
)
def test_a_document_that_makes_no_sense_is_compared_all_the_same(theirs: Any) -> None:
    compare(answering(fields(a=TEXT)), theirs)
    compare(theirs, answering(fields(a=TEXT)))


def test_common_paths() -> None:
    assert common_paths(document("/a/{x}"), document("/a/{y}", method="get")) == 1
    assert common_paths(document("/a"), document("/b")) == 0
