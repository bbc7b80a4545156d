"""The operations of the contract, ready to be compared with requests."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from emulator.contract.document import Api, operations, parameters, text
from emulator.core.record import Record
from emulator.wire.json_fields import JsonObject


class Operation(Record):
    """One operation: the headers and query parameters that it reads, each by its name (headers in lower case)."""

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


class Match(Record):
    """What a request means: its operation, None if there is none, and the methods that its path has."""

    operation: Operation | None
    methods: tuple[str, ...]


def find(among: Iterable[Operation], method: str, raw_path: str) -> Match:
    """What a request means. Where its path fits several, the one with the most fixed words is meant."""
    fitting = [each for each in among if each.pattern.fullmatch(raw_path)]
    path = max(fitting, key=lambda each: _fixed_words(each.path)).path if fitting else ""
    by_method = {each.method: each for each in fitting if each.path == path}
    # A collection's path is also that of an operation with a destination, which is missing (D-310).
    others = (each for each in fitting if each.method == method and _fixed_words(each.path) == _fixed_words(path))
    return Match(operation=by_method.get(method) or next(others, None), methods=tuple(by_method))


def _fixed_words(path: str) -> int:
    return sum(not segment.startswith("{") for segment in path.split("/"))


def named(among: Mapping[str, JsonObject], name: str) -> JsonObject | None:
    """The parameter of a name, or else the one that stands for all names with its beginning; None without one."""
    if name in among:
        return among[name]
    wildcards = [each for each in among if each.endswith("*") and name.startswith(each[:-1])]
    return among[max(wildcards, key=len)] if wildcards else None


def operations_of(api: Api, document: JsonObject) -> list[Operation]:
    """The operations of a document."""
    return [_operation(api, document, *each) for each in operations(document)]


def _operation(api: Api, document: JsonObject, path: str, method: str, content: JsonObject) -> Operation:
    headers: dict[str, JsonObject] = {}
    query: dict[str, JsonObject] = {}
    in_path: dict[str, JsonObject] = {}
    for parameter in parameters(document, path, content):
        name, place = text(parameter.get("name")), parameter.get("in")
        if place == "header":
            headers[name.lower()] = parameter
            if twin := text(parameter.get("x-query-name")):
                query[twin] = parameter
        elif place in ("query", "path"):
            (query if place == "query" else in_path)[name] = parameter
    return Operation(
        api=api,
        path=path,
        method=method,
        pattern=_pattern(path, in_path),
        content=content,
        headers=headers,
        query=query,
        takes_any_query=any(each.get("x-raw-path") is True for each in in_path.values()),
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
        pattern = f"{pattern.removesuffix('/.+')}(?:/.*)?"
    return re.compile(f"{pattern}/?", re.IGNORECASE | re.DOTALL)
