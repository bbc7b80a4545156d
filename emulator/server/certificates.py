"""The certificate that a server shows, read before anything else is started."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path


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
