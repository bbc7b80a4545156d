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
from typing import TYPE_CHECKING

from emulator.contract.document import Api, items, operations, parameters, resolved, table, text
from emulator.contract.schemas import closed, validator
from emulator.contract.words import described, meant, meant_header, shown, spelt
from emulator.core.errors import InvalidInput
from emulator.core.language.headers import canonical_name
from emulator.core.record import Record
from emulator.wire.dialect import BUILT_IN, Dialect, load
from emulator.wire.json_fields import Json, JsonObject
from emulator.wire.parts import Pairs, RequestParts

if TYPE_CHECKING:
    from jsonschema.protocols import Validator

# What public clients send of themselves; the service takes no notice of it.
_TELEMETRY = "telemetry-"
# What does not apply to a queued message: it is ignored (D-021), and refused in strict mode.
_NOT_QUEUED = ("delay", "not-before", "flow-control-key", "flow-control-value")
# A schedule that publishes into a queue keeps its delay.
_NOT_QUEUED_BY_SCHEDULES = ("flow-control-key", "flow-control-value")
_ENQUEUE, _PUBLISH, _SCHEDULE, _BATCH = "enqueueMessage", "publishMessage", "createSchedule", "publishBatch"
_GROUP_DEFAULTS = "setUrlGroupDefaults"
# Said of every operation at once: an unknown path or method, and a request that is too large.
_ALWAYS_POSSIBLE = (404, 405, 413)
_MOST_ERRORS = 8
# A key is free text, and not every client encodes the slashes in it.
_WITH_SLASHES = ("flowControlKey",)


class Operation(Record):
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
        for place, suffix in self._ignored_by_queues(operation, parts):
            header = self.dialect.header(suffix)
            field_name = f"{place}headers.{header}" if place else header
            return InvalidInput(field_name, "does not apply to queued messages, and strict mode refuses it")
        return None

    def _ignored_by_queues(self, operation: Operation | None, parts: RequestParts) -> Iterator[tuple[str, str]]:
        """Options for queued messages that a queue takes no notice of: where they stand, and their names (D-021)."""
        if operation is None:
            return
        if operation.id == _BATCH:
            for number, entry in enumerate(items(_decoded(parts.body))):
                item = table(entry)
                given = {name.lower() for name, value in table(item.get("headers")).items() if text(value).strip()}
                if text(item.get("queue")) or self._queue_name in given:
                    yield from ((f"[{number}].", suffix) for suffix in self._given_of(_NOT_QUEUED, given))
            return
        given = {name.lower() for name, value in (*parts.headers, *parts.query) if value.strip()}
        if operation.id == _ENQUEUE or (operation.id == _PUBLISH and self._queue_name in given):
            yield from (("", suffix) for suffix in self._given_of(_NOT_QUEUED, given))
        elif operation.id == _SCHEDULE and self._queue_name in given:
            yield from (("", suffix) for suffix in self._given_of(_NOT_QUEUED_BY_SCHEDULES, given))

    @property
    def _queue_name(self) -> str:
        return f"{self.dialect.lower_prefix}queue-name"

    def _given_of(self, suffixes: Iterable[str], given: set[str]) -> Iterator[str]:
        return (suffix for suffix in suffixes if f"{self.dialect.lower_prefix}{suffix}" in given)

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
                    *self._queued(operation, parts),
                )
            )
        )

    def _queued(self, operation: Operation, parts: RequestParts) -> Iterator[str]:
        if operation.id != _ENQUEUE:  # It has none of these to begin with, as is said with its headers.
            for place, suffix in self._ignored_by_queues(operation, parts):
                header = self.dialect.header(suffix)
                shown = f"{place}headers: header {header}" if place else f"header {header}"
                yield f"{shown}: does not apply to queued messages"

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
        yield f"path: no operation has it{meant(fixed, known) if fixed not in known else ''}"

    def _headers(self, operation: Operation, parts: RequestParts) -> Iterator[str]:
        for name, value in parts.headers:
            parameter = operation.header(name)
            if parameter is None:
                if value.strip() or _named(self._all_headers(operation.api), name) is None:
                    yield from self._unknown_header(operation, name)
            elif value.strip():
                yield from self._value(operation.api, f"header {spelt(parameter, name)}", parameter, [value.strip()])
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
                yield f"{shown}: unknown{meant_header(name, operation.headers or known)}"
        elif (other := _dialect_of(name)) is not None:
            yield f"{shown}: is of the dialect {other}, this server speaks {self.dialect.name}"
        elif name.replace("_", "-").startswith(prefix) or difflib.get_close_matches(
            name, [each for each in operation.headers if each.startswith(prefix)], 1, 0.85
        ):
            yield f"{shown}: unknown{meant_header(name, operation.headers)}"

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
        hint = meant(name, known)
        if operation.takes_any_query:
            # It belongs to the destination, unless it is one of ours that is misspelt.
            ours = name.lower().replace("_", "-").startswith(self.dialect.lower_prefix)
            if not ours and not difflib.get_close_matches(name.lower(), known, 1, 0.85):
                return
        yield f"query parameter {shown(name)}: unknown{hint}"

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
                yield f"{what}: not as the contract says{_hint(resolved(self.documents[api], inner), parameter)}"
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
            for name in table(entry.get("headers")):
                lower_name = name.lower()
                if publish.header(lower_name) is None:
                    for line in self._unknown_header(publish, lower_name):
                        yield f"{place}headers: {line}"

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
            yield from described(error)

    def _is_valid(self, api: Api, schema: Json, value: Json) -> bool:
        return self._validator(api, schema).is_valid(value)

    def _validator(self, api: Api, schema: Json, *, is_closed: bool = False) -> Validator:
        """The validator of a schema; a closed one takes no fields that the schema does not name."""
        key = (api, is_closed, json.dumps(schema, sort_keys=True))
        if key not in self.validators:
            document: Json = self.documents[api]
            if is_closed:
                document, schema = closed(document), closed(schema)
            self.validators[key] = validator(table(document), schema)
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


def _decoded(body: bytes) -> Json:
    """The JSON of a body, None if it is no JSON."""
    try:
        content: Json = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return content


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


def _hint(schema: JsonObject, parameter: JsonObject) -> str:
    """What would have been right: one of a few values, or something like the example."""
    choices = [text(each) for each in items(schema.get("enum"))]
    if choices:
        return f", expected {' or '.join(choices)}"
    example = parameter.get("example")
    if example is None:
        example = next((table(each).get("value") for each in table(parameter.get("examples")).values()), None)
    example = next(iter(items(example)), example)
    is_shown = isinstance(example, str | int) and not isinstance(example, bool)
    return f", such as {example}" if is_shown else ""


def _dialect_of(lower_name: str) -> str | None:
    """The built-in dialect whose prefix a header has."""
    for name in BUILT_IN:
        dialect = load(name)
        if lower_name.startswith(dialect.lower_prefix) and not lower_name.startswith("svc-emulator"):
            return name
    return None
