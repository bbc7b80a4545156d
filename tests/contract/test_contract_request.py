"""What a request for the contract asks for."""

from __future__ import annotations

import pytest

from emulator.contract.document import Api
from emulator.contract.files import DocumentFormat, read_contract_request
from emulator.core.errors import InvalidInput, NotAcceptable
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
