"""The credentials that a request carries. Finding their owner is up to the caller.

Source: interface document, "Authentication". What happens when the header and the parameter
disagree is not shown, and chosen (D-079).
"""

from __future__ import annotations

import binascii
import json
from base64 import b64decode

from emulator.core.errors import InvalidInput
from emulator.core.record import Record
from emulator.wire.dialect import Dialect
from emulator.wire.parts import RequestParts

# Where the server's control token stands if `Authorization` has a world's (D-433).
CONTROL_TOKEN = "Emulator-Control-Token"


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
