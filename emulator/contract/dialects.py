"""A document in the names of a dialect: the documents are written in those of the interface document."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

from emulator.contract.document import Api, Component, by_kind, components, items, references, table
from emulator.wire.dialect import Dialect
from emulator.wire.json_fields import Json, JsonObject


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
