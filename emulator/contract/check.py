"""Requests and answers held against the contract.

A mismatch is one line that names what is wrong and what was expected, never a value: values may be
secrets, and in strict mode the line goes into a log and a response header.
"""

from __future__ import annotations

import functools
import itertools
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from emulator.contract import mismatches
from emulator.contract.document import (
    Api,
    Match,
    RequestOperation,
    example_of,
    items,
    named,
    operations_of,
    resolved,
    table,
    text,
    texts,
)
from emulator.contract.mismatches import described, meant, shown, spelt
from emulator.core.errors import InvalidInput, PayloadTooLarge
from emulator.core.language.text import canonical_name, is_alike
from emulator.core.record import Record
from emulator.wire.dialect import Dialect, owner_of
from emulator.wire.json_reader import Json, JsonObject, check_size
from emulator.wire.messaging.mistakes import MOST_NAMES, TELEMETRY
from emulator.wire.parts import Pairs, RequestParts, is_control

if TYPE_CHECKING:
    from jsonschema.exceptions import ValidationError
    from jsonschema.protocols import Validator

# Operations with rules of their own.
_GROUP_DEFAULTS = "setUrlGroupDefaults"
_MOST_ERRORS = 8
# How much a name that is not ours is like one of ours, if it is probably that one misspelt.
_ALIKE = 0.85
# Headers that an HTTP server may add.
_OF_HTTP = frozenset(
    (
        *("connection", "content-length", "content-type", "date", "keep-alive", "server", "transfer-encoding"),
        # What browsers ask for, whatever the operation is (D-270, D-271).
        *("access-control-allow-origin", "access-control-expose-headers", "vary", "x-content-type-options"),
    )
)
_ERROR: JsonObject = {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}}
# Whatever is asked of a world, it may have stopped, its disk may be full (D-282), and any call may
# have too many header fields (D-810) or find no room for its body (D-812).
_OF_ANY_CALL: Mapping[int, JsonObject] = {
    431: _ERROR,
    503: {**_ERROR, "headers": {"Retry-After": {"schema": {"type": "string"}}}},
    507: _ERROR,
}
_NO_METHOD: JsonObject = {**_ERROR, "headers": {"Allow": {"required": True, "schema": {"type": "string"}}}}


def _says_damaged(body: bytes | None) -> bool:
    """Whether an error is a row of history that cannot be read (D-793)."""
    return body is not None and b'"error":"damaged: ' in body


class Findings(Record):
    """What is wrong with a request, and why strict mode refuses it although the emulator would take it."""

    wrong: tuple[str, ...]
    refusal: InvalidInput | None = None


class Contract:
    """The documents of a dialect, which are in its names, ready to be held against requests and answers."""

    def __init__(self, documents: Mapping[Api, JsonObject], dialect: Dialect) -> None:
        self._documents = documents
        self._dialect = dialect
        self._operations = [each for item in documents.items() for each in operations_of(*item)]
        self._headers_of: dict[Api, dict[str, JsonObject]] = {api: {} for api in documents}
        for each in self._operations:
            self._headers_of[each.api].update(each.headers)
        self._validators: dict[tuple[Api, str, bool], Validator] = {}

    def find(self, method: str, raw_path: str) -> Match:
        """What a request means. Where its path fits several, the one with the most fixed words is meant."""
        fitting = [each for each in self._operations if each.pattern.fullmatch(raw_path)]
        best = max(fitting, key=lambda each: each.fixed_words, default=None)
        if best is None:
            api = Api.CONTROL if is_control(unquote(raw_path)) else Api.MESSAGING
            return Match(api=api, operation=None, methods=())
        by_method = {each.method: each for each in fitting if each.path == best.path}
        return Match(api=best.api, operation=by_method.get(method), methods=tuple(by_method))

    # -- requests -----------------------------------------------------------------------------

    def request(self, match: Match, parts: RequestParts) -> Findings:
        """What is wrong with a request."""
        operation = match.operation
        if operation is None:
            return Findings(wrong=tuple(self._no_operation(match, parts)))
        of_body, content = self._body(operation, parts)
        wrong = [*self._headers(operation, parts), *self._query(operation, parts), *of_body]
        ignored = list(mismatches.ignored_options(operation.id, parts, content, self._dialect))
        # What the operation does not have, `_headers` has named already.
        wrong += [f"{each.what}: {each.why}" for each in ignored if each.is_of_operation]
        refusal = None
        if ignored:
            refusal = InvalidInput(ignored[0].field, f"{ignored[0].why}, and strict mode refuses it")
        return Findings(wrong=tuple(dict.fromkeys(wrong)), refusal=refusal)

    def _no_operation(self, match: Match, parts: RequestParts) -> Iterator[str]:
        needed = {Api.CONTROL} if match.api is Api.CONTROL else {Api.MESSAGING, Api.MANAGEMENT}
        if not needed <= self._documents.keys():
            return
        if match.methods:
            yield f"method {parts.method}: this path has only {', '.join(match.methods)}"
            return
        # A destination in the path would not help, and may be a secret.
        beginning = _beginning(parts.path)
        known = {_beginning(each.path) for each in self._operations}
        yield f"path: no operation has it{meant(beginning, known) if beginning not in known else ''}"

    def _headers(self, operation: RequestOperation, parts: RequestParts) -> Iterator[str]:
        for name, value in parts.headers:
            parameter = named(operation.headers, name)
            if parameter is None:
                if value.strip() or named(self._headers_of[operation.api], name) is None:
                    yield from self._unknown_header(operation, name)
            elif value.strip():
                yield from self._texts(operation.api, f"header {spelt(parameter, name)}", parameter, [value.strip()])
        present = {name for name, value in (*parts.headers, *parts.query) if value.strip()}
        for name, parameter in operation.headers.items():
            twin = text(parameter.get("x-query-name"))
            if parameter.get("required") is True and present.isdisjoint((name, twin)):
                yield f"header {text(parameter.get('name'))}: required"

    def _unknown_header(self, operation: RequestOperation, name: str) -> Iterator[str]:
        prefix = self._dialect.lower_prefix
        what = f"header {canonical_name(name)}"
        all_headers = self._headers_of[operation.api]
        hint = meant(name, (text(each.get("name")) for each in (operation.headers or all_headers).values()))
        if name.startswith(f"{prefix}{TELEMETRY}"):
            return
        if name.startswith(prefix):
            is_known = named(all_headers, name) is not None
            yield f"{what}: this operation does not read it" if is_known else f"{what}: unknown{hint}"
        elif (other := owner_of(name)) is not None:
            yield f"{what}: is of the dialect {other}, this server speaks {self._dialect.name}"
        elif name.replace("_", "-").startswith(prefix) or is_alike(
            name, [each for each in operation.headers if each.startswith(prefix)], _ALIKE
        ):
            yield f"{what}: unknown{hint}"

    def _query(self, operation: RequestOperation, parts: RequestParts) -> Iterator[str]:
        tokens = [self._dialect.token_parameter] if operation.api is Api.MESSAGING else []
        given: dict[str, list[str]] = {}
        for name, value in parts.query:
            given.setdefault(name, []).append(value)
        unknown = 0
        for name, values in given.items():
            parameter = named(operation.query, name)
            if name.lower() in [token.lower() for token in tokens]:
                continue
            if parameter is None:
                unknown += 1
                if unknown > MOST_NAMES:
                    continue
                yield from self._unknown_parameter(operation, name, [*operation.query, *tokens])
            elif any(values):
                filled = [value for value in values if value]
                yield from self._texts(operation.api, f"query parameter {name}", parameter, filled)
        for name, parameter in operation.query.items():
            is_own = parameter.get("in") == "query"
            if is_own and parameter.get("required") is True and not any(given.get(name, ())):
                yield f"query parameter {name}: required"

    def _unknown_parameter(self, operation: RequestOperation, name: str, known: Sequence[str]) -> Iterator[str]:
        if operation.takes_any_query:
            # It belongs to the destination, unless it looks like a misspelt option.
            is_ours = name.lower().replace("_", "-").startswith(self._dialect.lower_prefix)
            if not is_ours and not is_alike(name.lower(), known, _ALIKE):
                return
        yield f"query parameter {shown(name)}: unknown{meant(name, known)}"

    def _body(self, operation: RequestOperation, parts: RequestParts) -> tuple[list[str], Json]:
        """What is wrong with a body, and its JSON; that is None where it is not read, or is no JSON."""
        body = operation.resolved(operation.content.get("requestBody"))
        contents = table(body.get("content"))
        media = contents.get("application/json")
        if not parts.body.strip():
            return (["body: required"] if body.get("required") is True and media is not None else []), None
        if not body:
            return ["body: this operation reads none"], None
        if media is None or any("*" in media_type for media_type in contents):
            return [], None
        media_type = _media_type(parts.header("content-type"))
        # The control API reads JSON under any content type: `curl -d` says that it is a form.
        is_other = bool(media_type) and "json" not in media_type and operation.api is not Api.CONTROL
        wrong = ["header Content-Type: expected application/json"] if is_other else []
        try:
            check_size(parts.body)
            content: Json = json.loads(parts.body)
        except PayloadTooLarge as refused:
            # The operation refuses it for the same reason.
            return [*wrong, refused.text], None
        except (ValueError, RecursionError):
            return [*wrong, "body: is not JSON"], None
        wrong += self.value(operation.api, table(media).get("schema"), content, is_closed=True)
        return [*wrong, *self._headers_in_body(operation, content)], content

    def _headers_in_body(self, operation: RequestOperation, content: Json) -> Iterator[str]:
        """Headers that stand in a body: of a batch's items, and the defaults of a URL group."""
        if operation.id == mismatches.BATCH:
            entries = [(f"[{number}].", table(each)) for number, each in enumerate(items(content))]
        elif operation.id == _GROUP_DEFAULTS:
            entries = [("", table(content))]
        else:
            return
        publish = next(each for each in self._operations if each.id == mismatches.PUBLISH)
        lines: dict[str, list[str]] = {}
        for place, entry in entries:
            for name in map(str.lower, table(entry.get("headers"))):
                if name not in lines and len(lines) < MOST_NAMES and named(publish.headers, name) is None:
                    lines[name] = list(self._unknown_header(publish, name))
                for line in lines.get(name, ()):
                    yield f"{place}headers: {line}"

    # -- answers ------------------------------------------------------------------------------

    def answer(self, match: Match, status: int, headers: Pairs, body: bytes | None) -> tuple[str, ...]:
        """What is wrong with an answer; its body is None where it is not looked at. Header names are in lower case."""
        operation = match.operation
        if operation is not None and "default" in table(operation.content.get("responses")) and status >= 300:
            return ()  # The operation passes on what somebody else has answered.
        is_of_any_call = status in _OF_ANY_CALL or (status == 500 and _says_damaged(body))
        if status >= 500 and not is_of_any_call:
            return (f"status {status}: never part of the contract",)
        if operation is not None:
            responses = table(operation.content.get("responses"))
        elif len(self._documents) == len(Api):
            responses = {"405": _NO_METHOD} if match.methods else {"404": _ERROR}
        else:
            return ()  # The document of its API may be one that is missing.
        if is_of_any_call and operation is not None and str(status) not in responses:
            responses = {str(status): _OF_ANY_CALL.get(status, _ERROR)}
        if str(status) not in responses:
            return (f"status {status}: not in the contract",)
        api = match.api
        response = resolved(self._documents[api], responses[str(status)])
        wrong = [*self._response_headers(api, response, headers), *self._response_body(api, response, headers, body)]
        allowed = dict(headers).get("allow", "")
        if operation is None and allowed and set(allowed.split(", ")) != set(match.methods):
            wrong.append(f"header Allow: expected {', '.join(match.methods)}")
        return tuple(wrong)

    def _response_headers(self, api: Api, response: JsonObject, headers: Pairs) -> Iterator[str]:
        present = dict(headers)
        known = table(response.get("headers"))
        for name, entry in known.items():
            header = resolved(self._documents[api], entry)
            if name.lower() in present:
                yield from self._texts(api, f"header {name}", header, [present[name.lower()]])
            elif header.get("required") is True:
                yield f"header {name}: missing"
        expected = _OF_HTTP.union(each.lower() for each in known)
        yield from (f"header {canonical_name(name)}: not in the contract" for name in present if name not in expected)

    def _response_body(self, api: Api, response: JsonObject, headers: Pairs, body: bytes | None) -> Iterator[str]:
        contents = table(response.get("content"))
        media_type = _media_type(dict(headers).get("content-type"))
        if not contents:
            if body:
                yield "body: expected none"
        elif media_type not in contents:
            yield f"header Content-Type: expected {', '.join(contents)}"
        elif body is not None:
            schema = table(contents[media_type]).get("schema")
            try:
                value: Json = json.loads(body) if media_type == "application/json" else body.decode("utf-8", "replace")
            except ValueError:
                yield "body: is not JSON"
            else:
                yield from self.value(api, schema, value)

    # -- values -------------------------------------------------------------------------------

    def value(self, api: Api, schema: Json, value: Json, *, is_closed: bool = False) -> Iterator[str]:
        """What is wrong with a value by a schema of an API; a closed schema takes no fields that it does not name."""
        errors = self._validator(api, schema, is_closed=is_closed).iter_errors(value)
        for error in itertools.islice(errors, _MOST_ERRORS):
            yield from described(error)

    def _texts(self, api: Api, what: str, parameter: JsonObject, values: Sequence[str]) -> Iterator[str]:
        """What is wrong with the texts of a parameter or header; one that is repeated offers alternatives."""
        schema: Json = parameter.get("schema", {})
        content = resolved(self._documents[api], schema)
        if "array" in texts(content.get("type")):
            schema = content.get("items", {})
            content = resolved(self._documents[api], schema)
            values = [piece.strip() for value in values for piece in value.split(",") if piece.strip()]
        kinds = texts(content.get("type")) or ("string",)
        validator = self._validator(api, schema)
        for value in values:
            if not any(validator.is_valid(_typed(value, kind)) for kind in kinds):
                yield f"{what}: not as the contract says{_hint(content, parameter)}"
                return

    def _validator(self, api: Api, schema: Json, *, is_closed: bool = False) -> Validator:
        """The validator of a schema that stands in the document of an API, or could stand there."""
        from jsonschema import Draft202012Validator

        key = (api, json.dumps(schema, sort_keys=True), is_closed)
        if key not in self._validators:
            # References lead to the components of the document.
            whole = {**table(schema), "components": self._documents[api].get("components", {})}
            self._validators[key] = (_closed_validator() if is_closed else Draft202012Validator)(whole)
        return self._validators[key]


@functools.cache
def _closed_validator() -> type[Validator]:
    """The validator of closed schemas, which take no fields that they do not name.

    The service ignores what it does not know, so its contract lets that pass, and in strict mode it is a mistake.
    """
    from jsonschema import Draft202012Validator, validators

    check_named = Draft202012Validator.VALIDATORS["properties"]

    def properties(validator: Any, known: JsonObject, value: Json, schema: JsonObject) -> Iterator[ValidationError]:
        if schema.get("type") == "object" and "additionalProperties" not in schema:
            unknown = {"properties": dict.fromkeys(known, True), "additionalProperties": False}
            yield from validator.descend(value, unknown)
        yield from check_named(validator, known, value, schema)

    # Without types in its stubs.
    closed: type[Validator] = validators.extend(  # type: ignore[no-untyped-call]
        Draft202012Validator, {"properties": properties}
    )
    return closed


def _beginning(path: str) -> str:
    return "/".join(path.split("/")[:3])


def _media_type(content_type: str | None) -> str:
    return (content_type or "").partition(";")[0].strip().lower()


def _typed(value: str, kind: str) -> Json:
    """A parameter's text as the type that the contract gives it; the text itself if it is not of it."""
    if kind == "integer" and re.fullmatch(r"[+-]?[0-9]{1,20}", value):
        return int(value)
    if kind == "number" and re.fullmatch(r"[+-]?[0-9]{1,20}(?:\.[0-9]{1,20})?", value):
        return float(value)
    if kind == "boolean" and value.lower() in ("true", "false"):
        return value.lower() == "true"
    return value


def _hint(schema: JsonObject, parameter: JsonObject) -> str:
    """What would have been right: one of a few values, or something like the example."""
    choices = [text(each) for each in items(schema.get("enum"))]
    if choices:
        return f", expected {' or '.join(choices)}"
    example = example_of(parameter)
    example = next(iter(items(example)), example)
    is_shown = isinstance(example, str | int) and not isinstance(example, bool)
    return f", such as {example}" if is_shown else ""
