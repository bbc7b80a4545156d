"""A request cut into parts, with nothing interpreted yet."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import unquote_to_bytes

from emulator.core.errors import InvalidInput
from emulator.core.language.headers import canonical_name
from emulator.core.record import Record

Pairs = tuple[tuple[str, str], ...]


class RequestParts(Record):
    """One request. `path` and `raw_query` hold its bytes as they came, one character for each.

    Header names are in lower case; `query` is decoded, in the order of the request.
    """

    method: str
    path: str
    raw_query: str
    query: Pairs
    headers: Pairs
    body: bytes
    client_ip: str
    scheme: str = "http"

    def header(self, lower_name: str) -> str | None:
        """The first value of a header, None without one."""
        for name, value in self.headers:
            if name == lower_name:
                return value
        return None


def read_parts(
    *,
    method: str,
    raw_path: bytes,
    query_string: bytes,
    raw_headers: Sequence[tuple[bytes, bytes]],
    body: bytes,
    client_ip: str,
    scheme: str = "http",
) -> RequestParts:
    """The parts of a request as an ASGI server hands it over.

    Raises: InvalidInput naming a header whose value is not UTF-8.
    """
    return RequestParts(
        method=method,
        path=raw_path.decode("latin-1"),
        raw_query=query_string.decode("latin-1"),
        query=read_query(query_string) if query_string else (),
        headers=_headers(raw_headers),
        body=body,
        client_ip=client_ip,
        scheme=scheme,
    )


def read_query(query_string: bytes) -> Pairs:
    """The names and values of a query, decoded like a form; what is not UTF-8 becomes U+FFFD.

    It cannot refuse anything: part of the query may belong to a destination, which gets it as it is.
    """
    pairs = []
    for piece in query_string.split(b"&"):
        if piece:
            name, _, value = piece.partition(b"=")
            pairs.append((_decoded(name), _decoded(value)))
    return tuple(pairs)


def _decoded(piece: bytes) -> str:
    if b"+" in piece:
        piece = piece.replace(b"+", b" ")
    if b"%" in piece:
        piece = unquote_to_bytes(piece)
    return piece.decode("utf-8", "replace")


def _headers(raw_headers: Sequence[tuple[bytes, bytes]]) -> Pairs:
    name = b""
    headers = []
    try:
        for name, value in raw_headers:
            headers.append((name.decode("latin-1").lower(), value.decode()))
    except UnicodeDecodeError:
        raise InvalidInput(canonical_name(name.decode("latin-1").lower()), "expected a value in UTF-8") from None
    return tuple(headers)
