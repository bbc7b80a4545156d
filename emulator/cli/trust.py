"""Calls to a server that speaks TLS: whose certificates are trusted, and what goes wrong with them."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING

from emulator.cli.failures import Failure

if TYPE_CHECKING:
    import httpx


def trusted(ca: str | None, url: str) -> ssl.SSLContext | bool:
    """What an HTTP client checks the certificate of `url` against: the file of certificates, or the usual authorities.

    Raises Failure for a file that holds none.
    """
    if ca is None or not url.startswith("https://"):
        return True
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    # The server's own certificate may be named instead of its authority's, on every version of Python.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    try:
        context.load_verify_locations(ca)
    except ssl.SSLError as error:
        raise Failure(f"{ca}: holds no certificate in PEM form") from error
    except OSError as error:
        raise Failure(f"{ca}: cannot be read: {error.strerror}") from error
    return context


def refuse_tls_problem(error: httpx.HTTPError, url: str) -> None:
    """Raises Failure if a call failed because one side speaks TLS and the other does not, or is not trusted."""
    import httpx

    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, ssl.SSLError):
        cause = cause.__cause__ or cause.__context__
    match cause:
        case ssl.SSLCertVerificationError():
            reason = cause.verify_message.removesuffix(".")
            raise Failure(f"{url}: its certificate is not trusted: {reason} (name its authority with --ca FILE)")
        case ssl.SSLError():
            raise Failure(f"{url}: does not answer as a server with TLS does ({cause.reason}); is it http://?")
        case _ if url.startswith("http://") and isinstance(error, httpx.RemoteProtocolError | httpx.ReadError):
            raise Failure(
                f"{url}: {str(error) or 'the connection broke off'} (a server with a certificate is https://)"
            )
