"""The contracts as they stand in the files, and their operations in a form that tests can look up."""

from __future__ import annotations

import functools
import re
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from emulator import resources
from emulator.contract import document as contract
from emulator.wire.dialect import SVC, Dialect

APIS = ("messaging", "control", "management")
METHODS = ("get", "put", "post", "delete", "patch")
AS_WRITTEN = SVC


class _StrictLoader(yaml.CSafeLoader):
    """Refuses a key that occurs twice, where YAML readers keep the last one silently."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        for key in keys:
            if keys.count(key) > 1:
                raise yaml.constructor.ConstructorError(None, None, f"the key {key!r} occurs twice", node.start_mark)
        return super().construct_mapping(node, deep)


@functools.cache
def load(api: str, dialect: Dialect = AS_WRITTEN) -> dict[str, Any]:
    """The contract of an API, as its file has it, or in the names of another dialect."""
    if dialect != AS_WRITTEN:
        return dict(contract.in_dialect(load(api), contract.Api(api), dialect))
    with resources.path("contracts", f"{api}.openapi.yaml").open("rb") as file:
        document: dict[str, Any] = yaml.load(file, _StrictLoader)  # a safe loader, only stricter
    return document


def resolved(document: Mapping[str, Any], value: Any) -> Any:
    """What a value, or the component that it refers to, is."""
    while isinstance(value, Mapping) and "$ref" in value:
        value = functools.reduce(lambda found, key: found[key], value["$ref"].removeprefix("#/").split("/"), document)
    return value


@dataclass(frozen=True, kw_only=True)
class Operation:
    """An operation of a contract; everything that it refers to is resolved, schemas excepted."""

    api: str
    dialect: Dialect = AS_WRITTEN
    method: str
    path: str
    details: dict[str, Any]
    parameters: tuple[dict[str, Any], ...]

    @property
    def id(self) -> str:
        return str(self.details["operationId"])

    @property
    def responses(self) -> dict[str, Any]:
        document = load(self.api, self.dialect)
        return {status: resolved(document, response) for status, response in self.details["responses"].items()}

    @property
    def security(self) -> list[dict[str, list[str]]]:
        found: list[dict[str, list[str]]] = self.details.get("security", load(self.api, self.dialect)["security"])
        return found

    @functools.cached_property
    def pattern(self) -> re.Pattern[str]:
        """What a raw path of the operation looks like: fixed words in any case, perhaps a slash at the end (D-003)."""
        in_path = {parameter["name"]: parameter for parameter in self.parameters if parameter["in"] == "path"}
        pieces = []
        for segment in self.path.strip("/").split("/"):
            if segment.startswith("{"):
                parameter = in_path[segment[1:-1]]
                holds_slashes = parameter.get("x-raw-path") or parameter.get("x-slashes")
                pieces.append(".+" if holds_slashes else "[^/]+")
            else:
                pieces.append(re.escape(segment))
        return re.compile("/" + "/".join(pieces) + "/?", re.IGNORECASE)

    @property
    def fixed_words(self) -> int:
        """Where a path fits several operations, the one with the most fixed words is meant."""
        return sum(not segment.startswith("{") for segment in self.path.split("/"))


@functools.cache
def operations(api: str, dialect: Dialect = AS_WRITTEN) -> tuple[Operation, ...]:
    document = load(api, dialect)
    return tuple(
        Operation(
            api=api,
            dialect=dialect,
            method=method.upper(),
            path=path,
            details=item[method],
            parameters=tuple(
                resolved(document, parameter)
                for parameter in (*item.get("parameters", ()), *item[method].get("parameters", ()))
            ),
        )
        for path, item in document["paths"].items()
        for method in METHODS
        if method in item
    )


@functools.cache
def all_operations(dialect: Dialect = AS_WRITTEN) -> tuple[Operation, ...]:
    return tuple(operation for api in APIS for operation in operations(api, dialect))


def walk(value: Any, place: str = "") -> Iterator[tuple[str, Any]]:
    """Every value of a document with its place, from the outside in."""
    yield place, value
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from walk(item, f"{place}/{key}")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from walk(item, f"{place}/{index}")
