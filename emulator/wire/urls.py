"""Where a URL points: what is checked is what is connected to.

Two readers of one URL that disagree about its host are how a check is evaded. So the egress
policy, the Host header and the connection all use `read_target`. It is lenient where HTTP clients
are (letter case, trailing dots, percent forms, full-width characters, IPv4 addresses as one number,
in hexadecimal or octal) and gives all of them one spelling.
"""

from __future__ import annotations

import ipaddress
import re
import unicodedata
from functools import lru_cache
from ipaddress import AddressValueError, IPv6Address
from urllib.parse import quote, unquote

from emulator.core.errors import InvalidInput, Malformed
from emulator.core.language.text import excerpt
from emulator.core.model.options import Destination, DestinationKind
from emulator.core.record import Record
from emulator.wire import names
from emulator.wire.dialect import Dialect
from emulator.wire.names import read_field
from emulator.wire.parts import read_query

_DEFAULT_PORTS = {"http": 80, "https": 443}
_URL = re.compile(r"(https?)://([^/?#]*)([^#]*)", re.IGNORECASE | re.DOTALL)
_HOST_NAME = re.compile(r"[a-z0-9_-]+(\.[a-z0-9_-]+)*")
_NOT_IN_REQUEST_LINE = re.compile(r"[^\x21-\x7e]+")


class Target(Record):
    """Where a URL points.

    `host` is canonical: lower case, no trailing dot, ASCII, an IP address in its usual form and
    without brackets. `host_header` is the authority as typed, without credentials.
    `request_target` is path and query byte for byte, except that what HTTP forbids in a request
    line is percent-encoded (D-100).
    """

    scheme: str
    host: str
    port: int
    host_header: str
    credentials: str | None
    request_target: str

    @property
    def origin(self) -> str:
        """Scheme, host and port in one spelling; a default port is left out."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        is_default = self.port == _DEFAULT_PORTS[self.scheme]
        return f"{self.scheme}://{host}" if is_default else f"{self.scheme}://{host}:{self.port}"


@lru_cache(maxsize=4096)
def read_target(url: str) -> Target | None:
    """Where an http(s) URL points, or None if it names no usable host and port."""
    parts = _URL.match(url)
    if parts is None:
        return None
    scheme = parts[1].lower()
    userinfo, at, address = parts[2].rpartition("@")
    host_text, port_text = _split_port(address)
    host = canonical_host(host_text)
    if host is None or not (port_text.isascii() and (port_text == "" or port_text.isdigit())):
        return None
    port = int(port_text[:6]) if port_text else _DEFAULT_PORTS[scheme]
    if port > 65535:
        return None
    path = parts[3] if parts[3].startswith("/") else "/" + parts[3]
    return Target(
        scheme=scheme,
        host=host,
        port=port,
        host_header=_host_header(host_text, host, port_text),
        credentials=unquote(userinfo) if at else None,
        request_target=_NOT_IN_REQUEST_LINE.sub(lambda found: quote(found[0].encode("utf-8", "replace")), path),
    )


def origin_of(url: str) -> str | None:
    """The origin of an http(s) URL, or None if it names no usable host and port."""
    target = read_target(url)
    return None if target is None else target.origin


def is_local_name(host: str) -> bool:
    """Whether a name can only be one of this machine or a private network, because no public page can have it.

    `host` is a name in lower case without a trailing dot, not an address.
    """
    return bool(host) and ("." not in host or host.endswith((".localhost", ".internal", ".local")))


@lru_cache(maxsize=4096)
def canonical_host(text: str) -> str | None:
    """One spelling for all spellings of a host, or None if it is none.

    Brackets around an IPv6 address may be there or not; a zone (`%eth0`) is dropped.
    """
    if ":" in text:
        return _canonical_ipv6(text.removeprefix("[").removesuffix("]"))
    name = unicodedata.normalize("NFKC", unquote(text)).replace("。", ".").lower().removesuffix(".")
    if not name.isascii():
        try:
            name = name.encode("idna").decode("ascii").lower()
        except UnicodeError:
            return None
    if _HOST_NAME.fullmatch(name) is None:
        return None
    last = name.rpartition(".")[2]
    if last.isdigit() or last.startswith("0x"):
        return _canonical_ipv4(name)
    return name


def _canonical_ipv6(text: str) -> str | None:
    try:
        address = ipaddress.IPv6Address(unquote(text).partition("%")[0])
    except ValueError:
        return None
    return str(address)


def _canonical_ipv4(name: str) -> str | None:
    """The dotted form of an address in any of the spellings that `inet_aton` takes."""
    try:
        numbers = [_number(part) for part in name.split(".")]
    except ValueError:
        return None
    *leading, last = numbers
    if len(leading) > 3 or any(number > 255 for number in leading) or last >= 256 ** (4 - len(leading)):
        return None
    value = last + sum(number << (24 - 8 * place) for place, number in enumerate(leading))
    return str(ipaddress.IPv4Address(value))


def _number(text: str) -> int:
    # Python's int takes underscores, which no other reader of addresses does.
    if "_" in text or len(text) > 12:
        raise ValueError(text)
    if text.startswith("0x"):
        return int(text[2:] or "0", 16)
    return int(text, 8) if text.startswith("0") else int(text)


def _split_port(address: str) -> tuple[str, str]:
    if address.startswith("["):
        host, bracket, rest = address.partition("]")
        # Without its other bracket, or with anything but a port behind it, the whole is no address.
        return (host + bracket, rest[1:]) if bracket and rest[:1] in ("", ":") else ("", "")
    host, _, port = address.partition(":")
    return host, port


def _host_header(host_text: str, host: str, port_text: str) -> str:
    if not host_text.isascii() or "%" in host_text:
        host_text = f"[{host}]" if ":" in host else host
    return f"{host_text}:{port_text}" if port_text else host_text


# -- where a message goes: the destination in a raw path or a batch item, and every other URL ---
# Source: interface document, "Create a schedule", `destination`. Not shown there and chosen: a URL is
# kept byte for byte as it was typed (D-070), and what a URL may be (D-071).

MAX_URL_LENGTH = 8192

_FIELD = "destination"
_INVALID_SCHEME = "endpoint has invalid scheme, add http:// or https://"

# All of ASCII's visible characters but `#`, which begins a fragment.
_MESSAGE_URL = re.compile(
    r"[Hh][Tt][Tt][Pp][Ss]?://(?P<host>[A-Za-z0-9_.-]+|\[[0-9A-Fa-f:.]+\])(?::(?P<port>[0-9]*))?(?:[/?][!\"$-~]*)?"
)
_SCHEME = re.compile(r"https?://", re.IGNORECASE)
DOUBLED = "the base URL of the client has /v2/publish in it, expected the server's address alone"
# The path of a call whose client adds it to the path of a publish (D-530).
_DOUBLED = re.compile(r"/?v2/", re.IGNORECASE)
_AUTHORITY = re.compile(r"[^/?#]*")
# A program that encodes may be called by another one that has done so already.
_MOST_ENCODINGS = 3
_LONGEST_SHOWN = 500


# The service's own language model (D-311).
LLM = "api/llm"


def read_destination(rest_of_raw_path: str, typed_query: str | None, dialect: Dialect) -> Destination:
    """The destination of a publish: what follows the fixed part of the path, byte for byte.

    The request's query belongs to the destination, except for the service's own parameters; it is
    joined to the URL again as it was typed. The query of a publish to a group goes nowhere. It is None where the
    target has no question mark, which an empty one keeps (D-797).

    Raises: InvalidInput naming `destination`. Source: D-070.
    """
    if typed_query is not None and _SCHEME.match(rest_of_raw_path):
        pieces = _own_pieces(typed_query, dialect)
        if pieces:
            return read_batch_destination(f"{rest_of_raw_path}?{'&'.join(pieces)}", dialect)
    return read_batch_destination(rest_of_raw_path, dialect)


def read_batch_destination(text: str, dialect: Dialect) -> Destination:
    """A complete destination: a URL with its own query, the name of a URL group, or `api/llm`.

    Raises: InvalidInput naming `destination`. Source: D-070, D-071, D-311.
    """
    if _DOUBLED.match(text):
        raise InvalidInput(_FIELD, DOUBLED)
    if text == LLM:
        return Destination(kind=DestinationKind.API, text=text, url=dialect.llm_url)
    return _read(text)


def no_destination() -> InvalidInput:
    """What is wrong with a path that ends where its destination should begin."""
    return InvalidInput(_FIELD, "a non-empty destination must be provided")


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
        raise no_destination()
    encoded = _encoded_url("the destination", text)
    what = encoded or f"or give the name of a URL group; got {excerpt(text)}"
    raise InvalidInput(_FIELD, f"invalid destination url: {_INVALID_SCHEME}{'; ' if encoded else ', '}{what}")


def check_url(field: str, text: str) -> str:
    """A URL that messages may be sent to, exactly as typed. Raises: InvalidInput naming `field`."""
    return read_field(field, text, parse_url)


def parse_url(text: str) -> str:
    """A URL that messages may be sent to, exactly as typed.

    That is http or https in any case, a host, perhaps a port, no user, no fragment, at most 8192
    visible ASCII characters. Whether a server answers there is not checked (D-086). Raises: Malformed. Source: D-071.
    """
    matched = _MESSAGE_URL.fullmatch(text)
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
        return f"{_INVALID_SCHEME}; {_encoded_url('the URL', text) or f'got {excerpt(text)}'}"
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


def _encoded_url(subject: str, text: str) -> str | None:
    """What to write in place of a URL that is percent-encoded as a whole (D-801), None if the text is none."""
    for _ in range(_MOST_ENCODINGS):
        text = unquote(text)
        if _SCHEME.match(text):
            # Neither a user nor a query is shown: both may hold credentials, and the text is kept with the call.
            url, mark, _ = text.partition("?")
            is_shown = _MESSAGE_URL.fullmatch(url) is not None and len(url) <= _LONGEST_SHOWN
            shown = f": {url}{'?...' if mark else ''}" if is_shown else ""
            return f"{subject} is percent-encoded; write it as it is{shown}"
    return None


def _check_address(text: str) -> None:
    try:
        IPv6Address(text)
    except AddressValueError:
        raise Malformed(f"expected an IPv6 address between the brackets, got {excerpt(text)}") from None


def _check_host(host: str) -> None:
    labels = host.removesuffix(".").split(".")
    if len(host) > 253 or not all(1 <= len(label) <= 63 for label in labels) or host.startswith("-"):
        raise Malformed(f"expected a host name, got {excerpt(host)}")


def _own_pieces(raw_query: str, dialect: Dialect) -> list[str]:
    """The pieces of a query without the service's own parameters, the rest byte for byte and in order."""

    def is_own(piece: str) -> bool:
        pairs = read_query(piece.encode("latin-1", "replace"))
        return bool(pairs) and dialect.is_own_parameter(pairs[0][0])

    return [piece for piece in raw_query.split("&") if not is_own(piece)]
