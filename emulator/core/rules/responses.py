"""Responses as the service reads and reports them.

Every delivery asks for gzip (D-102), so the service unpacks what it asked for, as HTTP clients do. The delivery
journal keeps the response as it was received.
"""

from __future__ import annotations

import zlib

from msgspec.structs import replace

from emulator.core.model.answers import Response
from emulator.core.model.names import Headers

# So much of an unpacked body is shown; a small response may hold a thousand times its size.
MOST_SHOWN_BYTES = 10 * 1024 * 1024
_GZIP = 16 + zlib.MAX_WBITS
_OF_THE_PACKED_BODY = ("content-encoding", "content-length")


def as_read(response: Response, requested: Headers, most_bytes: int = MOST_SHOWN_BYTES) -> Response:
    """The response with its body unpacked, at most `most_bytes` of it, and without the headers of the packed one.

    It stays as it is if it is not in gzip, or not whole, and if the message brought its own `Accept-Encoding` among the
    `requested` headers: then its publisher asked, and unpacks (D-440).
    """
    encodings = [value for name, value in response.headers if name.lower() == "content-encoding"]
    if [value.strip().lower() for value in encodings] != ["gzip"]:
        return response
    if any(name.lower() == "accept-encoding" for name, _ in requested):
        return response
    body = _unpacked(response.body, most_bytes)
    if body is None:
        return response
    kept = tuple(pair for pair in response.headers if pair[0].lower() not in _OF_THE_PACKED_BODY)
    return replace(response, headers=kept, body=body)


def _unpacked(body: bytes, most_bytes: int) -> bytes | None:
    """The beginning of what gzip packed, None for anything else; there may be several streams in a row."""
    unpacked = bytearray()
    while body and len(unpacked) < most_bytes:
        stream = zlib.decompressobj(_GZIP)
        try:
            unpacked += stream.decompress(body, most_bytes - len(unpacked))
        except zlib.error:
            return None
        if not stream.eof and len(unpacked) < most_bytes:
            return None
        body = stream.unused_data
    return bytes(unpacked)
