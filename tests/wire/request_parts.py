"""Request parts for the tests of the readers."""

from __future__ import annotations

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
