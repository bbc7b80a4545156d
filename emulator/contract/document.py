"""The contract: the OpenAPI documents as data, in a dialect's names, one API or all in one document.

The documents are written in the names of the interface document; a server in another dialect shows
them in its own. Nothing here reads a file, see `emulator/contract/files.py`.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from emulator.core.errors import InvalidInput, NotAcceptable
from emulator.core.language.excerpts import excerpt
from emulator.core.record import Record
from emulator.wire.dialect import Dialect
from emulator.wire.json_fields import Json, JsonObject
from emulator.wire.parts import RequestParts

ALL = "all"
METHODS = ("get", "put", "post", "delete", "options", "head", "patch", "trace")

_REFERENCE = "#/components/"


class Api(enum.StrEnum):
    """The three APIs, each with a document of its own."""

    MESSAGING = "messaging"
    MANAGEMENT = "management"
    CONTROL = "control"


class Format(enum.StrEnum):
    """How a document is written."""

    YAML = "yaml"
    JSON = "json"


MEDIA_TYPES = {Format.YAML: "application/yaml", Format.JSON: "application/json"}
_YAML_TYPES = (
    "application/yaml",
    "application/x-yaml",
    "text/yaml",
    "text/x-yaml",
    "application/vnd.oai.openapi",
    "application/openapi+yaml",
)
_JSON_TYPES = ("application/json", "application/vnd.oai.openapi+json", "application/openapi+json")
_ANY_TYPES = ("*/*", "application/*")


# -- what a request asks for ------------------------------------------------------------------


class Wanted(Record):
    """Which APIs, and in which format."""

    apis: tuple[Api, ...]
    format: Format


def read_wanted(parts: RequestParts) -> Wanted:
    """What a request for the contract asks for: all APIs as JSON, unless its query or `Accept` says otherwise.

    Raises: InvalidInput naming the parameter; NotAcceptable.
    """
    query = dict(parts.query)
    given = query.get("format", "")
    if given and given not in (*Format,):
        raise InvalidInput("format", f"expected yaml or json, got {excerpt(given)}")
    return Wanted(apis=read_apis(query.get("api", "")), format=Format(given) if given else _accepted(parts))


def read_apis(text: str) -> tuple[Api, ...]:
    """The APIs that a text names: one, or all of them. Raises: InvalidInput."""
    if text in ("", ALL):
        return tuple(Api)
    try:
        return (Api(text),)
    except ValueError:
        raise InvalidInput("api", f"expected {', '.join(Api)} or {ALL}, got {excerpt(text)}") from None


def _accepted(parts: RequestParts) -> Format:
    """JSON, which every YAML reader reads as well, where the client does not say what it prefers."""
    accept = ",".join(value for name, value in parts.headers if name == "accept" and value.strip())
    if not accept:
        return Format.JSON
    best, quality = Format.JSON, 0.0
    for entry in accept.lower().split(","):
        media_type, *parameters = (piece.strip() for piece in entry.split(";"))
        found = Format.YAML if media_type in _YAML_TYPES else Format.JSON
        if found is Format.YAML or media_type in (*_JSON_TYPES, *_ANY_TYPES):
            weight = _weight(parameters)
            if weight > quality:
                best, quality = found, weight
    if not quality:
        raise NotAcceptable(
            f"expected a client that accepts application/yaml or application/json, it accepts {excerpt(accept)}"
        )
    return best


def _weight(parameters: Iterable[str]) -> float:
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip() == "q":
            try:
                return float(value)
            except ValueError:
                return 1.0
    return 1.0


# -- reading documents ------------------------------------------------------------------------


def table(value: Json) -> JsonObject:
    """The value if it is an object, an empty one otherwise."""
    return value if isinstance(value, Mapping) else {}


def items(value: Json) -> Sequence[Json]:
    """The value if it is a list, an empty one otherwise."""
    return value if isinstance(value, Sequence) and not isinstance(value, str) else ()


def text(value: Json) -> str:
    """The value if it is a text, an empty one otherwise."""
    return value if isinstance(value, str) else ""


def resolved(document: JsonObject, value: Json) -> JsonObject:
    """The object that a value is or refers to within the document; empty if there is none."""
    found = table(value)
    for _ in range(32):
        reference = found.get("$ref")
        if not isinstance(reference, str):
            return found
        target = at(document, reference)
        # What stands beside a reference adds to what it refers to (OpenAPI 3.1).
        beside = {key: each for key, each in found.items() if key != "$ref"}
        found = {**target, **beside}
    return {}


def at(document: JsonObject, reference: str) -> JsonObject:
    """The object at a JSON pointer such as `#/components/schemas/Error`; empty if there is none."""
    if not reference.startswith("#/"):
        return {}
    found: Json = document
    for piece in reference[2:].split("/"):
        key = piece.replace("~1", "/").replace("~0", "~")
        if isinstance(found, Mapping):
            found = found.get(key)
        else:
            each = items(found)
            found = each[int(key)] if key.isdigit() and int(key) < len(each) else None
    return table(found)


def operations(document: JsonObject) -> Iterator[tuple[str, str, JsonObject]]:
    """Every operation: its path, its method in capitals, and what the document says of it."""
    for path, entry in table(document.get("paths")).items():
        item = resolved(document, entry)
        for method in METHODS:
            if isinstance(item.get(method), Mapping):
                yield path, method.upper(), table(item[method])


def parameters(document: JsonObject, path: str, operation: JsonObject) -> tuple[JsonObject, ...]:
    """The parameters of an operation, those of its path among them, each as it is after following references."""
    item = resolved(document, table(document.get("paths")).get(path))
    found: dict[tuple[str, str], JsonObject] = {}
    for each in (*items(item.get("parameters")), *items(operation.get("parameters"))):
        parameter = resolved(document, each)
        found[(text(parameter.get("in")), text(parameter.get("name")))] = parameter
    return tuple(found.values())


# -- the dialect ------------------------------------------------------------------------------


def in_dialect(document: JsonObject, api: Api, dialect: Dialect) -> JsonObject:
    """The document in the names of a dialect: headers, the token's parameter, the queue segment, fields.

    JSON fields and enum values have other names in the management API, and in the control API where
    it shows the same account records (D-081).
    """
    renamed = _with_texts(document, _text_renamer(dialect))
    if not isinstance(renamed, Mapping):
        return document
    if not dialect.fields or api is Api.MESSAGING:
        return renamed
    if api is Api.MANAGEMENT:
        return table(_with_fields(renamed, dialect.fields, data=False))
    return _with_account_fields(renamed, dialect.fields)


def _text_renamer(dialect: Dialect) -> Callable[[str], str]:
    # The program's own name, and the header that strict mode adds, are the same in every dialect.
    prefix = re.compile(r"(?<![A-Za-z0-9-])(?:Svc|svc)-(?!emulator|Emulator)")
    token = re.compile(r"(?<![A-Za-z0-9_])queue_token(?![A-Za-z0-9_])")
    segment = re.compile(r"(?<=/v2/)queue(?![A-Za-z0-9_.-])")

    def rename(value: str) -> str:
        value = prefix.sub(
            lambda found: dialect.header_prefix if found[0][0] == "S" else dialect.lower_prefix,
            value,
        )
        return segment.sub(lambda _: dialect.queue_segment, token.sub(lambda _: dialect.token_parameter, value))

    return rename


def _with_texts(value: Json, rename: Callable[[str], str]) -> Json:
    """The value with every text renamed, keys of objects too."""
    match value:
        case str():
            return rename(value)
        case Mapping():
            return {rename(key): _with_texts(each, rename) for key, each in value.items()}
        case Sequence():
            return [_with_texts(each, rename) for each in value]
        case _:
            return value


# Where a document holds data of the API rather than words of OpenAPI.
_DATA = frozenset(("enum", "const", "default", "example", "examples", "required"))
_PROSE = frozenset(("description", "summary", "title"))
_FIELD_IN_PROSE = re.compile(r"`([A-Za-z0-9_.-]+)`")
_WORD_IN_PATTERN = re.compile(r"(?<![A-Za-z0-9_\\])[A-Za-z0-9_]+")
_POINTER = re.compile(r"(?<=/)[A-Za-z0-9_.-]+")


def _with_fields(value: Json, names: Mapping[str, str], *, data: bool) -> Json:
    """The value with fields renamed; `data` says that it is an example or the like, all of it data."""
    match value:
        case str():
            if data:
                return names.get(value, value)
            if value.startswith(("$response.body#/", "$request.body#/")):
                return _POINTER.sub(lambda found: names.get(found[0], found[0]), value)
            return value
        case Mapping():
            return {
                (names.get(key, key) if data else key): _field_of(key, each, names, data=data)
                for key, each in value.items()
            }
        case Sequence():
            return [_with_fields(each, names, data=data) for each in value]
        case _:
            return value


def _field_of(key: str, value: Json, names: Mapping[str, str], *, data: bool) -> Json:
    if data or key in _DATA:
        return _with_fields(value, names, data=True)
    if key == "properties" and isinstance(value, Mapping):
        return {names.get(name, name): _with_fields(each, names, data=False) for name, each in value.items()}
    if key == "pattern" and isinstance(value, str):
        return _WORD_IN_PATTERN.sub(lambda found: names.get(found[0], found[0]), value)
    if key in _PROSE and isinstance(value, str):
        return _FIELD_IN_PROSE.sub(lambda found: f"`{names.get(found[1], found[1])}`", value)
    return _with_fields(value, names, data=False)


def _with_account_fields(document: JsonObject, names: Mapping[str, str]) -> JsonObject:
    """The control API's document with the fields of account records renamed, and of nothing else.

    Beside what only the paths of accounts refer to, that is what is marked `x-account-record`.
    """
    paths = table(document.get("paths"))
    mine = {path for path in paths if path.startswith("/_emulator/accounts")}
    components = _reachable(document, [paths[path] for path in mine])
    components -= _reachable(document, [entry for path, entry in paths.items() if path not in mine])
    # Fixtures write the same records.
    schemas = table(table(document.get("components")).get("schemas"))
    components |= {("schemas", name) for name, each in schemas.items() if table(each).get("x-account-record") is True}
    return {
        **document,
        "paths": {
            path: _with_fields(entry, names, data=False) if path in mine else entry for path, entry in paths.items()
        },
        "components": {
            kind: {
                name: _with_fields(each, names, data=False) if (kind, name) in components else each
                for name, each in table(entries).items()
            }
            for kind, entries in table(document.get("components")).items()
        },
    }


_Component = tuple[str, str]


def _reachable(document: JsonObject, roots: Iterable[Json]) -> set[_Component]:
    """The components that the roots refer to, directly or not."""
    found: set[_Component] = set()
    waiting = list(roots)
    while waiting:
        for kind, name in _references(waiting.pop()):
            if (kind, name) not in found:
                found.add((kind, name))
                waiting.append(table(table(document.get("components")).get(kind)).get(name))
    return found


def _references(value: Json) -> Iterator[_Component]:
    match value:
        case Mapping():
            reference = value.get("$ref")
            if isinstance(reference, str) and reference.startswith(_REFERENCE):
                kind, _, name = reference[len(_REFERENCE) :].partition("/")
                yield kind, name
            for each in value.values():
                yield from _references(each)
        case str():
            return
        case Sequence():
            for each in value:
                yield from _references(each)
        case _:
            return


# -- one document of several ------------------------------------------------------------------


def with_server(document: JsonObject, url: str) -> JsonObject:
    """The document of the server at a URL."""
    return {**document, "servers": [{"url": url, "description": "This emulator."}]}


def merged(documents: Mapping[Api, JsonObject], version: str) -> JsonObject:
    """The documents of several APIs as one; a single one stays as it is.

    Components of the same name and content are shared; of those that differ, all but the first take
    their API's name in front of their own. What a document says of security goes to its operations.
    """
    if len(documents) == 1:
        return next(iter(documents.values()))
    paths: dict[str, dict[str, Json]] = {}
    components: dict[str, dict[str, Json]] = {}
    tags: dict[str, Json] = {}
    operation_ids: set[str] = set()
    for api, document in documents.items():
        separate = _apart(document, api, components, operation_ids)
        operation_ids.update(text(operation.get("operationId")) for _, _, operation in operations(separate))
        for path, entry in table(separate.get("paths")).items():
            paths.setdefault(path, {}).update(table(entry))
        for kind, entries in table(separate.get("components")).items():
            components.setdefault(kind, {}).update(table(entries))
        for tag in items(separate.get("tags")):
            tags.setdefault(text(table(tag).get("name")), tag)
    return {
        "openapi": next((document["openapi"] for document in documents.values() if "openapi" in document), "3.1.0"),
        "info": _merged_info(documents, version),
        "servers": next((document["servers"] for document in documents.values() if "servers" in document), []),
        "tags": list(tags.values()),
        "paths": paths,
        "components": components,
    }


def _merged_info(documents: Mapping[Api, JsonObject], version: str) -> JsonObject:
    infos = [table(document.get("info")) for document in documents.values()]
    info: dict[str, Json] = {
        "title": "svc-emulator",
        "version": version,
        "summary": "Every API of the emulator.",
        "description": "\n".join(f"# {text(each.get('title'))}\n\n{text(each.get('description'))}" for each in infos),
    }
    licence = next((each["license"] for each in infos if "license" in each), None)
    return info if licence is None else {**info, "license": licence}


def _apart(
    document: JsonObject, api: Api, taken: Mapping[str, Mapping[str, Json]], operation_ids: set[str]
) -> JsonObject:
    """The document without what would clash with what is taken, and with its security at its operations."""
    clashing = _clashing(document, taken)
    prefix = api.value.capitalize()
    schemes = {name: f"{prefix}{_capital(name)}" for kind, name in clashing if kind == "securitySchemes"}
    own_ids = [text(operation.get("operationId")) for _, _, operation in operations(document)]
    ids = {name: f"{api.value}{_capital(name)}" for name in own_ids if name in operation_ids}
    renamed = table(_with_names(document, clashing, prefix, ids))
    paths: dict[str, Json] = {}
    for path, entry in table(renamed.get("paths")).items():
        item = dict(table(entry))
        for method in METHODS:
            if isinstance(item.get(method), Mapping):
                operation = dict(table(item[method]))
                security = operation.get("security", document.get("security", []))
                operation["security"] = [
                    {schemes.get(name, name): scopes for name, scopes in table(each).items()}
                    for each in items(security)
                ]
                item[method] = operation
        paths[path] = item
    components = {
        kind: {
            (f"{prefix}{_capital(name)}" if (kind, name) in clashing else name): each for name, each in entries.items()
        }
        for kind, entries in ((kind, table(found)) for kind, found in table(renamed.get("components")).items())
    }
    return {**renamed, "paths": paths, "components": components}


def _clashing(document: JsonObject, taken: Mapping[str, Mapping[str, Json]]) -> set[_Component]:
    own = {
        (kind, name): each
        for kind, entries in table(document.get("components")).items()
        for name, each in table(entries).items()
    }
    found = {
        (kind, name) for (kind, name), each in own.items() if name in taken.get(kind, {}) and taken[kind][name] != each
    }
    # What refers to a renamed component is another component than the one it looks like.
    while True:
        more = {
            key
            for key, each in own.items()
            if key not in found and key[1] in taken.get(key[0], {}) and not found.isdisjoint(_references(each))
        }
        if not more:
            return found
        found |= more


def _with_names(value: Json, components: set[_Component], prefix: str, ids: Mapping[str, str]) -> Json:
    match value:
        case Mapping():
            return {key: _renamed_entry(key, each, components, prefix, ids) for key, each in value.items()}
        case str():
            return value
        case Sequence():
            return [_with_names(each, components, prefix, ids) for each in value]
        case _:
            return value


def _renamed_entry(key: str, value: Json, components: set[_Component], prefix: str, ids: Mapping[str, str]) -> Json:
    if isinstance(value, str):
        if key == "$ref" and value.startswith(_REFERENCE):
            kind, _, name = value[len(_REFERENCE) :].partition("/")
            return f"{_REFERENCE}{kind}/{prefix}{_capital(name)}" if (kind, name) in components else value
        return ids.get(value, value) if key == "operationId" else value
    return _with_names(value, components, prefix, ids)


def _capital(name: str) -> str:
    return name[:1].upper() + name[1:]
