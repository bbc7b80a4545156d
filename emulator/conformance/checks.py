"""The checks of the battery, and what is wrong with what came back: a sentence, or None if it is as expected."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from http import HTTPStatus

from emulator.conformance.reports import CheckResult, Exchange, Verdict
from emulator.core.model.options import Method

_REFUSED = "4xx, such as 401"
_FORGED = "Anybody can send such a request. A receiver that accepts it runs jobs for anybody."

# A check as it is before it is made.
_check = partial(CheckResult, verdict=Verdict.NOT_JUDGED, sent="", came="")
_ALL = (
    _check(
        id="valid",
        title="a valid signed delivery",
        expected="2xx",
        why="Anything else counts as a failure: the message is sent again, and ends in the dead letter queue.",
        mend="Read the raw body, verify the signature of it for this very URL with the signing keys of this check, "
        "do the work, answer 200.",
    ),
    _check(
        id="next-key",
        title="a delivery signed with the next key",
        expected="2xx",
        why="When the keys are rotated, the next key becomes the current one before every receiver knows it.",
        mend="Verify with the current key, and if that fails with the next one.",
    ),
    _check(
        id="tampered-body",
        title="another body than the signed one",
        expected=_REFUSED,
        why="Who has seen one delivery could send its signature with a body of their own.",
        mend="Compare the claim `body` with the base64url SHA-256 of the raw body, padding aside.",
    ),
    _check(
        id="tampered-url",
        title="a signature for another URL",
        expected=_REFUSED,
        why="A delivery to one endpoint could be repeated at another, where the same body means something else.",
        mend="Compare the claim `sub` with the URL of the endpoint; clients do so if verify is given the URL.",
    ),
    _check(
        id="wrong-key",
        title="a signature of an unknown key",
        expected=_REFUSED,
        why=_FORGED,
        mend="Verify the signature itself (HMAC-SHA256), not the claims alone.",
    ),
    _check(
        id="algorithm-none",
        title="a token with the algorithm `none` and no signature",
        expected=_REFUSED,
        why=_FORGED,
        mend="Give the JWT library the one algorithm that is allowed: HS256.",
    ),
    _check(
        id="expired",
        title="a signature that expired an hour ago",
        expected=_REFUSED,
        why="An old delivery that somebody has recorded could be repeated at any time.",
        mend="Check the claim `exp`, with a tolerance of a minute at most.",
    ),
    _check(
        id="not-yet-valid",
        title="a signature that is valid in an hour",
        expected=_REFUSED,
        why="A token is not to be used outside its time, in either direction.",
        mend="Check the claim `nbf`, with a tolerance of a minute at most.",
    ),
    _check(
        id="missing-signature",
        title="no signature",
        expected=_REFUSED,
        why=_FORGED,
        mend="Refuse a request without the signature header before anything else.",
    ),
    _check(
        id="malformed-signature",
        title="a signature that is no token",
        expected=_REFUSED,
        why="A 5xx says that the receiver broke, and alarms its operators.",
        mend="Catch what the verification raises, and answer 401.",
    ),
    _check(
        id="methods",
        title="other methods, without a signature",
        expected="4xx or 501; GET may show a page, without effect",
        why="A route for all methods whose verification is for one of them is open to everybody.",
        mend="Route the one method that is published, or verify whatever the method is.",
    ),
    _check(
        id="no-effect",
        title="what is refused has no effect",
        expected="the same state before and after each request that was to be refused",
        why="A refusal after the work is none.",
        mend="Verify before anything is read from the body or done.",
    ),
    _check(
        id="duplicate",
        title="the same message twice",
        expected="2xx for the second one as well",
        why="Messages are delivered at least once. A refused duplicate is sent again and again, until it is dead.",
        mend="Answer 200 for a message whose id is known already.",
    ),
    _check(
        id="idempotency",
        title="the same message twice has one effect",
        expected="the same state after the second delivery as after the first",
        why="Messages are delivered at least once, so that a mail is sent twice or an account charged twice.",
        mend="Keep the ids of messages that are done, in the transaction that does them.",
    ),
    _check(
        id="concurrent",
        title="five deliveries of one message at once",
        expected="2xx, or 409, 423, 425, 429 or 503 while another one is at it; at least one 2xx",
        why="After a timeout the next attempt comes while the first is still at work.",
        mend="Let one of them do the work, and answer the others 200 when it is done or 409 while it is not.",
    ),
    _check(
        id="concurrent-effect",
        title="five deliveries of one message at once have one effect",
        expected="the effect of one message",
        why="To look whether a message is done and then to do it is a race: two deliveries both find that it is not.",
        mend="Claim the message id atomically before the work: a unique key, or a lock.",
    ),
    _check(
        id="retry",
        title="a retry, the second",
        expected="2xx",
        why="A retry differs in one header. A receiver that refuses it never recovers from a failure.",
        mend="Treat a retry like a first attempt; the Retried header is a number for the log.",
    ),
    _check(
        id="retry-effect",
        title="a retry does the work that no attempt before has done",
        expected="another state than before",
        why="A retry comes because the attempts before it failed. If it is ignored the message is lost.",
        mend="Decide by the ids of messages that are done, not by the Retried header.",
    ),
    _check(
        id="exact-body",
        title="the same JSON in other bytes: spaces, escapes, zeros, order of keys",
        expected="2xx",
        why="The signature is of the bytes that were published. Parsed and written again they are others, and good "
        "deliveries are refused as soon as a publisher writes JSON in another way.",
        mend="Verify the raw body, as it came, and parse it afterwards: express.raw or express.text in Express, "
        "`await request.body()` in FastAPI, `request.get_data()` in Flask, `request.body` in Django.",
    ),
    _check(
        id="content-type",
        title="bodies of other content types: text, form, nothing; signed and forged",
        expected="2xx, or a 4xx other than 401 and 403, if it is signed; 4xx if it is forged",
        why="Who reads the body by its content type verifies nothing of another one: "
        "a good delivery is refused, or a forged one let in.",
        mend="Read and verify the raw body whatever its content type is; then answer 415 for one that is not wanted.",
    ),
    _check(
        id="empty-body",
        title="an empty body",
        expected="2xx, or a 4xx other than 401 and 403",
        why="A message may have no body. A receiver that breaks on one is sent it again and again.",
        mend="Answer 400 for a body that cannot be meant; hash zero bytes like any others.",
    ),
    _check(
        id="large-body",
        title="a body of 1 MB",
        expected="2xx",
        why="Every plan of the service permits 1 MB. Frameworks limit bodies to less, such as Express to 100 kB.",
        mend="Raise the limit of the body parser to the size of the largest message.",
    ),
    _check(
        id="binary-body",
        title="a body of control characters, all line ends and non-ASCII text",
        expected="2xx, or a 4xx other than 401 and 403",
        why="The signature is of bytes. Who trims or normalizes them takes a good delivery for a forged one.",
        mend="Verify the raw bytes, before any parser or middleware has changed them.",
    ),
    _check(
        id="invalid-utf8",
        title="a body that is no UTF-8",
        expected="2xx, or a 4xx other than 401 and 403",
        why="The signature is of bytes. Decoding them as text fails, or replaces what it does not know.",
        mend="Verify the raw bytes, and decode them afterwards.",
    ),
    _check(
        id="callback",
        title="a callback",
        expected="2xx",
        why="A callback is a message like any other, and is sent again if it is not answered 2xx.",
        mend="Read the JSON of the callback; the body of the answer in it is base64.",
    ),
    _check(
        id="failure-callback",
        title="a failure callback",
        expected="2xx",
        why="It is the last that is heard of a message that failed for good.",
        mend="Read the JSON of the callback; it has the dead letter's id, and the failing status.",
    ),
    _check(
        id="slow-client",
        title="a client that sends slowly, and another one meanwhile",
        expected="2xx for both, the other one before the slow one has ended",
        why="A receiver that serves one connection at a time is stopped by anybody who sends slowly.",
        mend="Run it on a server with several threads or workers, or an asynchronous one.",
    ),
    _check(
        id="latency",
        title="how long good deliveries take",
        expected="at most half of the timeout",
        why="What is not answered in time is sent again, while the first attempt is still at work.",
        mend="Do long work after the answer, or publish with a longer timeout (and say it here as well).",
    ),
)

CHECKS = {check.id: check for check in _ALL}


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
