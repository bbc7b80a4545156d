"""The contracts as data, and their operations in a form that tests can look up."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from emulator.contract import document, files
from emulator.contract.document import Api
from emulator.wire.dialect import SVC

# In the order of `contracts/fidelity.md`.
APIS = ("messaging", "control", "management")


def load(api: str) -> dict[str, Any]:
    """The contract of an API, as its file has it."""
    return dict(files.documents((Api(api),), SVC)[Api(api)])


def resolved(of: Mapping[str, Any], value: Any) -> Any:
    """What a value, or the component that it refers to, is."""
    return document.resolved(of, value)


@dataclass(frozen=True, kw_only=True)
class Operation:
    """An operation of a contract; everything that it refers to is resolved, schemas excepted."""

    api: str
    method: str
    path: str
    details: Mapping[str, Any]
    parameters: tuple[Mapping[str, Any], ...]

    @property
    def id(self) -> str:
        return str(self.details["operationId"])

    @property
    def responses(self) -> dict[str, Any]:
        return {status: resolved(load(self.api), each) for status, each in self.details["responses"].items()}

    @property
    def security(self) -> list[dict[str, list[str]]]:
        found: list[dict[str, list[str]]] = self.details.get("security", load(self.api)["security"])
        return found


@functools.cache
def operations(api: str) -> tuple[Operation, ...]:
    return tuple(
        Operation(
            api=api,
            method=each.method,
            path=each.path,
            details=each.content,
            parameters=each.parameters(),
        )
        for each in document.operations(load(api))
    )


@functools.cache
def all_operations() -> tuple[Operation, ...]:
    return tuple(operation for api in APIS for operation in operations(api))


def walk(value: Any, place: str = "") -> Iterator[tuple[str, Any]]:
    """Every value of a document with its place, from the outside in."""
    yield place, value
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from walk(item, f"{place}/{key}")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from walk(item, f"{place}/{index}")
