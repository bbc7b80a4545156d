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
from urllib.parse import urlsplit

from emulator.contract.document import Operation, items, operations, resolved, table, text, texts
from emulator.core.record import Record
from emulator.wire.json_reader import Json, JsonObject


class Side(enum.StrEnum):
    """Whose clients a difference breaks."""

    THEIRS = "theirs"
    OURS = "ours"


_BOTH = frozenset(Side)
_NOBODY: frozenset[Side] = frozenset()
# Schemas may refer to themselves; deeper nesting is not compared.
_DEEPEST = 12


class Difference(Record):
    """One difference: in which operation, of what, what each document says, and whose clients it breaks."""

    operation: str
    what: str
    theirs: str
    ours: str
    breaks: frozenset[Side]


def common_paths(ours: JsonObject, theirs: JsonObject) -> int:
    """How many paths two documents share."""
    return len(path_keys(ours) & path_keys(theirs))


def path_keys(document: JsonObject) -> set[str]:
    """The paths of a document, equal if they are the same path whatever its parameters are called."""
    return {path for path, _ in _operations(document)}


def compare(ours: JsonObject, theirs: JsonObject) -> tuple[Difference, ...]:
    """Every difference, in the order of our operations and then of theirs."""
    own, other = _operations(ours), _operations(theirs)
    found: list[Difference] = []
    for key in (*own, *(each for each in other if each not in own)):
        if key in own and key in other:
            found += _differences(own[key], other[key])
        else:
            side, operation = (Side.OURS, own[key]) if key in own else (Side.THEIRS, other[key])
            found.append(_only(operation.name, "operation", side, "there", frozenset({side})))
    return tuple(dict.fromkeys(found))


def _operations(document: JsonObject) -> dict[tuple[str, str], Operation]:
    """The operations by path and method; a path is the same whatever its parameters are called."""
    base = ""
    for server in items(document.get("servers"))[:1]:
        try:
            base = urlsplit(text(table(server).get("url"))).path.rstrip("/")
        except ValueError:
            base = ""
    return {
        (re.sub(r"\{[^}]*\}", "{}", f"{base}{each.path}").rstrip("/").lower(), each.method): each
        for each in operations(document)
    }


def _only(operation: str, what: str, side: Side, value: str, breaks: frozenset[Side]) -> Difference:
    """What only one side has."""
    theirs, ours = (value, "—") if side is Side.THEIRS else ("—", value)
    return Difference(operation=operation, what=what, theirs=theirs, ours=ours, breaks=breaks)


def _differences(ours: Operation, theirs: Operation) -> Iterator[Difference]:
    """How an operation differs that both documents have."""
    yield from _of_parameters(_Comparison(ours=ours, theirs=theirs, is_request=True, is_text=True))
    yield from _of_request_bodies(_Comparison(ours=ours, theirs=theirs, is_request=True))
    yield from _of_responses(_Comparison(ours=ours, theirs=theirs, is_request=False))


class _Comparison(Record):
    """One operation in both documents. `is_text`: its values are texts on the wire, as parameters are."""

    ours: Operation
    theirs: Operation
    is_request: bool
    is_text: bool = False

    def difference(self, what: str, theirs: str, ours: str, breaks: frozenset[Side]) -> Difference:
        return Difference(operation=self.ours.name, what=what, theirs=theirs, ours=ours, breaks=breaks)

    def only(self, what: str, side: Side, value: str, breaks: frozenset[Side]) -> Difference:
        return _only(self.ours.name, what, side, value, breaks)

    def lone(self, what: str, side: Side, *, is_needed: bool, otherwise: str = "optional") -> Difference:
        """A parameter, body or field that only one side has."""
        if self.is_request:
            breaks = _BOTH if is_needed else frozenset({side})
        else:
            # A client cannot rely on what may be absent, and ignores what it does not know.
            breaks = frozenset({side}) if is_needed else _NOBODY
        return self.only(what, side, "required" if is_needed else otherwise, breaks)

    def needs(self, what: str, *, ours: bool, theirs: bool) -> Iterator[Difference]:
        """Something that is required on one side only."""
        if ours != theirs:
            words = {True: "required", False: "optional"}
            # A request without it fails where it is required; an answer without it fails the clients of that side.
            breaks = self._breaks(only_theirs=ours, only_ours=theirs)
            yield self.difference(what, words[theirs], words[ours], breaks)

    def schemas(self, what: str, ours: Json, theirs: Json, depth: int = 0) -> Iterator[Difference]:
        """How the values differ that two schemas describe."""
        own, other = _shape_of(self.ours.document, ours), _shape_of(self.theirs.document, theirs)
        yield from self._types(what, own.types, other.types)
        if own.types and other.types and own.types.isdisjoint(other.types):
            return
        yield from self._choices(what, own.choices, other.choices)
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

    def _types(self, what: str, mine: frozenset[str], yours: frozenset[str]) -> Iterator[Difference]:
        if not mine or not yours or mine == yours:
            return
        if self.is_text and ("string" in mine or "string" in yours or "array" in mine | yours):
            return  # Every parameter is a text; what it may hold, an enumeration or a pattern says.
        breaks = self._breaks(only_theirs=bool(yours - mine), only_ours=bool(mine - yours))
        yield self.difference(f"{what} type", _listed(yours), _listed(mine), breaks)

    def _choices(self, what: str, mine: frozenset[str] | None, yours: frozenset[str] | None) -> Iterator[Difference]:
        if mine == yours:
            return
        breaks = self._breaks(
            only_theirs=mine is not None and (yours is None or bool(yours - mine)),
            only_ours=yours is not None and (mine is None or bool(mine - yours)),
        )
        theirs = "any" if yours is None else _listed(yours - (mine or frozenset())) or "—"
        ours = "any" if mine is None else _listed(mine - (yours or frozenset())) or "—"
        yield self.difference(f"{what} values", theirs, ours, breaks)

    def _fields(self, what: str, own: _Shape, other: _Shape, depth: int) -> Iterator[Difference]:
        if not own.fields or not other.fields:
            return  # One of them does not say.
        for name in dict.fromkeys((*own.fields, *other.fields)):
            inside = _inside(what, name)
            if name not in other.fields:
                yield self.lone(inside, Side.OURS, is_needed=name in own.required)
            elif name not in own.fields:
                yield self.lone(inside, Side.THEIRS, is_needed=name in other.required)
            else:
                yield from self.needs(inside, ours=name in own.required, theirs=name in other.required)
                yield from self.schemas(inside, own.fields[name], other.fields[name], depth + 1)


def _inside(what: str, name: str) -> str:
    place, _, path = what.partition(" field ")
    if name == "[]":
        return f"{place} field {path}[]"
    return f"{place} field {path}.{name}" if path else f"{place} field {name}"


def _listed(values: frozenset[str]) -> str:
    return ", ".join(sorted(values))


# -- operations -------------------------------------------------------------------------------

# What OpenAPI says elsewhere: in content and in security.
_NO_PARAMETERS = frozenset(("accept", "authorization", "content-type"))

_Parameters = dict[tuple[str, str], JsonObject]


def _of_parameters(both: _Comparison) -> Iterator[Difference]:
    own, other = _parameters_of(both.ours), _parameters_of(both.theirs)
    met: set[tuple[str, str]] = set()
    for key, parameter in other.items():
        twin = _find(key, own)
        if twin is None:
            yield both.lone(_name(parameter), Side.THEIRS, is_needed=_is_required(parameter), otherwise="there")
            continue
        met.add(twin)
        yield from both.needs(_name(parameter), ours=_is_required(own[twin]), theirs=_is_required(parameter))
        yield from both.schemas(_name(parameter), _schema_of(own[twin]), _schema_of(parameter))
    for key, parameter in own.items():
        if key not in met and _find(key, other) is None:
            yield both.lone(_name(parameter), Side.OURS, is_needed=_is_required(parameter), otherwise="there")
    # Those of the path correspond by their order.
    for mine, yours in zip(_in_path(both.ours), _in_path(both.theirs), strict=False):
        yield from both.schemas(_name(yours), _schema_of(mine), _schema_of(yours))


def _of_request_bodies(both: _Comparison) -> Iterator[Difference]:
    own, other = (each.resolved(each.content.get("requestBody")) for each in (both.ours, both.theirs))
    if own and other:
        yield from both.needs("request body", ours=_is_required(own), theirs=_is_required(other))
        yield from _of_contents(both, "request", own, other)
    elif own or other:
        side = Side.OURS if own else Side.THEIRS
        yield both.lone("request body", side, is_needed=_is_required(own or other))


def _of_responses(both: _Comparison) -> Iterator[Difference]:
    own, other = (table(each.content.get("responses")) for each in (both.ours, both.theirs))
    for status in other:
        if _status(status, own) is None:
            # Their clients never get it from the emulator; ours do not expect it.
            yield both.only(f"response {status}", Side.THEIRS, "there", _if_success(status, Side.OURS))
    for status, response in own.items():
        twin = _status(status, other)
        if twin is None:
            yield both.only(f"response {status}", Side.OURS, "there", _if_success(status, Side.THEIRS))
        else:
            mine, yours = both.ours.resolved(response), both.theirs.resolved(other[twin])
            yield from _of_contents(both, f"response {status}", mine, yours)


def _of_contents(both: _Comparison, what: str, own: JsonObject, other: JsonObject) -> Iterator[Difference]:
    mine, yours = table(own.get("content")), table(other.get("content"))
    one, another = _json_of(mine), _json_of(yours)
    if one is not None and another is not None:
        yield from both.schemas(what, _schema_of(one), _schema_of(another))
    elif bool(mine) != bool(yours):
        side, content = (Side.OURS, mine) if mine else (Side.THEIRS, yours)
        # A client breaks if JSON that it was promised is missing; it does not read content of other types.
        is_read = both.is_request or any("json" in each for each in content)
        yield both.only(f"{what} content", side, ", ".join(content), frozenset({side}) if is_read else _NOBODY)
    elif (one is None) != (another is None) and not any("*" in each for each in (*mine, *yours)):
        yield both.difference(f"{what} content", ", ".join(yours), ", ".join(mine), _BOTH)


def _parameters_of(operation: Operation) -> _Parameters:
    keyed = {(text(each.get("in")), text(each.get("name")).lower()): each for each in operation.parameters()}
    return {
        (place, name): each
        for (place, name), each in keyed.items()
        if place in ("query", "header", "cookie") and name not in _NO_PARAMETERS
    }


def _find(key: tuple[str, str], among: _Parameters) -> tuple[str, str] | None:
    """The parameter of that name, its twin in the query, or the wildcard that stands for it."""
    if key in among:
        return key
    place, name = key
    for other, parameter in among.items():
        if place == "query" and text(parameter.get("x-query-name")).lower() == name:
            return other
        if other[0] == place and (_stands_for(other[1], name) or _stands_for(name, other[1])):
            return other
    return None


def _stands_for(wildcard: str, name: str) -> bool:
    return wildcard.endswith("*") and name.startswith(wildcard[:-1])


def _in_path(operation: Operation) -> list[JsonObject]:
    known = {text(each.get("name")): each for each in operation.parameters() if each.get("in") == "path"}
    return [known.get(name, {"in": "path", "name": name}) for name in re.findall(r"\{([^}]*)\}", operation.path)]


def _name(parameter: JsonObject) -> str:
    return f"{text(parameter.get('in'))} parameter {text(parameter.get('name'))}"


def _is_required(holder: JsonObject) -> bool:
    return holder.get("required") is True


def _schema_of(holder: JsonObject) -> Json:
    return holder.get("schema", {})


def _if_success(status: str, side: Side) -> frozenset[Side]:
    return frozenset({side}) if status.startswith("2") else _NOBODY


def _status(status: str, among: Mapping[str, Json]) -> str | None:
    """The entry for a status among responses: its own, that of its range, or the default."""
    for candidate in (status, f"{status[:1]}XX", f"{status[:1]}xx", "default"):
        if candidate in among:
            return candidate
    if status == "default":
        return next((each for each in among if not each.startswith("2")), None)
    if status.upper().endswith("XX"):
        return next((each for each in among if each[:1] == status[:1]), None)
    return None


def _json_of(content: JsonObject) -> JsonObject | None:
    for media_type, media in content.items():
        name = media_type.partition(";")[0].strip().lower()
        if name == "application/json" or name.endswith("+json"):
            return table(media)
    return None


# -- schemas ----------------------------------------------------------------------------------


class _Shape(Record, kw_only=True):
    """What matters of a schema; no types mean any type, no choices (None) any value."""

    types: frozenset[str] = frozenset()
    choices: frozenset[str] | None = None
    fields: Mapping[str, Json]
    required: frozenset[str] = frozenset()
    items: Json = None


def _shape_of(document: JsonObject, value: Json, depth: int = 0) -> _Shape:
    """The shape of a schema that stands in a document."""
    if depth > _DEEPEST:
        return _Shape(fields={})
    schema = resolved(document, value)
    fields = table(schema.get("properties"))
    types = set(texts(schema.get("type"))) or ({"object"} if fields else set())
    if schema.get("nullable") is True and types:
        types.add("null")
    if "number" in types:
        types.add("integer")
    values = [schema["const"]] if "const" in schema else items(schema["enum"]) if "enum" in schema else None
    shape = _Shape(
        types=frozenset(types),
        choices=None if values is None else frozenset(map(_text_of, values)),
        fields=fields,
        required=frozenset(texts(schema.get("required"))),
        items=schema.get("items"),
    )
    for part in items(schema.get("allOf")):
        shape = _all_of(shape, _shape_of(document, part, depth + 1))
    for key in ("oneOf", "anyOf"):
        if alternatives := [_shape_of(document, part, depth + 1) for part in items(schema.get(key))]:
            shape = _all_of(shape, functools.reduce(_any_of, alternatives))
    return shape


def _all_of(one: _Shape, other: _Shape) -> _Shape:
    if one.choices is None or other.choices is None:
        choices = one.choices if other.choices is None else other.choices
    else:
        choices = one.choices & other.choices
    return _Shape(
        types=one.types & other.types if one.types and other.types else one.types | other.types,
        choices=choices,
        fields={**one.fields, **other.fields},
        required=one.required | other.required,
        items=one.items if other.items is None else other.items,
    )


def _any_of(one: _Shape, other: _Shape) -> _Shape:
    objects = [each for each in (one, other) if "object" in each.types or each.fields]
    return _Shape(
        types=one.types | other.types if one.types and other.types else frozenset(),
        choices=None if one.choices is None or other.choices is None else one.choices | other.choices,
        fields={**one.fields, **other.fields},
        required=frozenset.intersection(*(each.required for each in objects)) if objects else frozenset(),
        items=one.items if other.items is None else other.items,
    )


def _text_of(value: Json) -> str:
    return value if isinstance(value, str) and value else json.dumps(value, ensure_ascii=False)
