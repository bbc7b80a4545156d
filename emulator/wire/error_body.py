"""Refusals as HTTP answers: status, body, headers.

Source: interface document, "Errors" (the report names the offending field). The shape of the body
(D-001) and the statuses (D-080) are not shown.
"""

from __future__ import annotations

from emulator.core.errors import (
    Conflict,
    Forbidden,
    InsufficientStorage,
    InvalidInput,
    InvalidRunMessage,
    LimitReached,
    NoRoom,
    NotAcceptable,
    NotFound,
    NotInstalled,
    OverLimit,
    PayloadTooLarge,
    QuotaExceeded,
    Refused,
    RunOver,
    Unauthenticated,
)
from emulator.core.model.messages import DailyQuota
from emulator.core.record import Headers
from emulator.wire.dialect import Dialect
from emulator.wire.parts import Pairs

_STATUSES: dict[type[Refused], int] = {
    InvalidInput: 400,
    RunOver: 400,
    Unauthenticated: 401,
    Forbidden: 403,
    NotFound: 404,
    NotInstalled: 404,
    NotAcceptable: 406,
    Conflict: 409,
    LimitReached: 412,
    OverLimit: 412,
    InvalidRunMessage: 412,
    PayloadTooLarge: 413,
    QuotaExceeded: 429,
    NoRoom: 503,
    InsufficientStorage: 507,
}


def status_of(refused: Refused) -> int:
    """The status of the answer to a refused request; 400 for a refusal of no particular kind."""
    return _STATUSES.get(type(refused), 400)


def error_json(refused: Refused, dialect: Dialect, query: Pairs = ()) -> dict[str, str]:
    """The body of the answer: `error`, and `field`, by the client's name for it, if one field is wrong.

    The rules speak of headers; an option that stands in the request's query is called by its name there.
    """
    if isinstance(refused, InvalidInput):
        # A client may name a header, a parameter or a JSON field with nothing at all.
        field = dialect.rename_field_at_fault(refused.field) or "''"
        lower_name = field.lower()
        if lower_name.startswith(dialect.lower_prefix) and any(name.lower() == lower_name for name, _ in query):
            field = lower_name
        return {"error": f"{field}: {refused.reason}", "field": field}
    return {"error": refused.text}


def quota_headers(quota: DailyQuota | QuotaExceeded, *, daily: bool = True) -> Headers:
    """Where a quota stands, that of the day or that of a second; the reset is a Unix second (D-028)."""
    prefix = "RateLimit" if daily else "Burst-RateLimit"
    return (
        (f"{prefix}-Limit", str(quota.limit)),
        (f"{prefix}-Remaining", str(quota.remaining)),
        (f"{prefix}-Reset", str(quota.reset_s)),
    )


def extra_headers(refused: Refused) -> Headers:
    """The headers of the answer that say what is left of a quota, or when there may be room; none for others."""
    if isinstance(refused, NoRoom):
        return (("Retry-After", "1"),)
    if not isinstance(refused, QuotaExceeded):
        return ()
    return quota_headers(refused, daily=refused.daily)
