"""Requests and answers held against the contract, for strict mode.

A mismatch is one line that names what is wrong and what was expected, never a value: values may be
secrets, and the line goes into a log and a response header.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

from emulator.core.errors import InvalidInput
from emulator.core.headers import canonical_name
from emulator.wire.contract import Api, items, operations, parameters, resolved, table, text
from emulator.wire.dialect import BUILT_IN, Dialect, load
from emulator.wire.json_fields import WHOLE, Json, JsonObject, joined, kind_of
from emulator.wire.parts import Pairs, RequestParts

if TYPE_CHECKING:
    from jsonschema.exceptions import ValidationError
    from jsonschema.protocols import Validator

# What public clients send of themselves; the service takes no notice of it.
_TELEMETRY = "telemetry-"
# What does not apply to a queued message: it is ignored (D-021), and refused in strict mode.
_NOT_QUEUED = ("delay", "not-before", "flow-control-key", "flow-control-value")
_ENQUEUE, _PUBLISH, _BATCH, _GROUP_DEFAULTS = "enqueueMessage", "publishMessage", "publishBatch", "setUrlGroupDefaults"
# Said of every operation at once: an unknown path or method, and a request that is too large.
_ALWAYS_POSSIBLE = (404, 405, 413)
_MOST_ERRORS = 8
# A key is free text, and not every client encodes the slashes in it.
_WITH_SLASHES = ("flowControlKey",)
_BASE = "contract:"


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One operation of the contract, ready to be compared with requests."""

    api: Api
    path: str
    method: str
    pattern: re.Pattern[str]
    content: JsonObject
    headers: Mapping[str, JsonObject]
    query: Mapping[str, JsonObject]
    takes_any_query: bool

    @property
    def name(self) -> str:
        return f"{self.method} {self.path}"

    @property
    def id(self) -> str:
        return text(self.content.get("operationId"))

    def header(self, lower_name: str) -> JsonObject | None:
        """The parameter that is a header of this name, perhaps by a wildcard; None without one."""
        return _named(self.headers, lower_name)

    def parameter(self, name: str) -> JsonObject | None:
        """The parameter that a name in the query stands for, None without one."""
        return _named(self.query, name)


def _named(among: Mapping[str, JsonObject], name: str) -> JsonObject | None:
    if name in among:
        return among[name]
    wildcards = [each for each in among if each.endswith("*") and name.startswith(each[:-1]) and len(name) >= len(each)]
    return among[max(wildcards, key=len)] if wildcards else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Contract:
    """The documents of a dialect, ready to be held against requests and answers."""

    documents: Mapping[Api, JsonObject]
    dialect: Dialect
    operations: Sequence[Operation]
    validators: dict[tuple[Api, bool, str], Validator] = field(default_factory=dict)

    def find(self, method: str, raw_path: str) -> Operation | None:
        """The operation that a request means, None if there is no such."""
        for operation in self.operations:
            if operation.method == method and operation.pattern.fullmatch(raw_path):
                return operation
        return None

    # -- requests -----------------------------------------------------------------------------

    def refusal(self, operation: Operation | None, parts: RequestParts) -> InvalidInput | None:
        """Why strict mode refuses a request that the emulator would take; None if it does not."""
        if operation is None or operation.id != _ENQUEUE:
            return None
        given = {name for name, value in (*parts.headers, *parts.query) if value.strip()}
        for suffix in _NOT_QUEUED:
            if f"{self.dialect.lower_prefix}{suffix}" in {name.lower() for name in given}:
                return InvalidInput(
                    self.dialect.header(suffix), "does not apply to queued messages, and strict mode refuses it"
                )
        return None

    def request(self, operation: Operation | None, parts: RequestParts) -> tuple[str, ...]:
        """What is wrong with a request."""
        if operation is None:
            return tuple(self._no_operation(parts))
        return tuple(
            dict.fromkeys(
                (
                    *self._headers(operation, parts),
                    *self._query(operation, parts),
                    *self._body(operation, parts),
                )
            )
        )

    def _no_operation(self, parts: RequestParts) -> Iterator[str]:
        is_control = parts.path.lower().startswith("/_emulator")
        needed = {Api.CONTROL} if is_control else {Api.MESSAGING, Api.MANAGEMENT}
        if not needed <= self.documents.keys():
            return
        methods = [each.method for each in self.operations if each.pattern.fullmatch(parts.path)]
        if methods:
            yield f"method {parts.method}: this path has only {', '.join(dict.fromkeys(methods))}"
            return
        # A destination in the path would be no help, and none of anyone's business.
        fixed = "/".join(parts.path.split("/")[:3])
        known = {"/".join(each.path.split("/")[:3]) for each in self.operations}
        yield f"path: no operation has it{_meant(fixed, known) if fixed not in known else ''}"

    def _headers(self, operation: Operation, parts: RequestParts) -> Iterator[str]:
        for name, value in parts.headers:
            parameter = operation.header(name)
            if parameter is None:
                if value.strip() or _named(self._all_headers(operation.api), name) is None:
                    yield from self._unknown_header(operation, name)
            elif value.strip():
                yield from self._value(operation.api, f"header {_spelt(parameter, name)}", parameter, [value.strip()])
        present = {name for name, value in (*parts.headers, *parts.query) if value.strip()}
        for name, parameter in operation.headers.items():
            twin = text(parameter.get("x-query-name"))
            if parameter.get("required") is True and name not in present and twin not in present:
                yield f"header {text(parameter.get('name'))}: required"

    def _unknown_header(self, operation: Operation, name: str) -> Iterator[str]:
        prefix = self.dialect.lower_prefix
        shown = f"header {canonical_name(name)}"
        if name.startswith(prefix):
            if name.startswith(f"{prefix}{_TELEMETRY}"):
                return
            known = self._all_headers(operation.api)
            if _named(known, name) is not None:
                yield f"{shown}: this operation does not read it"
            else:
                yield f"{shown}: unknown{_meant_header(name, operation.headers or known)}"
        elif (other := _dialect_of(name)) is not None:
            yield f"{shown}: is of the dialect {other}, this server speaks {self.dialect.name}"
        elif name.replace("_", "-").startswith(prefix) or difflib.get_close_matches(
            name, [each for each in operation.headers if each.startswith(prefix)], 1, 0.85
        ):
            yield f"{shown}: unknown{_meant_header(name, operation.headers)}"

    def _all_headers(self, api: Api) -> dict[str, JsonObject]:
        return {name: each for one in self.operations if one.api is api for name, each in one.headers.items()}

    def _query(self, operation: Operation, parts: RequestParts) -> Iterator[str]:
        token = self.dialect.token_parameter
        given: dict[str, list[str]] = {}
        for name, value in parts.query:
            given.setdefault(name, []).append(value)
        for name, values in given.items():
            if operation.api is Api.MESSAGING and name.lower() == token.lower():
                continue
            parameter = operation.parameter(name)
            if parameter is None:
                known = [*operation.query, *([token] if operation.api is Api.MESSAGING else [])]
                yield from self._unknown_parameter(operation, name, known)
            elif any(values):
                filled = [value for value in values if value]
                yield from self._value(operation.api, f"query parameter {name}", parameter, filled)
        for name, parameter in operation.query.items():
            is_own = parameter.get("in") == "query"
            if is_own and parameter.get("required") is True and not any(given.get(name, ())):
                yield f"query parameter {name}: required"

    def _unknown_parameter(self, operation: Operation, name: str, known: Sequence[str]) -> Iterator[str]:
        meant = _meant(name, known)
        if operation.takes_any_query:
            # It belongs to the destination, unless it is one of ours that is misspelt.
            ours = name.lower().replace("_", "-").startswith(self.dialect.lower_prefix)
            if not ours and not difflib.get_close_matches(name.lower(), known, 1, 0.85):
                return
        yield f"query parameter {_shown(name)}: unknown{meant}"

    def _value(self, api: Api, what: str, parameter: JsonObject, values: Sequence[str]) -> Iterator[str]:
        """What is wrong with a parameter's texts."""
        schema = resolved(self.documents[api], parameter.get("schema"))
        types = _types(schema)
        inner: Json = parameter.get("schema", {})
        if "array" in types:
            inner = schema.get("items", {})
            types = _types(resolved(self.documents[api], inner))
            values = [piece.strip() for value in values for piece in value.split(",") if piece.strip()]
        elif len(values) > 1:
            # A repeated filter offers alternatives; a repeated option the emulator refuses itself.
            values = values[:_MOST_ERRORS]
        for value in values:
            found = [_typed(value, kind) for kind in types] or [value]
            if not any(self._is_valid(api, inner, each) for each in found):
                example = _example(parameter)
                yield f"{what}: not as the contract says{f', such as {example}' if example else ''}"
                return

    # -- bodies of requests -------------------------------------------------------------------

    def _body(self, operation: Operation, parts: RequestParts) -> Iterator[str]:
        body = resolved(self.documents[operation.api], operation.content.get("requestBody"))
        if not body:
            if parts.body.strip():
                yield "body: this operation reads none"
            return
        if not parts.body.strip():
            if body.get("required") is True and _json_schema(body) is not None:
                yield "body: required"
            return
        schema = _json_schema(body)
        if schema is None or any("*" in media_type for media_type in table(body.get("content"))):
            return
        media_type = (parts.header("content-type") or "").partition(";")[0].strip().lower()
        # The control API takes JSON whatever it is called, as `curl -d` calls it a form.
        if media_type and "json" not in media_type and operation.api is not Api.CONTROL:
            yield "header Content-Type: expected application/json"
        try:
            content: Json = json.loads(parts.body)
        except (ValueError, RecursionError):
            yield "body: is not JSON"
            return
        yield from self._json(operation.api, schema, content, is_closed=True)
        yield from self._headers_in_body(operation, content)

    def _headers_in_body(self, operation: Operation, content: Json) -> Iterator[str]:
        """Headers that stand in a body: of a batch's items, and the defaults of a URL group."""
        if operation.id == _BATCH:
            entries = [(f"[{number}].", table(each)) for number, each in enumerate(items(content))]
        elif operation.id == _GROUP_DEFAULTS:
            entries = [("", table(content))]
        else:
            return
        publish = next((each for each in self.operations if each.id == _PUBLISH), None)
        if publish is None:
            return
        for place, entry in entries:
            queued = isinstance(entry.get("queue"), str) and bool(entry["queue"])
            for name, value in table(entry.get("headers")).items():
                lower_name = name.lower()
                if publish.header(lower_name) is None:
                    for line in self._unknown_header(publish, lower_name):
                        yield f"{place}headers: {line}"
                elif queued and value and lower_name.removeprefix(self.dialect.lower_prefix) in _NOT_QUEUED:
                    yield f"{place}headers: header {canonical_name(lower_name)}: does not apply to queued messages"

    # -- answers ------------------------------------------------------------------------------

    def answer(self, operation: Operation | None, status: int, headers: Pairs, body: bytes | None) -> tuple[str, ...]:
        """What is wrong with an answer; its body is None where it is not looked at. Header names are in lower case."""
        if status >= 500 and status != 501:
            return (f"status {status}: never part of the contract",)
        if operation is None:
            # Of an API without a document nothing can be said.
            is_known = status in (*_ALWAYS_POSSIBLE, 400, 401, 403) or len(self.documents) < len(Api)
            return () if is_known else (f"status {status}: not in the contract",)
        document = self.documents[operation.api]
        responses = table(operation.content.get("responses"))
        given = responses.get(str(status), responses.get(f"{status // 100}XX", responses.get("default")))
        if given is None:
            return () if status in _ALWAYS_POSSIBLE else (f"status {status}: not in the contract",)
        return tuple(self._response(operation.api, resolved(document, given), headers, body))

    def _response(self, api: Api, response: JsonObject, headers: Pairs, body: bytes | None) -> Iterator[str]:
        document, present = self.documents[api], dict(headers)
        for name, entry in table(response.get("headers")).items():
            header = resolved(document, entry)
            if name.lower() in present:
                yield from self._value(api, f"header {name}", header, [present[name.lower()]])
            elif header.get("required") is True:
                yield f"header {name}: missing"
        content = table(response.get("content"))
        if body is not None and not content and body.strip():
            yield "body: expected none"
        media_type = present.get("content-type", "").partition(";")[0].strip().lower()
        if content and not any(each.partition(";")[0].strip().lower() in (media_type, "*/*") for each in content):
            yield f"header Content-Type: expected {', '.join(content)}"
            return
        schema = _json_schema(response)
        if body is None or schema is None or media_type != "application/json":
            return
        try:
            value: Json = json.loads(body)
        except ValueError:
            yield "body: is not JSON"
            return
        yield from self._json(api, schema, value)

    # -- schemas ------------------------------------------------------------------------------

    def _json(self, api: Api, schema: Json, value: Json, *, is_closed: bool = False) -> Iterator[str]:
        for number, error in enumerate(self._validator(api, schema, is_closed=is_closed).iter_errors(value)):
            if number == _MOST_ERRORS:
                return
            yield from _described(error, "")

    def _is_valid(self, api: Api, schema: Json, value: Json) -> bool:
        return self._validator(api, schema).is_valid(value)

    def _validator(self, api: Api, schema: Json, *, is_closed: bool = False) -> Validator:
        """The validator of a schema; a closed one takes no fields that the schema does not name."""
        key = (api, is_closed, json.dumps(schema, sort_keys=True))
        if key not in self.validators:
            document: Json = self.documents[api]
            if is_closed:
                document, schema = _closed(document), _closed(schema)
            self.validators[key] = _validator(table(document), schema)
        return self.validators[key]


def prepare(documents: Mapping[Api, JsonObject], dialect: Dialect) -> Contract:
    """The contract of these documents, which are in the dialect's names."""
    found = [
        _operation(api, document, path, method, content)
        for api, document in documents.items()
        for path, method, content in operations(document)
    ]
    # A fixed word is a better match than a parameter, and the rest of a path the worst.
    found.sort(key=lambda each: (each.takes_any_query, each.path.count("{")))
    return Contract(documents=documents, dialect=dialect, operations=found)


def _operation(api: Api, document: JsonObject, path: str, method: str, content: JsonObject) -> Operation:
    headers: dict[str, JsonObject] = {}
    query: dict[str, JsonObject] = {}
    raw: set[str] = set()
    for parameter in parameters(document, path, content):
        name, where = text(parameter.get("name")), parameter.get("in")
        if where == "header":
            headers[name.lower()] = parameter
            if twin := text(parameter.get("x-query-name")):
                query[twin] = parameter
        elif where == "query":
            query[name] = parameter
        elif parameter.get("x-raw-path") is True:
            raw.add(name)
    pieces = re.split(r"\{([^}]*)\}", path)
    pattern = "".join(
        re.escape(piece) if number % 2 == 0 else (".+" if piece in raw or piece in _WITH_SLASHES else "[^/]+")
        for number, piece in enumerate(pieces)
    )
    return Operation(
        api=api,
        path=path,
        method=method,
        pattern=re.compile(pattern if raw else f"{pattern}/?", re.IGNORECASE | re.DOTALL),
        content=content,
        headers=headers,
        query=query,
        takes_any_query=bool(raw),
    )


def _validator(document: JsonObject, schema: Json) -> Validator:
    from jsonschema import Draft202012Validator
    from referencing import Registry
    from referencing.jsonschema import DRAFT202012, SchemaRegistry

    registry: SchemaRegistry = Registry()
    registry = registry.with_resource(_BASE, DRAFT202012.create_resource(document))
    # References within the schema are meant from the document that it stands in.
    return Draft202012Validator(_absolute(schema), registry=registry)


def _closed(value: Json) -> Json:
    """A document or schema whose objects have no other fields than those that are named.

    The service ignores what it does not know, so its contract lets it pass; in strict mode it is a mistake.
    """
    match value:
        case str():
            return value
        case Mapping():
            found = {key: _closed(each) for key, each in value.items()}
            is_object = value.get("type") == "object" and isinstance(value.get("properties"), Mapping)
            return {"additionalProperties": False, **found} if is_object else found
        case Sequence():
            return [_closed(each) for each in value]
        case _:
            return value


def _absolute(value: Json) -> dict[str, object]:
    """A schema whose own references name the document. What they lead to resolves against it already."""
    found = _with_base(value)
    return found if isinstance(found, dict) else {}


def _with_base(value: Json) -> object:
    match value:
        case Mapping():
            return {
                key: f"{_BASE}{each}" if key == "$ref" and isinstance(each, str) else _with_base(each)
                for key, each in value.items()
            }
        case str():
            return value
        case Sequence():
            return [_with_base(each) for each in value]
        case _:
            return value


def _json_schema(holder: JsonObject) -> Json:
    """The schema of the JSON content of a body, None without one."""
    for media_type, media in table(holder.get("content")).items():
        if media_type.partition(";")[0].strip().lower() == "application/json":
            return table(media).get("schema")
    return None


def _types(schema: JsonObject) -> tuple[str, ...]:
    given = schema.get("type")
    return (given,) if isinstance(given, str) else tuple(text(each) for each in items(given))


def _typed(value: str, kind: str) -> Json:
    """A parameter's text as the type that the contract gives it; the text itself if it is not of it."""
    if kind == "integer" and re.fullmatch(r"[+-]?[0-9]{1,20}", value):
        return int(value)
    if kind == "number" and re.fullmatch(r"[+-]?[0-9]{1,20}(?:\.[0-9]{1,20})?", value):
        return float(value)
    if kind == "boolean" and value.lower() in ("true", "false"):
        return value.lower() == "true"
    return value


def _example(parameter: JsonObject) -> str:
    example = parameter.get("example")
    if example is None:
        example = next((table(each).get("value") for each in table(parameter.get("examples")).values()), None)
    return str(example) if isinstance(example, str | int) and not isinstance(example, bool) else ""


# -- words ------------------------------------------------------------------------------------


def _described(error: ValidationError, place: str) -> Iterator[str]:
    path = place
    for key in error.path:
        path = f"{path}[{key}]" if isinstance(key, int) else joined(path, key)
    schema = error.schema if isinstance(error.schema, Mapping) else {}
    known = table(schema.get("properties"))
    instance, rule = cast(Json, error.instance), cast(Json, error.validator_value)
    match error.validator:
        case "additionalProperties" if isinstance(instance, Mapping) and not isinstance(rule, Mapping):
            for name in instance:
                if name not in known:
                    yield f"{_shown(joined(path, name))}: unknown field{_meant(name, known)}"
        case "required" if isinstance(instance, Mapping):
            for needed in items(rule):
                if isinstance(needed, str) and needed not in instance:
                    yield f"{joined(path, needed)}: missing"
        case "type":
            kinds = rule if isinstance(rule, str) else " or ".join(text(each) for each in items(rule))
            yield f"{_shown(path or WHOLE)}: expected {kinds}, got {kind_of(instance)}"
        case "enum":
            choices = ", ".join(json.dumps(each) for each in items(rule))
            yield f"{_shown(path or WHOLE)}: expected one of {choices}"
        case "oneOf" | "anyOf" if error.context:
            # The alternative that fits best is most likely the one that was meant.
            branches: dict[object, list[ValidationError]] = {}
            for each in error.context:
                branches.setdefault(each.schema_path[0], []).append(each)
            for each in min(branches.values(), key=_distance):
                yield from _described(each, place)
        case _:
            words = f" {rule}" if isinstance(rule, int | float | str) else ""
            yield f"{_shown(path or WHOLE)}: not as the contract says ({error.validator}{words})"


def _distance(errors: list[ValidationError]) -> tuple[int, int]:
    """An alternative of another kind altogether is far, however little else is wrong."""
    return sum(each.validator == "type" and not each.path for each in errors), len(errors)


def _meant(name: str, known: Iterable[str]) -> str:
    by_lower = {each.lower(): each for each in known if not each.endswith("*")}
    close = difflib.get_close_matches(name.lower(), by_lower, 1, 0.6)
    return f", did you mean {by_lower[close[0]]}?" if close else ""


def _meant_header(name: str, known: Mapping[str, JsonObject]) -> str:
    close = difflib.get_close_matches(name, [each for each in known if not each.endswith("*")], 1, 0.6)
    return f", did you mean {text(known[close[0]].get('name'))}?" if close else ""


def _spelt(parameter: JsonObject, lower_name: str) -> str:
    name = text(parameter.get("name"))
    return canonical_name(lower_name) if name.endswith("*") else name


def _shown(name: str) -> str:
    return name if len(name) <= 80 else f"{name[:80]}…"


def _dialect_of(lower_name: str) -> str | None:
    """The built-in dialect whose prefix a header has."""
    for name in BUILT_IN:
        dialect = load(name)
        if lower_name.startswith(dialect.lower_prefix) and not lower_name.startswith("svc-emulator"):
            return name
    return None
