"""What of a response the service reads, and what stays as it was received."""

from __future__ import annotations

import gzip
import zlib

import pytest

from emulator.core.model.answers import Response
from emulator.core.rules.responses import as_read

TEXT = b'{"done": true}' * 10
PACKED = gzip.compress(TEXT, mtime=0)


def packed(body: bytes = PACKED, *encodings: str) -> Response:
    named = [("content-ENCODING", each) for each in encodings or ("gzip",)]
    return Response(status=200, headers=(("X-Own", "1"), *named, ("Content-Length", str(len(body)))), body=body)


def test_what_was_asked_for_in_gzip_is_unpacked() -> None:
    """D-440: so the headers about the packed body are gone."""
    assert as_read(packed(), ()) == Response(status=200, headers=(("X-Own", "1"),), body=TEXT)
    assert as_read(packed(PACKED, " GZip "), (("X-Accept", "a"),)).body == TEXT
    assert as_read(packed(PACKED * 2), ()).body == TEXT * 2
    assert as_read(packed(b""), ()).body == b""


@pytest.mark.parametrize(
    ("response", "requested"),
    [
        pytest.param(packed(), (("accept-Encoding", "gzip"),), id="the publisher asked"),
        pytest.param(packed(PACKED[:-3]), (), id="cut short"),
        pytest.param(packed(b"not gzip!"), (), id="no gzip"),
        pytest.param(packed(PACKED + b"x"), (), id="something behind it"),
        pytest.param(packed(zlib.compress(TEXT), "deflate"), (), id="another encoding"),
        pytest.param(packed(PACKED, "gzip", "gzip"), (), id="packed twice"),
        pytest.param(Response(status=200, headers=(), body=PACKED), (), id="a file"),
    ],
)
def test_everything_else_stays_as_it_was_received(response: Response, requested: tuple[tuple[str, str], ...]) -> None:
    """D-440."""
    assert as_read(response, requested) is response


def test_of_a_large_body_the_beginning_is_read() -> None:
    """D-440: a small response may hold a thousand times its size."""
    bomb = gzip.compress(bytes(64 * 1024 * 1024), mtime=0)
    assert len(as_read(packed(bomb), (), 1000).body) == 1000
    assert as_read(packed(), (), 20).body == TEXT[:20]
    assert len(as_read(packed(bomb), ()).body) == 10 * 1024 * 1024
