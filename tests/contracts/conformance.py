"""Whether a response of the emulator is one that the contracts describe, by the checker that strict mode uses.

`check_response` takes any response of a server, from whichever test. What is not described is an
error: a status, a header of the service's own, a field.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Mapping
from typing import Any

import jsonschema_rs

from emulator.contract import files
from emulator.contract.check import Contract
from emulator.contract.document import Api, table
from emulator.wire.dialect import SVC, Dialect
from emulator.wire.json_reader import Json, JsonObject


class NotInContract(AssertionError):
    """A response is not as the contract says."""


class _QuickContract(Contract):
    """Asks a compiled validator first, which is a hundred times as fast; what that finds wrong, the checker words."""

    def __init__(self, documents: Mapping[Api, JsonObject], dialect: Dialect) -> None:
        super().__init__(documents, dialect)
        self._compiled: dict[tuple[Api, str], jsonschema_rs.Validator] = {}

    def value(self, api: Api, schema: Json, value: Json, *, is_closed: bool = False) -> Iterator[str]:
        key = (api, json.dumps(schema))
        if key not in self._compiled:
            whole = {**table(schema), "components": self._documents[api].get("components", {})}
            self._compiled[key] = jsonschema_rs.Draft202012Validator(whole, validate_formats=False)
        try:
            is_right = not is_closed and self._compiled[key].is_valid(value)
        except ValueError:
            is_right = False  # A text with half a character, which only Python has.
        return iter(()) if is_right else super().value(api, schema, value, is_closed=is_closed)


@functools.cache
def contract(dialect: Dialect = SVC) -> Contract:
    """The contracts in a dialect's names."""
    return _QuickContract(files.documents(tuple(Api), dialect), dialect)


def check_response(
    method: str,
    path: str,
    status: int,
    headers: Mapping[str, str],
    body: bytes | None,
    *,
    dialect: Dialect = SVC,
) -> str:
    """The id of the operation that answered; empty for a path or a method that no operation has.

    `path` is the raw target of the request, with or without its query; a body of None is not looked at.
    Raises: NotInContract.
    """
    match = contract(dialect).find(method, path.partition("?")[0])
    given = tuple((name.lower(), value) for name, value in headers.items())
    wrong = contract(dialect).answer(match, status, given, body)
    if wrong:
        raise NotInContract(f"{method} {path} -> {status}: {' | '.join(wrong)}; {(body or b'')[:500]!r}")
    return "" if match.operation is None else match.operation.id


def check_value(api: str, schema: Mapping[str, Any], value: Any) -> None:
    """Whether a value is what a schema of the contract says. Raises: NotInContract."""
    wrong = list(contract().value(Api(api), schema, value))
    if wrong:
        raise NotInContract(f"{' | '.join(wrong)}; {str(value)[:500]}")
