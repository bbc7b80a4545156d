"""What is wrong with what came back: a sentence, or None if it is as expected. Nothing is sent here."""

from __future__ import annotations

from collections.abc import Sequence
from http import HTTPStatus

from emulator.conformance.records import Exchange
from emulator.core.model.options import Method

# Another delivery of the message is at work: the service tries this one again later (D-413).
_LATER = frozenset((409, 423, 425, 429, 503))
_TAKEN_FOR_FORGED = frozenset((401, 403))


def accepted(exchange: Exchange) -> str | None:
    """A good delivery is answered 2xx."""
    return None if exchange.is_accepted else f"a good delivery was not accepted: {_status(exchange)}"


def refused(exchange: Exchange) -> str | None:
    """A bad one is answered 4xx."""
    if exchange.is_accepted:
        return f"it was accepted with {exchange.status}"
    if exchange.status is None or not 400 <= exchange.status < 500:
        return f"it was not refused: {_status(exchange)}"
    return None


def taken(exchange: Exchange) -> str | None:
    """A well-signed body that the application may not want is accepted or refused, for what it is (D-412)."""
    status = exchange.status
    if status is None or status < 200 or 300 <= status < 400 or status >= 500:
        return f"the receiver broke: {_status(exchange)}"
    if status in _TAKEN_FOR_FORGED:
        return f"a good signature was taken for a bad one: {_status(exchange)}"
    return None


def other_method(exchange: Exchange, method: Method) -> str | None:
    """An unsigned request of another method is refused. A page may answer GET, without effect."""
    status = exchange.status
    if status == HTTPStatus.NOT_IMPLEMENTED:
        return None
    is_page = method is Method.GET and status is not None and 200 <= status < 400
    if is_page:
        return "GET: it has an effect" if exchange.is_changed else None
    problem = refused(exchange)
    return None if problem is None else f"{method}: {problem}"


def at_once(exchanges: Sequence[Exchange]) -> str | None:
    """Deliveries of one message at once: each is accepted or put off, and one at least is accepted."""
    for exchange in exchanges:
        if not exchange.is_accepted and exchange.status not in _LATER:
            return f"one of them was answered otherwise: {_status(exchange)}"
    return None if any(exchange.is_accepted for exchange in exchanges) else "none of them was accepted"


def once(amount: float, of_one: float) -> str | None:
    """The effect of several deliveries of a message is that of one."""
    if amount == of_one:
        return None
    return f"the state grew by {amount:g}, and by {of_one:g} for one message that was delivered once"


def in_time(slowest_ms: int, timeout_ms: int) -> str | None:
    """Half of the timeout is kept in reserve (D-413)."""
    if 2 * slowest_ms <= timeout_ms:
        return None
    return f"the slowest took {slowest_ms} ms, more than half of the timeout of {timeout_ms} ms"


def without_effect(exchanges: Sequence[Exchange]) -> str | None:
    """Those that were not accepted changed nothing. What was accepted fails a check of its own."""
    had = [exchange.sent for exchange in exchanges if exchange.is_changed]
    return f"the state changed by: {'; '.join(had)}" if had else None


def _status(exchange: Exchange) -> str:
    return exchange.came if exchange.status is None else f"it was answered {exchange.status}"
