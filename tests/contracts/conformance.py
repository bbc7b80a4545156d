"""Whether a response of the emulator is one that the contracts describe, by the checker that strict mode uses.

`check_response` takes any response of a server, from whichever test. What is not described is an
error: a status, a header of the service's own, a field.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from emulator.contract import files
from emulator.contract.check import Contract
from emulator.contract.document import Api
from emulator.wire.dialect import SVC, Dialect


class NotInContract(AssertionError):
    """A response is not as the contract says."""


@functools.cache
def contract(dialect: Dialect = SVC) -> Contract:
    """The contracts in a dialect's names."""
    return Contract(files.documents(tuple(Api), dialect), dialect)


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
