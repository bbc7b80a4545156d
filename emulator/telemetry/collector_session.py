"""The HTTP client of spans: of what a collector answers it reads a little, and for a little time.

Import it only where an exporter of OTLP over HTTP is installed, which depends on `requests`.
"""

from __future__ import annotations

import io
import time
from typing import Any

import requests

# An answer of OTLP says which spans were refused, in a few hundred bytes.
MAX_ANSWER_BYTES = 64 * 1024
_MAX_ANSWER_S = 10.0


class CollectorSession(requests.Session):
    """A session whose answers have the first 64 KiB of their bodies, as they came (D-791)."""

    def __init__(self) -> None:
        super().__init__()
        # Packed, a small answer may be a long one.
        self.headers["Accept-Encoding"] = "identity"

    def send(self, request: requests.PreparedRequest, **options: Any) -> requests.Response:
        """Send, and read the beginning of the answer. Raises: as the session's own."""
        answer = super().send(request, **{**options, "stream": True})
        is_whole = False
        try:
            beginning, is_whole = _beginning(answer)
        finally:
            if not is_whole:
                # The connection has more of it.
                answer.close()
        kept = requests.Response()
        kept.status_code, kept.reason, kept.headers = answer.status_code, answer.reason, answer.headers
        kept.url, kept.request, kept.history, kept.elapsed = answer.url, request, answer.history, answer.elapsed
        kept.headers.pop("Content-Encoding", None)
        kept.raw = io.BytesIO(beginning)
        return kept


def _beginning(answer: requests.Response) -> tuple[bytes, bool]:
    """The beginning of a body, and whether it is all."""
    body = bytearray()
    deadline_s = time.monotonic() + _MAX_ANSWER_S
    for piece in answer.raw.stream(4096, decode_content=False):
        body += piece
        if len(body) > MAX_ANSWER_BYTES or time.monotonic() > deadline_s:
            return bytes(body[:MAX_ANSWER_BYTES]), False
    return bytes(body), True
