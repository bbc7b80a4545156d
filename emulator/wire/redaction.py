"""What may be shown of what messages and runs contain, and of tokens: every surface asks here (D-775).

A message or a run hides what its Svc-Redact-Fields lists. Deliveries always carry the original values.
`Visibility` says what is left of a body, of headers and of answers on one `Surface`; no other module makes
the marker, or reads which fields are hidden.
Source: interface document, Svc-Redact-Fields. Not shown there, and chosen: the hash is lowercase
hexadecimal, header names are compared without regard to case, everything else is case-sensitive (D-087).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum, auto

from msgspec.structs import replace

from emulator.core.errors import Malformed
from emulator.core.language.text import excerpt
from emulator.core.model.messages import AttemptOutcome, Message, Response
from emulator.core.model.options import Redaction
from emulator.core.record import Headers
from emulator.wire.urls import read_target

# -- which fields are hidden --------------------------------------------------------------------

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


def redacted_fields(redaction: Redaction | None) -> tuple[str, ...]:
    """The fields as Svc-Redact-Fields lists them; the other way round than `parse_redaction`."""
    if redaction is None:
        return ()
    names = (f"header[{name}]" for name in redaction.header_names)
    return (*(("body",) if redaction.body else ()), *(("headers",) if redaction.all_headers else ()), *names)


def joined(first: Redaction | None, second: Redaction | None) -> Redaction | None:
    """What either of two hides, each None if it hides nothing."""
    return second if first is None else first.joined(second)


# -- what is shown of what they contain ---------------------------------------------------------


class Surface(Enum):
    """Where content is shown (D-775)."""

    # The service's API: the body and the headers of messages, and of a run what was answered to its messages (D-513).
    SERVICE = auto()
    # The emulator's own lists, explanations, page, shell, tools and texts of failed checks: all answers as well.
    OWN = auto()
    # Where somebody has asked for originals (D-514), and what computes with them.
    EXACT = auto()
    # The log of the server and its spans, which others keep: no content at all, redacted or not.
    LOG = auto()


def surface_of(*, redact: bool) -> Surface:
    """The surface of a call of the control API that was asked to hide, or not to."""
    return Surface.OWN if redact else Surface.EXACT


@dataclass(frozen=True, slots=True)
class Visibility:
    """How much of the content of a message or a run is shown on a surface. None hides nothing."""

    redaction: Redaction | None
    surface: Surface
    # Whether what was answered is hidden as well.
    hides_answers: bool = True

    @property
    def hides_anything(self) -> bool:
        """Whether something is not shown as it is."""
        return self.surface is not Surface.EXACT and self.redaction is not None

    @property
    def hides_body(self) -> bool:
        """Whether bodies are not shown as they are."""
        return self.surface is Surface.LOG or (
            self.surface is not Surface.EXACT and self.redaction is not None and self.redaction.body
        )

    def hides_header(self, name: str) -> bool:
        """Whether the values of a header are not shown as they are."""
        if self.surface is Surface.LOG:
            return True
        if self.surface is Surface.EXACT or self.redaction is None:
            return False
        return self.redaction.all_headers or name.lower() in self.redaction.header_names

    def body(self, content: bytes) -> bytes:
        """The body, or the marker that stands for it. An empty body hides nothing and stays empty."""
        if not content or not self.hides_body:
            return content
        return self._described(content) if self.surface is Surface.LOG else redacted_text(content).encode()

    def text(self, text: str) -> str:
        """The same of a body that is kept as text."""
        return self.body(text.encode("utf-8", "replace")).decode() if self.hides_body else text

    def headers(self, headers: Headers) -> Headers:
        """Same names, same order, hidden values replaced by the marker; on the log none."""
        if self.surface is Surface.LOG:
            return ()
        if not self.hides_anything:
            return headers
        return tuple(
            # A text that came from JSON may hold half a surrogate pair, which plain UTF-8 refuses to encode.
            (name, redacted_text(value.encode("utf-8", "surrogatepass")) if self.hides_header(name) else value)
            for name, value in headers
        )

    def open_headers(self, headers: Headers) -> Headers:
        """The headers whose values are shown as they are."""
        return tuple((name, value) for name, value in headers if not self.hides_header(name))

    def reported_value(self, name: str, value: str) -> str:
        """The value of a header that stands in a body: it is hidden with the body, and where the header is hidden."""
        return redacted_text(value.encode("utf-8", "replace")) if self.hides_body or self.hides_header(name) else value

    def size(self, size: int) -> int | None:
        """The length of a body; None where something is hidden, because a length can tell what (D-655)."""
        return None if self.hides_anything else size

    def response(self, response: Response) -> Response:
        """What was answered. A receiver may repeat what it got, in its headers and anywhere in its body.

        So the emulator's own surfaces hide the whole body of an answer if the message hides anything (D-776).
        """
        if self.surface is not Surface.LOG and not (self.hides_answers and self.hides_anything):
            return response
        body = self.answer(response.body, response.headers)
        return replace(response, headers=self.headers(response.headers), body=body)

    def answer(self, content: bytes, headers: Headers = ()) -> bytes:
        """The same of the body of an answer alone; the log names its type by the headers beside it."""
        if not content or not self.hides_answers:
            return content
        if self.surface is Surface.LOG:
            return self._described(content, headers)
        if self.surface is Surface.OWN and self.hides_anything:
            return redacted_text(content).encode()
        return self.body(content)

    def outcome(self, outcome: AttemptOutcome) -> AttemptOutcome:
        """The outcome of an attempt with its answer as it is shown."""
        if outcome.response is None:
            return outcome
        return replace(outcome, response=self.response(outcome.response))

    def _described(self, content: bytes, headers: Headers = ()) -> bytes:
        """What the log has of a content: its size and its type, or of a message that hides something neither."""
        if self.hides_anything:
            return b"redacted"
        named = (value for name, value in headers if name.lower() == "content-type")
        media_type = _MEDIA_TYPE.match(next(named, ""))
        size = f"{len(content)} byte{'' if len(content) == 1 else 's'}"
        return f"{size} of {media_type[0].lower()}".encode() if media_type else size.encode()


# Without parameters, which may hold anything.
_MEDIA_TYPE = re.compile(r"(?:application|audio|font|image|message|model|multipart|text|video)/[-+.0-9A-Za-z]{1,40}\b")


def visibility_of(message: Message, surface: Surface) -> Visibility:
    """How much is shown of a message, and of what was answered to it."""
    hides_answers = surface is not Surface.SERVICE or message.run is not None
    return Visibility(message.policy.redaction, surface, hides_answers)


def visibility_of_fields(fields: Iterable[str], surface: Surface) -> Visibility:
    """The same of a delivery that the control API has listed, by the fields that it says its message redacts."""
    listed = ",".join(fields)
    return Visibility(parse_redaction(listed) if listed else None, surface)


def redacted_text(value: bytes) -> str:
    """What stands for a value: `REDACTED:` and its SHA-256."""
    return "REDACTED:" + hashlib.sha256(value).hexdigest()


_MARKER = re.compile("REDACTED:[0-9a-f]{64}")


def is_redacted(value: object) -> bool:
    """Whether a value is the marker that stands for another one."""
    return isinstance(value, str) and _MARKER.fullmatch(value) is not None


# -- credentials --------------------------------------------------------------------------------
# They are no content of messages: what the log, spans and the list of refused calls show has none, whatever is
# redacted (D-777).

_MASK = "***"
_SECRET_NAME = re.compile(r"token|secret|password|passwd|credential|signature|auth|api[-_]?key", re.IGNORECASE)
# A URL may stand in the query of another one, percent-encoded.
_PARAMETER = re.compile(
    r"""((?:[?&]|%3F|%26)((?:(?!%3[DF]|%26)[^?&=\s"#])+)(?:=|%3D))(?:(?!%3F|%26|%23)[^&\s"#])*""", re.IGNORECASE
)
_USER_INFO = re.compile(r"""(//|%2F%2F)(?:(?!%2F|%3F|%40)[^/@?&\s"])*(@|%40)""", re.IGNORECASE)


# The service's tokens and JWTs, wherever they stand: base64 of a JSON object.
_TOKEN = re.compile(r"eyJ[-+/.\w]{16,}(?:=|%3D)*")


def mask_credentials(text: str) -> str:
    """A text without tokens, user names and passwords of URLs, and values of parameters named like a credential."""
    if "eyJ" in text:
        text = _TOKEN.sub(_MASK, text)
    if "@" in text or "%40" in text:
        text = _USER_INFO.sub(rf"\g<1>{_MASK}\g<2>", text)
    return _PARAMETER.sub(_masked_parameter, text) if "?" in text or "&" in text or "%" in text else text


def _masked_parameter(parameter: re.Match[str]) -> str:
    return f"{parameter[1]}{_MASK}" if _SECRET_NAME.search(parameter[2]) else parameter[0]


def url_of_span(url: str) -> str:
    """A URL as spans have it: without user name and password, and of its query the names alone (D-777)."""
    target = read_target(url)
    shown = url if target is None or not target.credentials else f"{target.origin}{target.request_target}"
    path, mark, query = shown.partition("?")
    pieces = (piece.partition("=") for piece in query.split("&"))
    values = (f"{name}=REDACTED" if equals else "REDACTED" for name, equals, _ in pieces)
    return f"{path}?{'&'.join(values)}" if query else f"{path}{mark}"
