"""The operations of the contract, ready to be compared with requests."""

from __future__ import annotations

import re
from collections.abc import Mapping

from emulator.contract import document
from emulator.contract.document import Api, text
from emulator.core.record import Record
from emulator.wire.json_fields import JsonObject


class Operation(document.Operation):
    """One operation: the headers and query parameters that it reads, each by its name (headers in lower case)."""

    api: Api
    pattern: re.Pattern[str]
    headers: Mapping[str, JsonObject]
    query: Mapping[str, JsonObject]
    takes_any_query: bool

    @property
    def fixed_words(self) -> int:
        """How many segments of the path are no parameters."""
        return sum(not segment.startswith("{") for segment in self.path.split("/"))


class Match(Record):
    """What a request means: its operation, None if there is none, and the methods that its path has."""

    operation: Operation | None
    methods: tuple[str, ...]


def named(among: Mapping[str, JsonObject], name: str) -> JsonObject | None:
    """The parameter of a name, or else the one that stands for all names with its beginning; None without one."""
    if name in among:
        return among[name]
    wildcards = [each for each in among if each.endswith("*") and name.startswith(each[:-1])]
    return among[max(wildcards, key=len)] if wildcards else None


def operations_of(api: Api, content: JsonObject) -> list[Operation]:
    """The operations of a document."""
    return [_ready(api, each) for each in document.operations(content)]


def _ready(api: Api, operation: document.Operation) -> Operation:
    found: dict[str, dict[str, JsonObject]] = {"header": {}, "query": {}, "path": {}}
    for parameter in operation.parameters():
        name, place = text(parameter.get("name")), text(parameter.get("in"))
        found.get(place, {})[name.lower() if place == "header" else name] = parameter
        if place == "header" and (twin := text(parameter.get("x-query-name"))):
            found["query"][twin] = parameter
    return Operation(
        api=api,
        document=operation.document,
        path=operation.path,
        method=operation.method,
        content=operation.content,
        pattern=_pattern(operation.path, found["path"]),
        headers=found["header"],
        query=found["query"],
        takes_any_query=any(each.get("x-raw-path") is True for each in found["path"].values()),
    )


def _pattern(path: str, in_path: Mapping[str, JsonObject]) -> re.Pattern[str]:
    """What a raw path of the operation looks like: fixed words in any case, perhaps a slash at the end (D-003)."""

    def segment(parameter: JsonObject) -> str:
        return ".+" if parameter.get("x-raw-path") is True or parameter.get("x-slashes") is True else "[^/]+"

    pieces = re.split(r"\{([^}]*)\}", path)
    pattern = "".join(
        segment(in_path.get(piece, {})) if number % 2 else re.escape(piece) for number, piece in enumerate(pieces)
    )
    if path.endswith("}") and in_path.get(pieces[-2], {}).get("x-raw-path") is True:
        # Without a destination, or a queue before it, the operation is still meant (D-310).
        before = len(pieces) // 2 - 1
        pattern = re.escape(pieces[0].removesuffix("/")) + "(?:/[^/]*" * before + "(?:/.*)?" + ")?" * before
    return re.compile(f"{pattern}/?", re.IGNORECASE | re.DOTALL)
