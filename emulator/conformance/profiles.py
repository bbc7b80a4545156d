"""What is known of the public clients' receivers, by which most receivers verify.

A check that fails for such a reason is reported as tolerated, with the reason (D-414).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

NONE = "none"

_URL_IS_OPTIONAL = "the client compares the URL only if verify() is given one: url="
_BODY_IS_TEXT = "the client takes the body as text, so bytes that are none cannot be verified with it"

# The tolerated checks of each profile, by their ids.
PROFILES: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        NONE: {},
        "qstash-python": {"tampered-url": _URL_IS_OPTIONAL, "invalid-utf8": _BODY_IS_TEXT},
        "qstash-npm": {"tampered-url": _URL_IS_OPTIONAL, "invalid-utf8": _BODY_IS_TEXT},
    }
)
