"""Connections: how long and how many without a request (D-278), and how answers are written to them."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimits:
    """Bounds of connections on which no request is under way.

    `head_s` is how long the head of the next request may take to be whole. It is longer than clients
    keep idle connections: a client that closes first never sends into a closed one. Of more than
    `most_idle` the longest idle one is closed.
    """

    head_s: float = 75
    most_idle: int = 1000


class IdleConnections:
    """The connections that wait for a request, the longest idle one first."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._closing: dict[object, Callable[[], None]] = {}

    def begin(self, connection: object, close: Callable[[], None]) -> None:
        """A connection waits from now on; `close` ends it if there are too many."""
        self._closing.pop(connection, None)
        self._closing[connection] = close
        if len(self._closing) > self._most:
            oldest = next(iter(self._closing))
            self._closing.pop(oldest)()

    def end(self, connection: object) -> None:
        """A connection has a request, or has gone."""
        self._closing.pop(connection, None)


class JoiningTransport(asyncio.Transport):
    """Sends what is written without a pause, as the head and body of an answer are, with one call of the system."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self._transport = transport
        self._loop = loop
        self._held = b""
        # The protocol asks them of the transport, some for each request.
        self.is_closing = transport.is_closing  # type: ignore[method-assign]
        self.get_extra_info = transport.get_extra_info  # type: ignore[method-assign]
        self.pause_reading = transport.pause_reading  # type: ignore[method-assign]
        self.resume_reading = transport.resume_reading  # type: ignore[method-assign]

    def write(self, data: bytes) -> None:  # type: ignore[override]
        held = self._held
        if held:
            self._held = b""
            self._transport.writelines((held, data))
        else:
            self._held = data
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        held, self._held = self._held, b""
        if held:
            self._transport.write(held)

    def abort(self) -> None:
        self._held = b""
        self._transport.abort()

    def close(self) -> None:
        self._flush()
        self._transport.close()


# -- the certificate that a server shows, read before anything else is started ----------------


class UnusableCertificate(Exception):
    """A certificate or its key cannot be used; the text names the file and says why, in one line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """Two PEM files that belong together and have been read once: a certificate with its chain, and its key."""

    cert: Path
    key: Path


class _Locked(Exception):
    """The key asks for a passphrase."""


def read_certificate(cert: str, key: str) -> Certificate:
    """The certificate of two files. Raises UnusableCertificate."""
    for path in (cert, key):
        _refuse_unreadable(path)
    # The same kind of context that the HTTP servers make, so that they accept what is accepted here.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(cert, key, password=_no_passphrase)
    except _Locked:
        raise UnusableCertificate(f"{key}: the key is locked with a passphrase, expected one without") from None
    except ssl.SSLError as error:
        raise UnusableCertificate(_reason(error, cert, key)) from error
    return Certificate(cert=Path(cert), key=Path(key))


def _refuse_unreadable(path: str) -> None:
    try:
        with open(path, "rb"):
            pass
    except OSError as error:
        raise UnusableCertificate(f"{path}: cannot be read: {error.strerror}") from error


def _no_passphrase() -> str:
    # Without this OpenSSL would ask on the terminal and block.
    raise _Locked


def _reason(error: ssl.SSLError, cert: str, key: str) -> str:
    if error.reason in ("KEY_VALUES_MISMATCH", "KEY_TYPE_MISMATCH"):
        return f"{key}: is not the key of the certificate {cert}"
    # OpenSSL does not say which of the files is at fault.
    if "-----BEGIN CERTIFICATE-----" not in Path(cert).read_text("latin-1"):
        return f"{cert}: holds no certificate in PEM form"
    if "PRIVATE KEY-----" not in Path(key).read_text("latin-1"):
        return f"{key}: holds no private key in PEM form"
    return f"{cert} and {key}: cannot be read as a certificate and its key ({error.reason or 'damaged PEM'})"
