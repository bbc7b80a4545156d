"""How two OpenAPI documents differ, and whom each difference breaks.

A difference breaks *their* clients if a client written for the other document fails on the emulator,
and *our* clients if one that was tried on the emulator fails where the other document holds.
"""

from __future__ import annotations

import enum
import functools
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from emulator.contract.document import items, operations, parameters, resolved, table, text
from emulator.core.record import Record
from emulator.wire.json_fields import Json, JsonObject

# Schemas may hold themselves; nothing that people send is nested deeper.
_DEEPEST = 12


class Side(enum.StrEnum):
    """Whose clients a difference breaks."""

    THEIRS = "theirs"
    OURS = "ours"


_BOTH = frozenset(Side)
_NOBODY: frozenset[Side] = frozenset()


class Difference(Record):
    """One difference: in which operation, of what, what each document says, and whose clients it breaks."""

    operation: str
    what: str
    theirs: str
    ours: str
    breaks: frozenset[Side]


@dataclass(frozen=True, slots=True)
class _Operation:
    document: JsonObject
    path: str
    method: str
    content: JsonObject

    @property
    def name(self) -> str:
        return f"{self.method} {self.path}"


def common_paths(ours: JsonObject, theirs: JsonObject) -> int:
    """How many paths two documents share."""
    return len({path for path, _ in _operations(ours)} & {path for path, _ in _operations(theirs)})


def compare(ours: JsonObject, theirs: JsonObject) -> tuple[Difference, ...]:
    """Every difference, in the order of our operations and then of theirs."""
    own, other = _operations(ours), _operations(theirs)
    found: list[Difference] = []
    for key, operation in own.items():
        if key in other:
            found += _operation(operation, other[key])
        else:
            found.append(_only(operation.name, "operation", Side.OURS, "there", {Side.OURS}))
    found += [
        _only(operation.name, "operation", Side.THEIRS, "there", {Side.THEIRS})
        for key, operation in other.items()
        if key not in own
    ]
    return tuple(dict.fromkeys(found))


def _operations(document: JsonObject) -> dict[tuple[str, str], _Operation]:
    """The operations by path and method; a path is the same whatever its parameters are called."""
    base = ""
    for server in items(document.get("servers"))[:1]:
        try:
            base = urlsplit(text(table(server).get("url"))).path.rstrip("/")
        except ValueError:
            base = ""
    return {
        (re.sub(r"\{[^}]*\}", "{}", f"{base}{path}").rstrip("/").lower(), method): _Operation(
            document, path, method, content
        )
        for path, method, content in operations(document)
    }


def _only(
    operation: str, what: str, side: Side, value: str, breaks: set[Side] | frozenset[Side] = _NOBODY
) -> Difference:
    theirs, ours = (value, "—") if side is Side.THEIRS else ("—", value)
    return Difference(operation=operation, what=what, theirs=theirs, ours=ours, breaks=frozenset(breaks))


def _operation(ours: _Operation, theirs: _Operation) -> Iterator[Difference]:
    yield from _parameters(ours, theirs)
    yield from _request_bodies(ours, theirs)
    yield from _responses(ours, theirs)


# -- parameters -------------------------------------------------------------------------------

# What OpenAPI says elsewhere: in content and in security.
_NO_PARAMETERS = frozenset(("accept", "authorization", "content-type"))

_Parameters = dict[tuple[str, str], JsonObject]


def _parameters(ours: _Operation, theirs: _Operation) -> Iterator[Difference]:
    own, other = _parameters_of(ours), _parameters_of(theirs)
    met: set[tuple[str, str]] = set()
    for key, parameter in other.items():
        twin = _find(key, own)
        if twin is None:
            needed = parameter.get("required") is True
            breaks = _BOTH if needed else {Side.THEIRS}
            yield _only(ours.name, _parameter_name(parameter), Side.THEIRS, "required" if needed else "there", breaks)
            continue
        met.add(twin)
        yield from _parameter(ours, theirs, own[twin], parameter)
    for key, parameter in own.items():
        if key not in met and _find(key, other) is None:
            needed = parameter.get("required") is True
            breaks = _BOTH if needed else {Side.OURS}
            yield _only(ours.name, _parameter_name(parameter), Side.OURS, "required" if needed else "there", breaks)
    yield from _path_parameters(ours, theirs)


def _parameters_of(operation: _Operation) -> _Parameters:
    return {
        (text(each.get("in")), text(each.get("name")).lower()): each
        for each in parameters(operation.document, operation.path, operation.content)
        if each.get("in") in ("query", "header", "cookie") and text(each.get("name")).lower() not in _NO_PARAMETERS
    }


def _find(key: tuple[str, str], among: _Parameters) -> tuple[str, str] | None:
    """The parameter of that name, its twin in the query, or the wildcard that stands for it."""
    if key in among:
        return key
    where, name = key
    for other, parameter in among.items():
        twin = text(parameter.get("x-query-name")).lower()
        if where == "query" and twin == name:
            return other
        if other[0] == where and other[1].endswith("*") and name.startswith(other[1][:-1]):
            return other
        if other[0] == where and name.endswith("*") and other[1].startswith(name[:-1]):
            return other
    return None


def _parameter_name(parameter: JsonObject) -> str:
    return f"{text(parameter.get('in'))} parameter {text(parameter.get('name'))}"


def _parameter(ours: _Operation, theirs: _Operation, own: JsonObject, other: JsonObject) -> Iterator[Difference]:
    what = _parameter_name(other)
    yield from _need(ours.name, what, own.get("required") is True, other.get("required") is True, is_request=True)
    walk = _Walk(ours.name, ours.document, theirs.document, is_request=True, is_text=True)
    yield from walk.schemas(what, _schema_of(own), _schema_of(other), 0)


def _path_parameters(ours: _Operation, theirs: _Operation) -> Iterator[Difference]:
    walk = _Walk(ours.name, ours.document, theirs.document, is_request=True, is_text=True)
    for own, other in zip(_in_path(ours), _in_path(theirs), strict=False):
        yield from walk.schemas(_parameter_name(other), _schema_of(own), _schema_of(other), 0)


def _in_path(operation: _Operation) -> list[JsonObject]:
    named = {
        text(each.get("name")): each
        for each in parameters(operation.document, operation.path, operation.content)
        if each.get("in") == "path"
    }
    return [named.get(name, {"in": "path", "name": name}) for name in re.findall(r"\{([^}]*)\}", operation.path)]


def _schema_of(parameter: JsonObject) -> Json:
    return parameter.get("schema", {})


def _need(operation: str, what: str, ours: bool, theirs: bool, *, is_request: bool) -> Iterator[Difference]:
    if ours == theirs:
        return
    # A request without what one side requires fails there; an answer without it fails the other's clients.
    demanding, other = (Side.OURS, Side.THEIRS) if ours else (Side.THEIRS, Side.OURS)
    words = {True: "required", False: "optional"}
    yield Difference(
        operation=operation,
        what=what,
        theirs=words[theirs],
        ours=words[ours],
        breaks=frozenset({other if is_request else demanding}),
    )


# -- bodies -----------------------------------------------------------------------------------


def _request_bodies(ours: _Operation, theirs: _Operation) -> Iterator[Difference]:
    own = resolved(ours.document, ours.content.get("requestBody"))
    other = resolved(theirs.document, theirs.content.get("requestBody"))
    if not own and not other:
        return
    if not own or not other:
        side, body = (Side.OURS, own) if own else (Side.THEIRS, other)
        needed = body.get("required") is True
        yield _only(ours.name, "request body", side, "required" if needed else "optional", _BOTH if needed else {side})
        return
    yield from _need(
        ours.name, "request body", own.get("required") is True, other.get("required") is True, is_request=True
    )
    yield from _contents(ours, theirs, own, other, "request", is_request=True)


def _responses(ours: _Operation, theirs: _Operation) -> Iterator[Difference]:
    own, other = table(ours.content.get("responses")), table(theirs.content.get("responses"))
    for status in other:
        if _status(status, own) is None:
            # Their client meets it nowhere here; ours is not ready for it.
            yield _only(ours.name, f"response {status}", Side.THEIRS, "there", _success(status, Side.OURS))
    for status, response in own.items():
        twin = _status(status, other)
        if twin is None:
            yield _only(ours.name, f"response {status}", Side.OURS, "there", _success(status, Side.THEIRS))
            continue
        mine, yours = resolved(ours.document, response), resolved(theirs.document, other[twin])
        yield from _contents(ours, theirs, mine, yours, f"response {status}", is_request=False)


def _success(status: str, side: Side) -> frozenset[Side]:
    return frozenset({side}) if status.startswith("2") else _NOBODY


def _status(status: str, among: Mapping[str, Json]) -> str | None:
    for candidate in (status, f"{status[:1]}XX", f"{status[:1]}xx", "default"):
        if candidate in among:
            return candidate
    if status == "default":
        return next((each for each in among if not each.startswith("2")), None)
    if status.upper().endswith("XX"):
        return next((each for each in among if each[:1] == status[:1]), None)
    return None


def _contents(
    ours: _Operation, theirs: _Operation, own: JsonObject, other: JsonObject, what: str, *, is_request: bool
) -> Iterator[Difference]:
    mine, yours = table(own.get("content")), table(other.get("content"))
    if not mine or not yours:
        if mine or yours:
            side, content = (Side.OURS, mine) if mine else (Side.THEIRS, yours)
            # Who gets an answer that was promised and is not there is broken; an unexpected one is not read.
            is_json = any("json" in each for each in content)
            broken = frozenset({side}) if is_json or is_request else _NOBODY
            yield _only(ours.name, f"{what} content", side, ", ".join(content), broken)
        return
    one, another = _json_of(mine), _json_of(yours)
    if one is None or another is None:
        if (one is None) != (another is None) and not any("*" in each for each in (*mine, *yours)):
            yield Difference(
                operation=ours.name,
                what=f"{what} content",
                theirs=", ".join(yours),
                ours=", ".join(mine),
                breaks=_BOTH,
            )
        return
    walk = _Walk(ours.name, ours.document, theirs.document, is_request=is_request)
    yield from walk.schemas(what, one.get("schema", {}), another.get("schema", {}), 0)


def _json_of(content: JsonObject) -> JsonObject | None:
    for media_type, media in content.items():
        name = media_type.partition(";")[0].strip().lower()
        if name == "application/json" or name.endswith("+json"):
            return table(media)
    return None


# -- schemas ----------------------------------------------------------------------------------


class _Shape(Record):
    """What matters of a schema; no types mean any type, no choices (None) any value."""

    types: frozenset[str] = frozenset()
    choices: frozenset[str] | None = None
    fields: Mapping[str, Json]
    required: frozenset[str] = frozenset()
    items: Json = None


def _shape(document: JsonObject, value: Json, depth: int = 0) -> _Shape:
    schema = resolved(document, value)
    if depth > _DEEPEST:
        return _Shape(fields={})
    given = schema.get("type")
    types = {given} if isinstance(given, str) else {text(each) for each in items(given)}
    fields = table(schema.get("properties"))
    if not types and fields:
        types = {"object"}
    if schema.get("nullable") is True and types:
        types.add("null")
    choices: frozenset[str] | None = None
    if "const" in schema:
        choices = frozenset({_text_of(schema["const"])})
    elif "enum" in schema:
        choices = frozenset(_text_of(each) for each in items(schema["enum"]))
    own = _Shape(
        types=_widened(types),
        choices=choices,
        fields=fields,
        required=frozenset(text(each) for each in items(schema.get("required"))),
        items=schema.get("items"),
    )
    for part in items(schema.get("allOf")):
        own = _all_of(own, _shape(document, part, depth + 1))
    for key in ("oneOf", "anyOf"):
        if alternatives := [_shape(document, part, depth + 1) for part in items(schema.get(key))]:
            own = _all_of(own, functools.reduce(_any_of, alternatives))
    return own


def _widened(types: set[str]) -> frozenset[str]:
    return frozenset(types | {"integer"}) if "number" in types else frozenset(types)


def _all_of(one: _Shape, other: _Shape) -> _Shape:
    both = one.types & other.types if one.types and other.types else one.types | other.types
    if one.choices is None or other.choices is None:
        choices = one.choices if other.choices is None else other.choices
    else:
        choices = one.choices & other.choices
    return _Shape(
        types=both,
        choices=choices,
        fields={**one.fields, **other.fields},
        required=one.required | other.required,
        items=one.items if other.items is None else other.items,
    )


def _any_of(one: _Shape, other: _Shape) -> _Shape:
    objects = [each for each in (one, other) if "object" in each.types or each.fields]
    required = frozenset.intersection(*(each.required for each in objects)) if objects else frozenset()
    return _Shape(
        types=one.types | other.types if one.types and other.types else frozenset(),
        choices=None if one.choices is None or other.choices is None else one.choices | other.choices,
        fields={**one.fields, **other.fields},
        required=required,
        items=one.items if other.items is None else other.items,
    )


@dataclass(frozen=True, slots=True)
class _Walk:
    """Two schemas side by side. `is_text` says that the values are texts on the wire, as parameters are."""

    operation: str
    our_document: JsonObject
    their_document: JsonObject
    is_request: bool
    is_text: bool = False

    def schemas(self, what: str, ours: Json, theirs: Json, depth: int) -> Iterator[Difference]:
        own, other = _shape(self.our_document, ours), _shape(self.their_document, theirs)
        yield from self._types(what, own, other)
        if own.types and other.types and own.types.isdisjoint(other.types):
            return
        yield from self._choices(what, own, other)
        if depth < _DEEPEST:
            yield from self._fields(what, own, other, depth)
            if own.items is not None and other.items is not None:
                yield from self.schemas(_inside(what, "[]"), own.items, other.items, depth + 1)

    def _breaks(self, *, only_theirs: bool, only_ours: bool) -> frozenset[Side]:
        """Whom it breaks that values exist on one side only.

        A request with such a value fails on the other side; an answer with it fails the other's clients.
        """
        theirs, ours = (Side.THEIRS, Side.OURS) if self.is_request else (Side.OURS, Side.THEIRS)
        return frozenset(side for side, is_so in ((theirs, only_theirs), (ours, only_ours)) if is_so)

    def _types(self, what: str, own: _Shape, other: _Shape) -> Iterator[Difference]:
        mine, yours = own.types, other.types
        if not mine or not yours or mine == yours:
            return
        if self.is_text and ("string" in mine or "string" in yours or "array" in mine | yours):
            return  # Every parameter is a text; what it may hold, an enumeration or a pattern says.
        yield Difference(
            operation=self.operation,
            what=f"{what} type",
            theirs=_listed(yours),
            ours=_listed(mine),
            breaks=self._breaks(only_theirs=bool(yours - mine), only_ours=bool(mine - yours)),
        )

    def _choices(self, what: str, own: _Shape, other: _Shape) -> Iterator[Difference]:
        mine, yours = own.choices, other.choices
        if mine == yours:
            return
        only_theirs = mine is not None and (yours is None or bool(yours - mine))
        only_ours = yours is not None and (mine is None or bool(mine - yours))
        yield Difference(
            operation=self.operation,
            what=f"{what} values",
            theirs="any" if yours is None else _listed(yours if mine is None else yours - mine) or "—",
            ours="any" if mine is None else _listed(mine if yours is None else mine - yours) or "—",
            breaks=self._breaks(only_theirs=only_theirs, only_ours=only_ours),
        )

    def _fields(self, what: str, own: _Shape, other: _Shape, depth: int) -> Iterator[Difference]:
        if not own.fields or not other.fields:
            return  # One of them does not say.
        for name in dict.fromkeys((*own.fields, *other.fields)):
            inside = _inside(what, name)
            if name in own.fields and name in other.fields:
                yield from _need(
                    self.operation,
                    inside,
                    name in own.required,
                    name in other.required,
                    is_request=self.is_request,
                )
                yield from self.schemas(inside, own.fields[name], other.fields[name], depth + 1)
                continue
            side = Side.OURS if name in own.fields else Side.THEIRS
            needed = name in (own if side is Side.OURS else other).required
            yield _only(self.operation, inside, side, "required" if needed else "optional", self._lone(side, needed))

    def _lone(self, side: Side, needed: bool) -> frozenset[Side]:
        if self.is_request:
            return _BOTH if needed else frozenset({side})
        # A client cannot rely on what may be absent, and does not mind what it does not know.
        return frozenset({side}) if needed else _NOBODY


def _inside(what: str, name: str) -> str:
    place, _, path = what.partition(" field ")
    if name == "[]":
        return f"{place} field {path}[]"
    return f"{place} field {path}.{name}" if path else f"{place} field {name}"


def _text_of(value: Json) -> str:
    return value if isinstance(value, str) and value else json.dumps(value, ensure_ascii=False)


def _listed(values: frozenset[str]) -> str:
    return ", ".join(sorted(values))
