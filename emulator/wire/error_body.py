"""What a refusal looks like over HTTP.

Source: interface document, "Errors" (the report names the offending field). Statuses and the shape
of the body are not shown, and chosen (D-080).
"""

from __future__ import annotations

from emulator.core.errors import (
    Conflict,
    Forbidden,
    InstantExhausted,
    InvalidInput,
    LimitReached,
    NotFound,
    PayloadTooLarge,
    QuotaExceeded,
    Refused,
    Unauthenticated,
    Unsupported,
)
from emulator.core.model import Headers
from emulator.wire.dialect import Dialect

_STATUSES: dict[type[Refused], int] = {
    InvalidInput: 400,
    Unauthenticated: 401,
    Forbidden: 403,
    NotFound: 404,
    Conflict: 409,
    InstantExhausted: 409,
    LimitReached: 412,
    PayloadTooLarge: 413,
    QuotaExceeded: 429,
    Unsupported: 501,
}


def status_of(refused: Refused) -> int:
    """The status of the answer to a refused request; 400 for a refusal of no particular kind."""
    return _STATUSES.get(type(refused), 400)


def error_json(refused: Refused, dialect: Dialect) -> dict[str, str]:
    """The body of the answer: `error`, and `field` as the client calls it where one is to blame."""
    if isinstance(refused, InvalidInput):
        field = dialect.rename_field_at_fault(refused.field)
        return {"error": f"{field}: {refused.reason}", "field": field}
    return {"error": refused.text}


def extra_headers(refused: Refused) -> Headers:
    """The headers of the answer that say what is left of a quota; none for other refusals."""
    if not isinstance(refused, QuotaExceeded):
        return ()
    prefix = "RateLimit" if refused.daily else "Burst-RateLimit"
    return (
        (f"{prefix}-Limit", str(refused.limit)),
        (f"{prefix}-Remaining", str(refused.remaining)),
        (f"{prefix}-Reset", str(refused.reset_s)),
    )
