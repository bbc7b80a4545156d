"""A document in the names of a dialect: the documents are written in those of the interface document."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping

from emulator.contract.document import (
    METHODS,
    Api,
    Component,
    by_kind,
    components,
    items,
    operations,
    rebuilt,
    reference_to,
    references,
    referred,
    table,
    text,
)
from emulator.wire.dialect import Dialect
from emulator.wire.json_reader import Json, JsonObject


def in_dialect(document: JsonObject, api: Api, dialect: Dialect) -> JsonObject:
    """The document in the names of a dialect: headers, the token's parameter, the queue segment, fields.

    JSON fields and enum values have other names in the management API, and in the control API where
    it shows the same account records (D-081).
    """
    renamed = table(_with_texts(document, _text_renamer(dialect)))
    if not dialect.fields or api is Api.MESSAGING:
        return renamed
    if api is Api.MANAGEMENT:
        return table(_with_fields(renamed, dialect.fields))
    return _with_account_fields(renamed, dialect.fields)


def _text_renamer(dialect: Dialect) -> Callable[[str], str]:
    # The program's own name, and the header that strict mode adds, are the same in every dialect.
    prefix = re.compile(r"(?<![A-Za-z0-9-])(?:Svc|svc)-(?!emulator|Emulator)")
    token = re.compile(r"(?<![A-Za-z0-9_])queue_token(?![A-Za-z0-9_])")
    segment = re.compile(r"(?<=/v2/)queue(?![A-Za-z0-9_.-])")

    def rename(value: str) -> str:
        value = prefix.sub(lambda found: dialect.header_prefix if found[0][0] == "S" else dialect.lower_prefix, value)
        return segment.sub(lambda _: dialect.queue_segment, token.sub(lambda _: dialect.token_parameter, value))

    return rename


def _with_texts(value: Json, rename: Callable[[str], str]) -> Json:
    """The value with every text renamed, keys of objects too."""
    if isinstance(value, str):
        return rename(value)
    if isinstance(value, Mapping):
        return {rename(key): _with_texts(each, rename) for key, each in value.items()}
    return [_with_texts(each, rename) for each in items(value)] if isinstance(value, list) else value


# -- fields -----------------------------------------------------------------------------------

# Where a document holds data of the API rather than words of OpenAPI.
_DATA = frozenset(("enum", "const", "default", "example", "examples", "required"))
# Where a name of the API stands within a text, by the key of the text; a property may be called like a key.
_NAMES_WITHIN = {
    "pattern": re.compile(r"(?<![A-Za-z0-9_\\])[A-Za-z0-9_]+"),
    **dict.fromkeys(("description", "summary", "title"), re.compile(r"(?<=`)[A-Za-z0-9_.-]+(?=`)")),
}
_POINTER = re.compile(r"(?<=/)[A-Za-z0-9_.-]+")


def _with_fields(value: Json, names: Mapping[str, str]) -> Json:
    """A part of a document with the fields and enum values of the API renamed, wherever they stand in it."""

    def rename(found: re.Match[str]) -> str:
        return names.get(found[0], found[0])

    def entry(key: str, each: Json) -> Json:
        if key in _DATA:
            return _with_texts(each, lambda word: names.get(word, word))
        if key == "properties" and isinstance(each, Mapping):
            return {names.get(name, name): _with_fields(schema, names) for name, schema in each.items()}
        if key in _NAMES_WITHIN and isinstance(each, str):
            return _NAMES_WITHIN[key].sub(rename, each)
        return _with_fields(each, names)

    if isinstance(value, str):
        is_expression = value.startswith(("$response.body#/", "$request.body#/"))
        return _POINTER.sub(rename, value) if is_expression else value
    if isinstance(value, Mapping):
        return {key: entry(key, each) for key, each in value.items()}
    return [_with_fields(each, names) for each in items(value)] if isinstance(value, list) else value


def _with_account_fields(document: JsonObject, names: Mapping[str, str]) -> JsonObject:
    """The control API's document with the fields of account records renamed, and of nothing else.

    Beside what only the paths of accounts refer to, that is what is marked `x-account-record`.
    """
    paths = table(document.get("paths"))
    mine = {path for path in paths if path.startswith("/_emulator/accounts")}
    own = components(document)
    renamed = _reachable(own, (paths[path] for path in mine))
    renamed -= _reachable(own, (entry for path, entry in paths.items() if path not in mine))
    # Fixtures write the same records.
    renamed |= {key for key, each in own.items() if table(each).get("x-account-record") is True}
    return {
        **document,
        "paths": {path: _with_fields(entry, names) if path in mine else entry for path, entry in paths.items()},
        "components": by_kind(
            {key: _with_fields(each, names) if key in renamed else each for key, each in own.items()}
        ),
    }


def _reachable(own: Mapping[Component, Json], roots: Iterable[Json]) -> set[Component]:
    """The components that the roots refer to, directly or not."""
    found: set[Component] = set()
    waiting = list(roots)
    while waiting:
        more = set(references(waiting.pop())) - found
        found |= more
        waiting += [own.get(each) for each in more]
    return found


# -- several documents as one, and the document of one server ---------------------------------


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
    paths: dict[str, Json] = {}
    taken: dict[Component, Json] = {}
    tags: dict[str, Json] = {}
    operation_ids: set[str] = set()
    for api, document in documents.items():
        separate = _apart(document, api, taken, operation_ids)
        operation_ids.update(each.id for each in operations(separate))
        for path, entry in table(separate.get("paths")).items():
            paths[path] = {**table(paths.get(path)), **table(entry)}
        taken.update(components(separate))
        for tag in items(separate.get("tags")):
            tags.setdefault(text(table(tag).get("name")), tag)
    first = _first(documents.values())
    return {
        "openapi": first.get("openapi", "3.1.0"),
        "info": _info([table(document.get("info")) for document in documents.values()], version),
        "servers": first.get("servers", []),
        "tags": list(tags.values()),
        "paths": paths,
        "components": by_kind(taken),
    }


def _first(found: Collection[JsonObject]) -> JsonObject:
    """Each field as the first has it that has it at all."""
    return {key: value for each in reversed([*found]) for key, value in each.items()}


def _info(infos: Collection[JsonObject], version: str) -> JsonObject:
    return {
        "title": "svc-emulator",
        "version": version,
        "summary": "Every API of the emulator.",
        "description": "\n".join(f"# {text(each.get('title'))}\n\n{text(each.get('description'))}" for each in infos),
        **{key: value for key, value in _first(infos).items() if key == "license"},
    }


def _apart(document: JsonObject, api: Api, taken: Mapping[Component, Json], operation_ids: set[str]) -> JsonObject:
    """The document without what would clash with what is taken, and with its security at its operations."""
    new_names = {(kind, name): f"{api.value.capitalize()}{_capital(name)}" for kind, name in _clashing(document, taken)}

    def rename(found: JsonObject) -> JsonObject:
        component = referred(found.get("$ref"))
        if component in new_names:
            return {**found, "$ref": reference_to(component[0], new_names[component])}
        operation_id = found.get("operationId")
        if isinstance(operation_id, str) and operation_id in operation_ids:
            return {**found, "operationId": f"{api.value}{_capital(operation_id)}"}
        return found

    def secured(operation: JsonObject) -> JsonObject:
        security = operation.get("security", document.get("security", []))
        named = [
            {new_names.get(("securitySchemes", name), name): scopes for name, scopes in table(each).items()}
            for each in items(security)
        ]
        return {**operation, "security": named}

    renamed = table(rebuilt(document, rename))
    return {
        **renamed,
        "paths": {
            path: {
                key: secured(each) if key in METHODS and isinstance(each, Mapping) else each
                for key, each in table(entry).items()
            }
            for path, entry in table(renamed.get("paths")).items()
        },
        "components": by_kind(
            {(kind, new_names.get((kind, name), name)): each for (kind, name), each in components(renamed).items()}
        ),
    }


def _clashing(document: JsonObject, taken: Mapping[Component, Json]) -> set[Component]:
    """The components whose names are taken by other ones."""
    own = {key: each for key, each in components(document).items() if key in taken}
    found = {key for key, each in own.items() if taken[key] != each}
    # What refers to a renamed component is another component than the one it looks like.
    while more := {key for key, each in own.items() if key not in found and not found.isdisjoint(references(each))}:
        found |= more
    return found


def _capital(name: str) -> str:
    return name[:1].upper() + name[1:]
