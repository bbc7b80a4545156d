"""In which dialect somebody else's document is written."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Iterator

from emulator.contract import files
from emulator.contract.diff import path_keys
from emulator.contract.document import Api, objects, operations, table, text
from emulator.wire import dialect as dialects
from emulator.wire.dialect import Dialect
from emulator.wire.json_fields import JsonObject

# So many header names must agree on a prefix that no dialect has.
_ENOUGH = 3


def dialect_of(document: JsonObject, expected: Dialect) -> Dialect:
    """The dialect whose names fit a document best: the expected one, a built-in one, or one with the document's prefix.

    The expected one, unless another fits better. Raises: UnreadableContract.
    """
    found = _names(document)
    candidates = [expected, *(dialects.load(name) for name in dialects.BUILT_IN)]
    prefix = _prefix_of(document, expected)
    if prefix and prefix.lower() not in {each.lower_prefix for each in candidates}:
        candidates.append(dataclasses.replace(expected, name=prefix.rstrip("-").lower(), header_prefix=prefix))
    return max(candidates, key=lambda each: len(found & _own_names(each)))


def _own_names(dialect: Dialect) -> set[tuple[str, str]]:
    return {name for document in files.documents(tuple(Api), dialect).values() for name in _names(document)}


def _names(document: JsonObject) -> set[tuple[str, str]]:
    """The paths, parameters and fields of a document. A path is the same whatever its parameters are called."""
    return {
        *(("path", path) for path in path_keys(document)),
        *(("parameter", text(each.get("name")).lower()) for each in _parameters(document)),
        *(("field", name) for each in objects(document) for name in table(each.get("properties"))),
    }


def _parameters(document: JsonObject) -> Iterator[JsonObject]:
    for operation in operations(document):
        yield from operation.parameters()


def _headers(document: JsonObject) -> set[str]:
    return {text(each.get("name")) for each in _parameters(document) if each.get("in") == "header"}


def _prefix_of(document: JsonObject, expected: Dialect) -> str:
    """What most of the document's headers begin with where ours have the dialect's prefix; empty without one."""
    own: Iterable[str] = _headers(files.documents((Api.MESSAGING,), expected)[Api.MESSAGING])
    ends = {each[len(expected.header_prefix) :].lower() for each in own if each.startswith(expected.header_prefix)}
    prefixes: Counter[str] = Counter()
    for name in _headers(document):
        # The longest end that is known: `Their-Callback-Method` is no `Method`.
        end = max((each for each in ends if name.lower().endswith(f"-{each}")), key=len, default="")
        if end:
            prefixes[name[: -len(end)]] += 1
    ((prefix, count),) = prefixes.most_common(1) or [("", 0)]
    return prefix if count >= _ENOUGH else ""
