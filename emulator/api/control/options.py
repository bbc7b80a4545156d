"""What the control API needs to know of its server: above all the token that its callers have (D-150)."""

from __future__ import annotations

import hmac
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from emulator import resources
from emulator.core.errors import Unauthenticated
from emulator.wire.credentials import CONTROL_TOKEN, authorization_token
from emulator.wire.parts import RequestParts

_CONTRACTS = resources.path("contracts")


class Inspector(StrEnum):
    """What the web page may do (D-321)."""

    ON = "on"
    READ_ONLY = "read-only"
    OFF = "off"


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlOptions:
    """`token` is what every call must carry, None if none is needed; `contracts` the folder of the documents shown.

    `is_strict` tells that the server holds every call against the contract.
    """

    token: str | None
    inspector: Inspector = Inspector.ON
    contracts: Path = _CONTRACTS
    is_strict: bool = False

    def check_token(self, parts: RequestParts) -> None:
        """Raises Unauthenticated without the server's control token.

        It may have a header of its own, where `Authorization` says which world is meant (D-433).
        """
        if self.token is not None:
            given = parts.header(CONTROL_TOKEN.lower()) or authorization_token(parts) or ""
            if not given:
                raise Unauthenticated("the control API needs its bearer token (--control-token)")
            if not hmac.compare_digest(given.encode(), self.token.encode()):
                raise Unauthenticated("the control API has another bearer token than the one given (--control-token)")
