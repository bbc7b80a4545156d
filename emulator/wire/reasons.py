"""Reasons in single lines of text: of delays, of waiting, and of answers.

Each is a clause without a full stop, so that a sentence can be made of several.
"""

from __future__ import annotations

from collections.abc import Sequence
from http import HTTPStatus
from typing import assert_never

from emulator.core.language.calendar import DAY_MS
from emulator.core.language.text import excerpt
from emulator.core.model.messages import AttemptOutcome, HoldKind, HoldReason, Via
from emulator.core.rules.retries import RetryDelay, RetryReason
from emulator.queries.history import AnsweringRule
from emulator.queries.workflow_runs import FailedCall
from emulator.wire.dialect import Dialect
from emulator.wire.parts import NOT_BY_MESSAGE, TAKES_NO_DELIVERIES
from emulator.wire.times import format_duration, iso

# Of a failing answer, so many characters are shown; UTF-8 has at most so many bytes for each.
_MOST_SAID = 200
_MOST_BYTES = 4
# A refusal names its reason at its beginning.
_LONGEST_REFUSAL = 2_000


def arithmetic(delay: RetryDelay) -> str:
    """How the delay of a retry came about: `Retry-After: 10 -> 10s`."""
    result = format_duration(delay.delay_ms)
    if delay.reason is RetryReason.EXPRESSION:
        cap = ", at most a day" if delay.value is not None and delay.value > DAY_MS else ""
        return f"{_expression(delay)}{cap} -> {result}"
    if delay.reason is RetryReason.DEFAULT:
        # The exponent grows no further than this, because the result is a day there.
        exponent = min(delay.retried + 1, 5)
        return f"{_overruled(delay)}default backoff min(86400, e^(2.5 * {exponent})) s -> {result}"
    assert delay.hint is not None
    return f"{delay.hint.reason.value}: {shortened(delay.hint.value)} -> {result}"


def _expression(delay: RetryDelay) -> str:
    assert delay.expression is not None
    assert delay.value is not None
    return f"{shortened(delay.expression)} with retried = {delay.retried} is {delay.value:.15g} ms"


def _overruled(delay: RetryDelay) -> str:
    """What would have counted before the default backoff, and why it did not."""
    if delay.hint is not None:
        return f"{delay.hint.reason.value}: {shortened(delay.hint.value)} is more than a day, so "
    if delay.value is not None:
        return f"{_expression(delay)}, which is no delay, so "
    return ""


def shortened(text: str) -> str:
    """A text as part of a line: as it is, or an excerpt of one that is long or unprintable."""
    return text if len(text) <= 80 and text.isprintable() else excerpt(text)


def capitalized(clause: str) -> str:
    """A clause as the beginning of a sentence."""
    return clause[:1].upper() + clause[1:]


def answered(outcome: AttemptOutcome, rule: AnsweringRule | None) -> str:
    """The outcome of an attempt, and what decided it: `was answered 503 by rule_1 (https://api.test/*)`."""
    if outcome.abandoned:
        return f"was abandoned: {outcome.error}"
    text = _answered(outcome, rule)
    # Of the two ways in which that fails, one is an answer that another emulator may have given (D-772).
    if outcome.error == TAKES_NO_DELIVERIES:
        return f"{text} ({NOT_BY_MESSAGE})"
    if outcome.response is not None and outcome.response.status == HTTPStatus.FORBIDDEN:
        said = said_of(outcome.response.body)
        return f"{text}: {TAKES_NO_DELIVERIES} ({NOT_BY_MESSAGE})" if TAKES_NO_DELIVERIES in said else text
    return text


def _answered(outcome: AttemptOutcome, rule: AnsweringRule | None) -> str:
    if outcome.response is None:
        is_deciding = rule is not None and (rule.disturbance is None or outcome.via is Via.RULE)
        if rule is None or not is_deciding:
            return f"failed: {outcome.error}"
        if rule.forward_to is not None:
            return f"failed: {outcome.error}, at {_forwarded(rule, rule.forward_to)}"
        return f"failed: {outcome.error}, as {_rule(rule)} says"
    if outcome.via is Via.CAPTURE and outcome.response.body:
        return f"was answered {outcome.response.status} by the emulator, with a canned chat completion"
    # An application in this process is the user's own, and its answer names what it raised.
    is_own = outcome.via is Via.MOUNT and not outcome.succeeded
    said = said_of(outcome.response.body) if is_own else ""
    return f"was answered {outcome.response.status} by {_answerer(outcome.via, rule)}" + (said and f": {said}")


# How an application answers that does not believe a delivery.
_UNAUTHORIZED = (401, 403)


def signature_hint(outcome: AttemptOutcome, rule: AnsweringRule | None, dialect: Dialect) -> str | None:
    """What to compare where an application may have refused a signature (D-804), None where nothing speaks for that.

    It answers 401 or 403, or names the signature in another refusal, as handlers do that raise.
    """
    response = outcome.response
    is_of_rule = outcome.via is Via.RULE and (rule is None or rule.forward_to is None)
    if response is None or outcome.succeeded or is_of_rule:
        return None
    names_signature = response.status >= 400 and b"signature" in response.body[:_LONGEST_REFUSAL].lower()
    if response.status not in _UNAUTHORIZED and not names_signature:
        return None
    current, following = dialect.environment.current_signing_key, dialect.environment.next_signing_key
    earlier = ", not those of an earlier development server" if dialect.earlier_signing_keys else ""
    return (
        f"if the application refuses the signature, its {current} and {following} have to be those that "
        f"`svc-emulator env` prints{earlier}"
    )


def where_failed(call: FailedCall) -> str:
    """Which call of its endpoint failed a run: `step "charge"`."""
    if call.step is not None:
        return f'step "{call.step}"'
    return "the first call of the endpoint" if call.after is None else f'the call after step "{call.after}"'


def is_duplicate(rule: AnsweringRule | None) -> bool:
    """Whether an attempt is the duplicate of another one (D-421)."""
    return rule is not None and rule.disturbance is not None and rule.disturbance.is_duplicate


def disturbed(outcome: AttemptOutcome, rule: AnsweringRule | None, number: int) -> str | None:
    """What rules did to attempt `number` by chance (D-420), or None: `503 instead of a delivery`."""
    if rule is None or rule.disturbance is None:
        return None
    disturbance = rule.disturbance
    if disturbance.is_duplicate:
        return f"duplicate of attempt {number}"
    found: list[str] = []
    if disturbance.is_answered and rule.forward_to is not None:
        found.append(f"forwarded to {rule.forward_to}")
    elif disturbance.is_answered:
        answer = str(outcome.response.status) if outcome.response is not None else outcome.error or "a failure"
        found.append(f"{answer} instead of a delivery")
    if disturbance.is_postponed:
        found.append("left out of order")
    if disturbance.latency_ms:
        found.append(f"answer held back for {format_duration(disturbance.latency_ms)}")
    return ", ".join(found) or None


def said_of(body: bytes) -> str:
    """The beginning of an answer's body as a line of text, control characters escaped; empty without one (D-336)."""
    text = body[: _MOST_SAID * _MOST_BYTES].decode("utf-8", "replace").strip()
    shown = "".join(
        each if each.isprintable() else each.encode("unicode_escape").decode() for each in text[:_MOST_SAID]
    )
    return shown if len(text) <= _MOST_SAID else f"{shown}..."


def _answerer(via: Via, rule: AnsweringRule | None) -> str:
    match via:
        case Via.RULE:
            if rule is not None and rule.forward_to is not None:
                return _forwarded(rule, rule.forward_to)
            return "a destination rule" if rule is None else _rule(rule)
        case Via.CAPTURE:
            return "the emulator, which captured it because the destination is external"
        case Via.MOUNT:
            return "the application mounted there"
        case Via.NETWORK:
            return "the destination"
        case unknown:
            assert_never(unknown)


def _forwarded(rule: AnsweringRule, forward_to: str) -> str:
    """Who answers where a rule forwards: not the rule (D-677)."""
    return f"{forward_to}, to which {_rule(rule)} forwards"


def _rule(rule: AnsweringRule) -> str:
    """A rule by its id, what it matches, and what it does if that is not to answer."""
    matches = rule.url if rule.method is None else f"{rule.method.value} {rule.url}"
    if rule.fault is not None:
        matches += f", fault {rule.fault.value}"
    return f"{rule.rule_id} ({matches})"


def not_applied(names: Sequence[str]) -> str:
    """The options given that a queue does not apply: `Svc-Delay is not applied to a queued message`."""
    return f"{', '.join(names)} {'is' if len(names) == 1 else 'are'} not applied to a queued message"


_WEEK_MS = 7 * DAY_MS
_MONTH_MS = 30 * DAY_MS


def is_of_real_time(not_before_ms: int, *, now_ms: int, wall_ms: int) -> bool:
    """Whether a not-before is within a week of real time, and more than 30 days from the virtual clock.

    It was probably computed from the real time, in a world of another year (D-506).
    """
    return abs(not_before_ms - wall_ms) <= _WEEK_MS and abs(not_before_ms - now_ms) > _MONTH_MS


def of_real_time(not_before_ms: int, *, now_ms: int) -> str:
    """What is suspicious of such a not-before; `now_ms` is the instant of the publish."""
    comes = f"waits for {format_duration(not_before_ms - now_ms)}" if not_before_ms > now_ms else "does not wait"
    return (
        f"not-before {iso(not_before_ms)} is near real time, and the virtual clock is at {iso(now_ms)}: the message "
        f"{comes}; was it computed from the real time?"
    )


ONLY_SCHEDULES = "only schedules have an id of their own"
BESIDE_A_BATCH = "expected in the headers of the items"
ALWAYS_NEW = "a dead letter is always published again"


def ignored(names: Sequence[str], why: str) -> str:
    """The options given that mean nothing on a call, for one of the reasons above (D-046, D-074)."""
    return f"{', '.join(names)} {'is' if len(names) == 1 else 'are'} ignored: {why}"


def dropped(names: Sequence[str]) -> str:
    """The headers to forward that are not, because they belong to the connection (D-075)."""
    it_belongs = "it belongs" if len(names) == 1 else "they belong"
    return f"{', '.join(names)} {'is' if len(names) == 1 else 'are'} not forwarded: {it_belongs} to the connection"


# -- waiting ------------------------------------------------------------------------------------


def wait_list_name(kind: HoldKind, name: str) -> str:
    """What holds a message: `queue billing`."""
    match kind:
        case HoldKind.QUEUE:
            return f"queue {name}"
        case HoldKind.FLOW_CONTROL:
            return f"flow control key {name}"
        case HoldKind.GLOBAL:
            return "the account's global parallelism"
        case HoldKind.DESTINATION:
            return f"destination {name}"
        case unknown:
            assert_never(unknown)


def held_by(kind: HoldKind, name: str, reason: HoldReason) -> str:
    """What held a message in the past: `held by queue billing (paused)`."""
    return f"held by {wait_list_name(kind, name)}" + ("" if kind is HoldKind.GLOBAL else f" ({reason.value})")
