"""Several documents as one, and the document of one server."""

from __future__ import annotations

from collections.abc import Collection, Mapping

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
from emulator.wire.json_fields import Json, JsonObject


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
