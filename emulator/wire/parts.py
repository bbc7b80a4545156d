"""A request cut into parts, with nothing interpreted yet; the credentials and the media types in it."""

from __future__ import annotations

import binascii
import json
from base64 import b64decode
from collections.abc import Sequence
from urllib.parse import unquote, unquote_to_bytes

from emulator.core.errors import InvalidInput, NotAcceptable
from emulator.core.language.text import canonical_name, excerpt
from emulator.core.record import Record
from emulator.wire.dialect import Dialect

Pairs = tuple[tuple[str, str], ...]


class RequestParts(Record):
    """One request. `path` and `raw_query` hold its bytes as they came, one character for each.

    Header names are in lower case; `query` is decoded, in the order of the request. `has_query` is also true of a
    target that ends in its question mark.
    """

    method: str
    path: str
    raw_query: str
    query: Pairs
    headers: Pairs
    body: bytes
    client_ip: str
    scheme: str = "http"
    has_query: bool = False

    @property
    def typed_query(self) -> str | None:
        """The query as it came, None for a target without a question mark."""
        return self.raw_query if self.has_query else None

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
    has_query: bool = False,
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
        has_query=has_query or bool(query_string),
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


# -- the credentials that a request carries; finding their owner is up to the caller ----------
# Source: interface document, "Authentication". What happens when the header and the parameter
# disagree is not shown, and chosen (D-079).

# Where the server's control token stands if `Authorization` has a world's (D-433).
CONTROL_TOKEN = "Emulator-Control-Token"
_CONTROL = "/_emulator"


def is_control(path: str) -> bool:
    """Whether a path, decoded, is of the control API."""
    lower = path.lower()
    return lower == _CONTROL or lower.startswith(f"{_CONTROL}/")


# What a delivery to the control API fails with, and what such a request is refused with (D-770, D-771).
TAKES_NO_DELIVERIES = "the control API takes no deliveries"
# What to do about that.
NOT_BY_MESSAGE = "call it from a test, a program or the shell, not by a message"
# Percent-encodings around one another. Nothing that a request passes decodes a path so often.
_MOST_DECODINGS = 8
# Twice as long as the URL of a message may be: no delivery has a longer path.
_LONGEST_PATH = 16_384


def leads_to_control(raw_path: str) -> bool:
    """Whether a path is of the control API in any reading that a server, or a proxy before it, may have.

    `raw_path` is as it stands in a request, with its query or without. Letter case, percent-encoding, doubled
    slashes, backslashes, dot segments and parameters of segments make no difference (D-771).
    """
    path = raw_path.partition("?")[0].lower()
    if "%" not in path and _CONTROL[1:] not in path:
        return False
    if len(path) > _LONGEST_PATH:
        # To decode it several times would hold other calls up.
        return True
    for _ in range(_MOST_DECODINGS):
        if _has_control_segment(path):
            return True
        decoded = unquote(path, "latin-1").lower()
        if decoded == path:
            return False
        path = decoded
    # Encoded so often, it hides something.
    return True


def _has_control_segment(path: str) -> bool:
    """Whether the first segment of a path is the control API's, or any where dots may make it the first."""
    pieces = (piece.partition(";")[0].strip(_UNSEEN) for piece in path.replace("\\", "/").split("/"))
    segments = [piece for piece in pieces if piece not in ("", ".")]
    candidates = segments if ".." in segments else segments[:1]
    return any(segment.startswith(_CONTROL[1:]) for segment in candidates)


# Some readers drop them from a path.
_UNSEEN = "".join(map(chr, (*range(0x21), 0x7F)))


class BasicCredentials(Record):
    """The user name and password of HTTP Basic authentication."""

    username: str
    password: str


def bearer_token(parts: RequestParts, dialect: Dialect) -> str | None:
    """The token of a messaging request, None without one.

    The parameter wins: a webhook's sender may have an Authorization header of its own, which
    concerns the destination (D-079). Raises: InvalidInput for a parameter given twice.
    """
    return token_parameter(parts, dialect) or _credentials_of(parts, "bearer")


def authorization_token(parts: RequestParts) -> str | None:
    """The bearer token of the Authorization header alone, None without one."""
    return _credentials_of(parts, "bearer")


def token_parameter(parts: RequestParts, dialect: Dialect) -> str | None:
    """The token in the query, None without one. Raises: InvalidInput for one given twice."""
    if not parts.query:
        return None
    wanted = dialect.token_parameter.lower()
    given = [value for name, value in parts.query if name.lower() == wanted and value]
    if len(given) > 1:
        raise InvalidInput(dialect.token_parameter, "expected this parameter only once")
    return given[0] if given else None


def user_of(token: str) -> str | None:
    """The `UserID` that a messaging token names (D-051), None for a token of another form."""
    try:
        named = json.loads(b64decode(token, validate=True))
    except (binascii.Error, ValueError, RecursionError):
        return None
    user = named.get("UserID") if isinstance(named, dict) else None
    return user if isinstance(user, str) else None


def basic_credentials(parts: RequestParts) -> BasicCredentials | None:
    """The credentials of a management request, None without any that can be read."""
    encoded = _credentials_of(parts, "basic")
    if encoded is None:
        return None
    try:
        text = b64decode(encoded, validate=True).decode()
    except (binascii.Error, ValueError):
        return None
    username, colon, password = text.partition(":")
    return BasicCredentials(username=username, password=password) if colon else None


def _credentials_of(parts: RequestParts, scheme: str) -> str | None:
    value = parts.header("authorization")
    if value is None:
        return None
    given, _, rest = value.strip().partition(" ")
    return (rest.strip() or None) if given.lower() == scheme else None


# -- the media types that a request names: of its body (`Content-Type`), and accepted (`Accept`) --

_ANY = ("*/*", "application/*", "application/json")


def accepted_text(parts: RequestParts) -> str:
    """What the client says that it accepts, empty if it does not say."""
    return ", ".join(value for name, value in parts.headers if name == "accept" and value.strip())


def read_accept(parts: RequestParts) -> list[tuple[str, float]]:
    """The media types that the client accepts with their qualities, in its order; none if it does not say."""
    accepted = accepted_text(parts)
    found: list[tuple[str, float]] = []
    for entry in accepted.lower().split(",") if accepted else ():
        media_type, *parameters = (piece.strip() for piece in entry.split(";"))
        found.append((media_type, _quality(parameters)))
    return found


def check_accepts_json(parts: RequestParts) -> None:
    """Raises NotAcceptable if the client excludes JSON, which is what there is (D-175)."""
    best = dict(read_accept(parts))
    if not best:
        return
    # The most specific entry decides: `application/json;q=0, */*` excludes JSON and nothing else.
    for media_type in reversed(_ANY):
        if media_type in best:
            if best[media_type] > 0:
                return
            break
    raise NotAcceptable(
        f"expected a client that accepts application/json, it accepts only {excerpt(accepted_text(parts))}"
    )


def prefers_html(parts: RequestParts) -> bool:
    """Whether the client asks for HTML by name, and not for JSON before it: a browser does."""
    qualities = dict(read_accept(parts))
    html = qualities.get("text/html", 0.0)
    return html > 0 and html >= qualities.get("application/json", 0.0)


def check_is_json(parts: RequestParts) -> None:
    """Raises InvalidInput for a body that says to be anything but JSON; one that says nothing is fine (D-175)."""
    content_type = parts.header("content-type")
    if content_type is None or not content_type.strip():
        return
    media_type = content_type.partition(";")[0].strip().lower()
    if media_type != "application/json" and not (
        media_type.startswith("application/") and media_type.endswith("+json")
    ):
        raise InvalidInput("Content-Type", f"expected application/json, got {excerpt(content_type)}")


def _quality(parameters: list[str]) -> float:
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip() == "q":
            try:
                return float(value)
            except ValueError:
                return 1.0
    return 1.0
