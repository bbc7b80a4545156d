"""Where a message goes: the destination in a raw path or a batch item, and every other URL.

Source: interface document, "Create a schedule", `destination`. Not shown there and chosen: a URL is
kept byte for byte as it was typed (D-070), and what a URL may be (D-071).
"""

from __future__ import annotations

import re
from functools import lru_cache
from ipaddress import AddressValueError, IPv6Address

from emulator.core.errors import InvalidInput, Malformed
from emulator.core.language.excerpts import excerpt
from emulator.core.model.options import Destination, DestinationKind
from emulator.wire import names
from emulator.wire.dialect import Dialect
from emulator.wire.fields import read_field
from emulator.wire.parts import read_query

MAX_URL_LENGTH = 8192

_FIELD = "destination"
_INVALID_SCHEME = "endpoint has invalid scheme, add http:// or https://"

# All of ASCII's visible characters but `#`, which begins a fragment.
_URL = re.compile(
    r"[Hh][Tt][Tt][Pp][Ss]?://(?P<host>[A-Za-z0-9_.-]+|\[[0-9A-Fa-f:.]+\])(?::(?P<port>[0-9]*))?(?:[/?][!\"$-~]*)?"
)
_SCHEME = re.compile(r"https?://", re.IGNORECASE)
_AUTHORITY = re.compile(r"[^/?#]*")


# The service's own language model (D-311).
LLM = "api/llm"


def read_destination(rest_of_raw_path: str, raw_query: str, dialect: Dialect) -> Destination:
    """The destination of a publish: what follows the fixed part of the path, byte for byte.

    The request's query belongs to the destination, except for the service's own parameters; it is
    joined to the URL again as it was typed. The query of a publish to a group goes nowhere.

    Raises: InvalidInput naming `destination`. Source: D-070.
    """
    if raw_query and _SCHEME.match(rest_of_raw_path):
        own_query = _own_query(raw_query, dialect)
        if own_query:
            return read_batch_destination(f"{rest_of_raw_path}?{own_query}", dialect)
    return read_batch_destination(rest_of_raw_path, dialect)


def read_batch_destination(text: str, dialect: Dialect) -> Destination:
    """A complete destination: a URL with its own query, the name of a URL group, or `api/llm`.

    Raises: InvalidInput naming `destination`. Source: D-070, D-071, D-311.
    """
    if text == LLM:
        return Destination(kind=DestinationKind.API, text=text, url=dialect.llm_url)
    return _read(text)


@lru_cache(maxsize=1024)
def _read(text: str) -> Destination:
    if _SCHEME.match(text):
        try:
            return Destination(kind=DestinationKind.URL, text=parse_url(text))
        except Malformed as malformed:
            raise InvalidInput(_FIELD, f"invalid destination url: {malformed.reason}") from None
    if names.is_name(text):
        return Destination(kind=DestinationKind.GROUP, text=text)
    if not text:
        raise InvalidInput(_FIELD, "a non-empty destination must be provided")
    raise InvalidInput(
        _FIELD,
        f"invalid destination url: {_INVALID_SCHEME}, or give the name of a URL group; got {excerpt(text)}",
    )


def check_url(field: str, text: str) -> str:
    """A URL that messages may be sent to, exactly as typed. Raises: InvalidInput naming `field`."""
    return read_field(field, text, parse_url)


def parse_url(text: str) -> str:
    """A URL that messages may be sent to, exactly as typed.

    That is http or https in any case, a host, perhaps a port, no user, no fragment, at most 8192
    visible ASCII characters. Whether a server answers there is not checked (D-086). Raises: Malformed. Source: D-071.
    """
    matched = _URL.fullmatch(text)
    if matched is None or len(text) > MAX_URL_LENGTH:
        raise Malformed(_what_is_wrong(text))
    host, port = matched["host"], matched["port"]
    if port is not None and not (len(port) <= 5 and port and 1 <= int(port) <= 65535):
        raise Malformed(f"expected a port from 1 to 65535, got {excerpt(port)}")
    if host.startswith("["):
        _check_address(host[1:-1])
    elif len(host) > 63 or host[0] in ".-" or ".." in host:
        _check_host(host)
    return text


def _what_is_wrong(text: str) -> str:
    scheme = _SCHEME.match(text)
    if scheme is None:
        return f"{_INVALID_SCHEME}; got {excerpt(text)}"
    if len(text) > MAX_URL_LENGTH:
        return f"expected at most {MAX_URL_LENGTH} characters, got {len(text)}"
    if not text.isascii() or not text.isprintable() or " " in text:
        return f"expected visible ASCII characters only, all others percent-encoded, got {excerpt(text)}"
    if "#" in text:
        return f"expected no fragment, got {excerpt(text[text.index('#') :])}"
    authority = _AUTHORITY.match(text, scheme.end())
    shown = "" if authority is None else authority[0]
    if "@" in shown:
        return "expected no user and password in front of the host"
    return f"expected a host and perhaps a port, got {excerpt(shown)}"


def _check_address(text: str) -> None:
    try:
        IPv6Address(text)
    except AddressValueError:
        raise Malformed(f"expected an IPv6 address between the brackets, got {excerpt(text)}") from None


def _check_host(host: str) -> None:
    labels = host.removesuffix(".").split(".")
    if len(host) > 253 or not all(1 <= len(label) <= 63 for label in labels) or host.startswith("-"):
        raise Malformed(f"expected a host name, got {excerpt(host)}")


def _own_query(raw_query: str, dialect: Dialect) -> str:
    """The query without the service's own parameters, the rest byte for byte and in order."""
    return "&".join(piece for piece in raw_query.split("&") if not _is_own(piece, dialect))


def _is_own(piece: str, dialect: Dialect) -> bool:
    pairs = read_query(piece.encode("latin-1", "replace"))
    return bool(pairs) and dialect.is_own_parameter(pairs[0][0])
