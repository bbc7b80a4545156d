"""The dialect of a document of somebody else: D-295."""

from __future__ import annotations

import json
from typing import Any

import pytest

from emulator.contract import files
from emulator.contract.document import Api
from emulator.contract.files import dialect_of
from emulator.wire.dialect import load

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
