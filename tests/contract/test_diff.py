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


DIFFERENCES: dict[str, tuple[Any, Any, str, set[Side]]] = {
    "path": (document("/a"), {"paths": {}}, "operation", {OURS}),
    "method": (document(), {"paths": {"/a": {}}}, "operation", {OURS}),
    "parameter-here-only": (taking(query("x")), taking(), "query parameter x", {OURS}),
    "parameter-there-only": (taking(), taking(query("x")), "query parameter x", {THEIRS}),
    "required-parameter": (taking(), taking(query("x", required=True)), "query parameter x", {OURS, THEIRS}),
    "more-required": (taking(query("x", required=True)), taking(query("x")), "query parameter x", {THEIRS}),
    "parameter-values": (
        taking(query("x", schema={"enum": ["a"]})),
        taking(query("x", schema={"enum": ["a", "b"]})),
        "query parameter x values",
        {THEIRS},
    ),
    "body-here-only": (asking(TEXT), document(), "request body", {OURS}),
    "body-required": (asking(TEXT, required=True), asking(TEXT), "request body", {THEIRS}),
    "type": (asking(fields(a=TEXT)), asking(fields(a=INTEGER)), "request field a type", {OURS, THEIRS}),
    "wider": (asking(fields(a=NUMBER)), asking(fields(a=INTEGER)), "request field a type", {OURS}),
    "answer": (answering(fields(a=NUMBER)), answering(fields(a=INTEGER)), "response 200 field a type", {THEIRS}),
    "an-answer-they-do-not-know": (
        answering(fields(a={"enum": ["x", "y"]})),
        answering(fields(a={"enum": ["x"]})),
        "response 200 field a values",
        {THEIRS},
    ),
    "request-field": (asking(fields(a=TEXT)), asking(fields(a=TEXT, b=TEXT)), "request field b", {THEIRS}),
    "request-required": (asking(fields("a", a=TEXT)), asking(fields(a=TEXT)), "request field a", {THEIRS}),
    "may-lack": (answering(fields("a", a=TEXT)), answering(fields(a=TEXT)), "response 200 field a", {OURS}),
    "lacks": (answering(fields(a=TEXT)), answering(fields("b", a=TEXT, b=TEXT)), "response 200 field b", {THEIRS}),
    "may-not-rely": (answering(fields(a=TEXT)), answering(fields(a=TEXT, b=TEXT)), "response 200 field b", set()),
    "success": (answering(TEXT), answering(TEXT, "201"), "response 201", {OURS}),
    "error": (document(), answering(TEXT, "418"), "response 418", set()),
    "in-a-list": (
        answering({"type": "array", "items": fields(a=TEXT)}),
        answering({"type": "array", "items": fields(a=TEXT, b=TEXT)}),
        "response 200 field [].b",
        set(),
    ),
    "nullable": (answering(TEXT), answering({**TEXT, "nullable": True}), "response 200 type", {OURS}),
}


@pytest.mark.parametrize(("ours", "theirs", "what", "breaks"), DIFFERENCES.values(), ids=DIFFERENCES)
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


ALIKE: dict[str, tuple[Any, Any]] = {
    "names-and-case-in-paths": (document("/a/{id}"), document("/A/{name}/")),
    "server-path": (document("/v2/a"), {**document("/a"), "servers": [{"url": "https://x.test/v2"}]}),
    "case-and-query-twin": (
        taking({"name": "Svc-Retries", "in": "header", "x-query-name": "svc-retries"}),
        taking({"name": "svc-retries", "in": "header"}, query("svc-retries")),
    ),
    "wildcard": (
        taking({"name": "Svc-Forward-*", "in": "header"}),
        taking({"name": "Svc-Forward-Accept", "in": "header"}),
    ),
    "said-by-security": (taking(), taking({"name": "Authorization", "in": "header", "required": True})),
    "reference-and-all-of": (
        {**answering({"$ref": "#/components/schemas/E"}), "components": ERROR},
        answering({"allOf": [fields("error", error=TEXT)]}),
    ),
    "const-and-enum": (answering({"const": "x"}), answering({"enum": ["x"]})),
    "null-and-any-of": (answering({"type": ["string", "null"]}), answering({"anyOf": [TEXT, {"type": "null"}]})),
    "parameters-are-texts": (taking(query("x", schema=TEXT)), taking(query("x", schema=INTEGER))),
    "range-of-statuses": (document(responses={"404": {}}), document(responses={"4XX": {}})),
    "words": (document(summary="one"), document(summary="other", description="x")),
}


@pytest.mark.parametrize(("ours", "theirs"), ALIKE.values(), ids=ALIKE)
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
