"""What the tests of the readers share: the parts of a request, and how a refusal names its field."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from emulator.core.errors import InvalidInput
from emulator.wire.parts import RequestParts, read_parts


def request(
    *headers: tuple[str, str],
    query: str = "",
    body: bytes = b"",
    method: str = "POST",
    path: str = "/v2/publish/https://example.com",
) -> RequestParts:
    """The parts of a request with these headers, in this order."""
    return read_parts(
        method=method,
        raw_path=path.encode(),
        query_string=query.encode(),
        raw_headers=[(name.encode(), value.encode()) for name, value in headers],
        body=body,
        client_ip="127.0.0.1",
    )


@contextmanager
def refused(field: str) -> Iterator[None]:
    """What is read within is refused, and the refusal names this field."""
    with pytest.raises(InvalidInput) as caught:
        yield
    assert caught.value.field == field
