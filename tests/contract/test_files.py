"""What a request for the contract asks for, and the dialect of a document of somebody else."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from emulator.contract import files
from emulator.contract.document import Api
from emulator.contract.files import DocumentFormat, dialect_of, read_contract_request
from emulator.core.errors import InvalidInput, NotAcceptable
from emulator.wire.dialect import load
from tests.wire.request_parts import request

EVERYTHING = tuple(Api)


@pytest.mark.parametrize(
    ("query", "accept", "apis", "form"),
    [
        pytest.param("", None, EVERYTHING, DocumentFormat.JSON, id="nothing-said"),
        pytest.param("", "*/*", EVERYTHING, DocumentFormat.JSON, id="anything"),
        pytest.param("", "application/yaml", EVERYTHING, DocumentFormat.YAML, id="yaml"),
        pytest.param("", "text/yaml, */*;q=0.1", EVERYTHING, DocumentFormat.YAML, id="yaml-first"),
        pytest.param("", "application/yaml;q=0.1, application/json", EVERYTHING, DocumentFormat.JSON, id="json-first"),
        pytest.param("format=yaml", "application/json", EVERYTHING, DocumentFormat.YAML, id="the-query-wins"),
        pytest.param("format=json&api=control", "text/html", (Api.CONTROL,), DocumentFormat.JSON, id="one-api"),
        pytest.param("api=all", None, EVERYTHING, DocumentFormat.JSON, id="all"),
    ],
)
def test_what_a_request_wants(query: str, accept: str | None, apis: tuple[Api, ...], form: DocumentFormat) -> None:
    wanted = read_contract_request(request(*([("Accept", accept)] if accept else []), query=query))

    assert (wanted.apis, wanted.format) == (apis, form)


@pytest.mark.parametrize(
    ("query", "field"),
    [("format=xml", "format"), ("api=queues", "api"), ("api=Control", "api"), ("format=YAML", "format")],
)
def test_an_unknown_format_or_api_is_refused_by_name(query: str, field: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        read_contract_request(request(query=query))

    assert caught.value.field == field


@pytest.mark.parametrize("accept", ["text/html", "application/json;q=0", "image/*, application/yaml;q=0"])
def test_a_client_that_takes_neither_is_told_so(accept: str) -> None:
    with pytest.raises(NotAcceptable):
        read_contract_request(request(("Accept", accept)))


# -- the dialect of a document: D-295 ---------------------------------------------------------

SVC, UPSTASH = load("svc"), load("upstash")


def written(api: Api, dialect: str, **renamed: str) -> Any:
    text = json.dumps(files.documents((api,), load(dialect))[api])
    for old, new in renamed.items():
        text = text.replace(old.replace("_", "-"), new)
    return json.loads(text)


@pytest.mark.parametrize("api", [Api.MESSAGING, Api.MANAGEMENT])
@pytest.mark.parametrize("dialect", ["svc", "upstash"])
@pytest.mark.parametrize("expected", [SVC, UPSTASH], ids=lambda each: str(each.name))
def test_a_built_in_dialect_is_recognized_by_its_names(api: Api, dialect: str, expected: Any) -> None:
    assert dialect_of(written(api, dialect), expected).name == dialect


def test_any_other_is_recognized_by_the_beginning_of_its_headers() -> None:
    found = dialect_of(written(Api.MESSAGING, "svc", Svc_="Acme-Queue-", svc_="acme-queue-"), SVC)

    assert (found.name, found.header_prefix) == ("acme-queue", "Acme-Queue-")


@pytest.mark.parametrize("expected", [SVC, UPSTASH], ids=lambda each: str(each.name))
@pytest.mark.parametrize(
    "document",
    [
        pytest.param({"openapi": "3.1.0", "paths": {}}, id="empty"),
        pytest.param({"openapi": "3.1.0", "paths": {"/v2/queues": {"get": {}}}}, id="names that all dialects have"),
        pytest.param(
            {
                "openapi": "3.1.0",
                "paths": {"/a": {"get": {"parameters": [{"in": "header", "name": "X-Retries"}], "responses": {}}}},
            },
            id="one header that ends as one of ours",
        ),
    ],
)
def test_without_a_sign_it_is_the_expected_one(document: Any, expected: Any) -> None:
    assert dialect_of(document, expected) is expected


# -- merges ----------------------------------------------------------------------------------------

OWN_MERGES = "{k: v}"
for number in range(45):
    OWN_MERGES = f"{{<<: [&a{number} {OWN_MERGES}, *a{number}]}}"
LARGE = "{" + ", ".join(f"k{number}: 1" for number in range(2_000)) + "}"


@pytest.mark.parametrize("text", [OWN_MERGES, f"[&a {LARGE}, {{<<: [{'*a, ' * 5_000}]}}]"], ids=["levels", "one"])
def test_merges_that_grow_are_refused_before_they_are_made(tmp_path: Path, text: str) -> None:
    """D-792: measured in processor time, so that other programs do not count."""
    path = tmp_path / "theirs.yaml"
    path.write_text(f"openapi: 3.0.0\ninfo: {text}\n")
    started_s = time.process_time()
    with pytest.raises(
        files.UnreadableContract, match=r"theirs\.yaml: line 2: .* more than 100000 values by its merges"
    ):
        files.read(path)
    assert time.process_time() - started_s < 2


def test_merges_of_merges_are_understood(tmp_path: Path) -> None:
    path = tmp_path / "theirs.yaml"
    path.write_text("openapi: 3.0.0\nx: &a {title: a, version: 1}\ninfo: {<<: [{<<: *a, title: b}, *a], more: 2}\n")
    assert files.read(path)["info"] == {"title": "b", "version": 1, "more": 2}
