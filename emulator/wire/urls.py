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
from urllib.parse import quote, unquote

from emulator.core.record import Record

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
    return Target(
        scheme=scheme,
        host=host,
        port=port,
        host_header=_host_header(host_text, host, port_text),
        credentials=unquote(userinfo) if at else None,
        request_target=_request_target(parts[3]),
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
    if text.startswith("[") or ":" in text:
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


def _request_target(text: str) -> str:
    target = text if text.startswith("/") else "/" + text
    return _NOT_IN_REQUEST_LINE.sub(lambda found: quote(found[0].encode("utf-8", "replace")), target)
