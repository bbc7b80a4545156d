"""Whether a response of the emulator is one that the contracts describe.

`check_response` takes any response of a server, from whichever test. What is not described is an
error: a status, a header of the service's own, a field.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from jsonschema import Draft202012Validator
from referencing import Registry
from referencing.jsonschema import DRAFT202012

from emulator.wire.dialect import Dialect
from tests.contracts.documents import APIS, AS_WRITTEN, Operation, all_operations, load, resolved

# What every HTTP server may add by itself.
_OF_HTTP = frozenset(
    ("connection", "content-length", "content-type", "date", "keep-alive", "server", "transfer-encoding")
)
_ERROR = {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}}
_ALLOW = {"Allow": {"required": True, "schema": {"type": "string"}}}


class NotInContract(AssertionError):
    """A response is not as the contract says."""


def check_response(
    method: str,
    path: str,
    status: int,
    headers: Mapping[str, str],
    body: bytes | None,
    *,
    dialect: Dialect = AS_WRITTEN,
) -> str:
    """The id of the operation that answered; empty for a path or a method that no operation has.

    `path` is the raw target of the request, with or without its query; a body of None is not looked at.
    Raises: NotInContract.
    """
    raw_path = path.partition("?")[0]
    operation, allowed = find(method, raw_path, dialect)
    given = {name.lower(): value for name, value in headers.items()}
    at = f"{method} {raw_path} -> {status}"
    messaging = _Api(name="messaging", dialect=dialect)
    if operation is None:
        expected = 405 if allowed else 404
        if status != expected:
            raise NotInContract(f"{at}: no operation of the contracts, expected {expected}")
        _check_headers(at, messaging, _ALLOW if allowed else {}, given)
        if allowed and set(given["allow"].split(", ")) != allowed:
            raise NotInContract(f"{at}: Allow is {given['allow']}, the contracts have {', '.join(sorted(allowed))}")
        _check_body(at, messaging, _ERROR, given, body)
        return ""
    response = operation.responses.get(str(status))
    if response is None:
        raise NotInContract(f"{at}: {operation.id} has {', '.join(operation.responses)} only; {(body or b'')[:300]!r}")
    api = _Api(name=operation.api, dialect=dialect)
    _check_headers(at, api, response.get("headers", {}), given)
    _check_body(at, api, response, given, body)
    return operation.id


@functools.lru_cache(maxsize=4096)
def find(method: str, raw_path: str, dialect: Dialect = AS_WRITTEN) -> tuple[Operation | None, frozenset[str]]:
    """The operation that a request means, and else the methods that its path has."""
    fitting = [operation for operation in all_operations(dialect) if operation.pattern.fullmatch(raw_path)]
    if not fitting:
        return None, frozenset()
    path = max(fitting, key=lambda operation: operation.fixed_words).path
    same_path = {operation.method: operation for operation in fitting if operation.path == path}
    return same_path.get(method), frozenset(same_path)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Api:
    """A contract, in a dialect's names."""

    name: str
    dialect: Dialect = AS_WRITTEN


def _check_headers(at: str, api: _Api, described: Mapping[str, Any], given: Mapping[str, str]) -> None:
    document = load(api.name, api.dialect)
    known = {name.lower(): resolved(document, header) for name, header in described.items()}
    for name, header in known.items():
        if name in given:
            _check_value(f"{at}: header {name}", api, header["schema"], given[name])
        elif header.get("required"):
            raise NotInContract(f"{at}: the header {name} is missing")
    unknown = given.keys() - known.keys() - _OF_HTTP
    if unknown:
        raise NotInContract(f"{at}: the contract does not have the headers {', '.join(sorted(unknown))}")


def _check_body(
    at: str, api: _Api, response: Mapping[str, Any], headers: Mapping[str, str], body: bytes | None
) -> None:
    content = response.get("content")
    if content is None:
        if body:
            raise NotInContract(f"{at}: expected no body, got {body[:300]!r}")
        return
    media_type = headers.get("content-type", "").partition(";")[0]
    if media_type not in content:
        raise NotInContract(f"{at}: the content type is {media_type!r}, expected {' or '.join(content)}")
    if body is None:
        return
    # A file of bytes is taken for a text of as many characters.
    text = body.decode("latin-1" if media_type == "application/vnd.sqlite3" else "utf-8")
    value = json.loads(text) if media_type == "application/json" else text
    _check_value(at, api, content[media_type]["schema"], value)


def _check_value(at: str, api: _Api, schema: Mapping[str, Any], value: Any) -> None:
    validator = _validator(api, json.dumps(schema))
    errors = sorted(validator.iter_errors(value), key=lambda error: error.json_path)
    if errors:
        error = errors[0]
        while error.context:
            # Of alternatives, the one that is met the furthest says the most.
            error = max(error.context, key=lambda each: len(each.absolute_path))
        raise NotInContract(f"{at}: {error.json_path}: {error.message[:500]}")


@functools.cache
def _registry(dialect: Dialect) -> Registry[Any]:
    documents = ((f"urn:contract:{api}", DRAFT202012.create_resource(load(api, dialect))) for api in APIS)
    return Registry().with_resources(documents)


@functools.cache
def _validator(api: _Api, schema: str) -> Draft202012Validator:
    # The schema is taken for a part of the document, so that what it refers to is found there.
    whole = json.loads(schema, object_hook=lambda found: _absolute(api.name, found))
    return Draft202012Validator(
        whole, registry=_registry(api.dialect), format_checker=Draft202012Validator.FORMAT_CHECKER
    )


def _absolute(api: str, found: dict[str, Any]) -> dict[str, Any]:
    if isinstance(found.get("$ref"), str):
        return {**found, "$ref": f"urn:contract:{api}{found['$ref']}"}
    return found


def check_value(api: str, schema: Mapping[str, Any], value: Any) -> None:
    """Whether a value is what a schema of the contract says. Raises: NotInContract."""
    _check_value(api, _Api(name=api), schema, value)
