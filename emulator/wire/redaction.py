"""Svc-Redact-Fields: which parts of a message the API shows only as a hash.

Deliveries always carry the original values; this module serves the answers of the API and the log.
Source: interface document, Svc-Redact-Fields. Not shown there, and chosen: the hash is lowercase
hexadecimal, header names are compared without regard to case, everything else is case-sensitive (D-087).
"""

from __future__ import annotations

import hashlib
import re

from msgspec.structs import replace

from emulator.core.errors import Malformed
from emulator.core.language.text import excerpt
from emulator.core.model.messages import AttemptOutcome, Message, Response
from emulator.core.model.options import Redaction

# The name is what HTTP allows in a header's name.
_ONE_HEADER = re.compile(r"headers?\[ *([-!#$%&'*+.^_`|~0-9A-Za-z]+) *\]")


def parse_redaction(text: str) -> Redaction:
    """The fields to redact, from a list of `body`, `headers` and `header[<name>]`, separated by commas.

    `header` stands for `headers` and the other way round, because clients write both. Repetitions
    are harmless; names come out in lower case, in the order of their first mention.

    Raises: Malformed. Source: interface document, Svc-Redact-Fields.
    """
    body = False
    all_headers = False
    # Without values: a set that keeps its order.
    names: dict[str, None] = {}
    for item in (part.strip() for part in text.split(",")):
        if item == "body":
            body = True
        elif item in ("header", "headers"):
            all_headers = True
        elif one_header := _ONE_HEADER.fullmatch(item):
            names[one_header[1].lower()] = None
        else:
            raise Malformed(f"expected a list of body, headers, header[<name>], got {excerpt(item)}")
    return Redaction(body=body, all_headers=all_headers, header_names=tuple(names))


def redacted_text(value: bytes) -> str:
    """What the API shows instead of a value: `REDACTED:` and its SHA-256."""
    return "REDACTED:" + hashlib.sha256(value).hexdigest()


def joined(first: Redaction | None, second: Redaction | None) -> Redaction | None:
    """What either of two hides, each None if it hides nothing."""
    return second if first is None else first.joined(second)


def shown_body(body: bytes, redaction: Redaction | None) -> bytes:
    """The body, or the marker that stands for it. An empty body hides nothing and stays empty."""
    return redacted_text(body).encode() if body and redaction is not None and redaction.body else body


def shown_response(response: Response, message: Message) -> Response:
    """What a message was answered, as logs show it: what a run hides is hidden in answers too (D-513)."""
    redaction = message.policy.redaction
    if message.run is None or redaction is None:
        return response
    headers = redact_headers(response.headers, redaction)
    return replace(response, headers=headers, body=shown_body(response.body, redaction))


def shown_outcome(outcome: AttemptOutcome, message: Message) -> AttemptOutcome:
    """The outcome of an attempt with its answer as logs show it."""
    if outcome.response is None:
        return outcome
    return replace(outcome, response=shown_response(outcome.response, message))


def redact_headers(headers: tuple[tuple[str, str], ...], redaction: Redaction) -> tuple[tuple[str, str], ...]:
    """The headers as the API shows them: same names, same order, redacted values replaced."""
    return tuple(
        # A text that came from JSON may hold half a surrogate pair, which plain UTF-8 refuses to encode.
        (name, redacted_text(value.encode("utf-8", "surrogatepass")))
        if redaction.all_headers or name.lower() in redaction.header_names
        else (name, value)
        for name, value in headers
    )
