"""Why things are as they are, in single lines."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from emulator.control.waiting import waits_for
from emulator.core.model.messages import AttemptOutcome, HoldKind, HoldReason, Via
from emulator.core.model.options import Method
from emulator.core.model.resources import Fault
from emulator.core.record import RuleId
from emulator.core.rules.retries import delay_before_retry
from emulator.queries.history import AnsweringRule
from emulator.wire import dialect
from emulator.wire.reasons import answered, arithmetic, held_by, signature_hint
from tests.harness import simulations
from tests.harness.simulations import EPOCH_MS, SECOND

DEFAULT = "default backoff min(86400, e^(2.5 * 2)) s -> 2m28s"


@pytest.mark.parametrize(
    ("expression", "headers", "expected"),
    [
        pytest.param(None, {"Retry-After": "10"}, "Retry-After: 10 -> 10s", id="seconds"),
        pytest.param(None, {"Retry-After": " 1.5 "}, "Retry-After: 1.5 -> 1.5s", id="fraction"),
        (None, {"Retry-After": "Thu, 01 Jan 2026 00:05:00 GMT"}, "Retry-After: Thu, 01 Jan 2026 00:05:00 GMT -> 5m"),
        pytest.param("1", {"X-RateLimit-Reset-Tokens": "6m5s"}, "X-RateLimit-Reset-Tokens: 6m5s -> 6m5s", id="go"),
        ("pow(2, retried) * 1000", {}, "pow(2, retried) * 1000 with retried = 1 is 2000 ms -> 2s"),
        pytest.param("1e300", {}, "1e300 with retried = 1 is 1e+300 ms, at most a day -> 1d", id="capped"),
        pytest.param("0 - 5", {}, f"0 - 5 with retried = 1 is -5 ms, which is no delay, so {DEFAULT}", id="negative"),
        pytest.param(None, {}, DEFAULT, id="default"),
        ("7000", {"Retry-After": "1767225600"}, f"Retry-After: 1767225600 is more than a day, so {DEFAULT}"),
    ],
)
def test_arithmetic_names_its_source_and_its_numbers(
    expression: str | None, headers: dict[str, str], expected: str
) -> None:
    delay = delay_before_retry(
        expression=expression, retried=1, response_headers=tuple(headers.items()), now_ms=EPOCH_MS
    )
    assert arithmetic(delay) == expected


@pytest.mark.parametrize(
    ("retried", "expected"),
    [
        (0, "default backoff min(86400, e^(2.5 * 1)) s -> 12s"),
        (3, "default backoff min(86400, e^(2.5 * 4)) s -> 6h7m6s"),
        (4, "default backoff min(86400, e^(2.5 * 5)) s -> 1d"),
        (19, "default backoff min(86400, e^(2.5 * 5)) s -> 1d"),
    ],
)
def test_the_default_backoff_shows_its_formula(retried: int, expected: str) -> None:
    delay = delay_before_retry(expression=None, retried=retried, response_headers=(), now_ms=EPOCH_MS)
    assert arithmetic(delay) == expected


def test_a_long_expression_is_cut() -> None:
    delay = delay_before_retry(expression="1 + " * 200 + "1", retried=0, response_headers=(), now_ms=EPOCH_MS)
    assert arithmetic(delay) == f"'{'1 + ' * 10}'... with retried = 0 is 201 ms -> 201ms"


RULE = AnsweringRule(rule_id=RuleId("rule_1"), url="https://x/*", method=None, forward_to=None, fault=None)


def outcome(status: int | None, via: Via, error: str = "connection refused", body: bytes = b"") -> AttemptOutcome:
    if status is None:
        return AttemptOutcome(response=None, error=error, via=via)
    return AttemptOutcome(response=simulations.answered(status, body=body).response, error=None, via=via)


@pytest.mark.parametrize(
    ("result", "rule", "expected"),
    [
        pytest.param(outcome(503, Via.RULE), RULE, "was answered 503 by rule_1 (https://x/*)", id="rule"),
        pytest.param(
            outcome(200, Via.RULE),
            replace(RULE, method=Method.PUT, forward_to="http://127.0.0.1:3000"),
            "was answered 200 by http://127.0.0.1:3000, to which rule_1 (PUT https://x/*) forwards",
            id="forwarded",
        ),
        pytest.param(
            outcome(None, Via.RULE),
            replace(RULE, forward_to="http://127.0.0.1:3000"),
            "failed: connection refused, at http://127.0.0.1:3000, to which rule_1 (https://x/*) forwards",
            id="forwarded-and-refused",
        ),
        pytest.param(
            outcome(None, Via.RULE),
            replace(RULE, fault=Fault.REFUSED),
            "failed: connection refused, as rule_1 (https://x/*, fault refused) says",
            id="fault",
        ),
        pytest.param(outcome(200, Via.RULE), None, "was answered 200 by a destination rule", id="rule-unknown"),
        pytest.param(
            outcome(200, Via.CAPTURE),
            None,
            "was answered 200 by the emulator, which captured it because the destination is external",
            id="captured",
        ),
        pytest.param(
            outcome(None, Via.CAPTURE, "connection failed: external destination x (external=fail)"),
            None,
            "failed: connection failed: external destination x (external=fail)",
            id="external-fails",
        ),
        pytest.param(outcome(204, Via.MOUNT), None, "was answered 204 by the application mounted there", id="mount"),
        pytest.param(outcome(500, Via.NETWORK), None, "was answered 500 by the destination", id="network"),
        pytest.param(outcome(None, Via.NETWORK), None, "failed: connection refused", id="network-failure"),
        pytest.param(
            outcome(None, Via.NETWORK, "the control API takes no deliveries"),
            None,
            "failed: the control API takes no deliveries "
            "(call it from a test, a program or the shell, not by a message)",
            id="control-api",
        ),
        pytest.param(
            outcome(403, Via.NETWORK, body=b'{"error":"the control API takes no deliveries","next":"..."}'),
            None,
            "was answered 403 by the destination: the control API takes no deliveries "
            "(call it from a test, a program or the shell, not by a message)",
            id="control-api-of-another-emulator",
        ),
        pytest.param(outcome(403, Via.NETWORK, body=b"no"), None, "was answered 403 by the destination", id="403"),
    ],
)
def test_who_answered_is_named(result: AttemptOutcome, rule: AnsweringRule | None, expected: str) -> None:
    """D-677, D-772."""
    assert answered(result, rule) == expected


@pytest.mark.parametrize(
    ("line", "reason", "fields", "expected"),
    [
        ("queue q", HoldReason.PAUSED, {"position": 3}, "queue q is paused; it is number 3 in line"),
        pytest.param(
            "queue q",
            HoldReason.PARALLELISM,
            {"holders": ("msg_a",)},
            "queue q lets 1 through at a time, now msg_a; it is next in line",
            id="slot",
        ),
        pytest.param(
            "flow control key k",
            HoldReason.PARALLELISM,
            {"maximum": 3, "holders": ("msg_a", "msg_b", "msg_c")},
            "flow control key k lets 3 through at a time, now msg_a and 2 more; it is next in line",
            id="key",
        ),
        pytest.param(
            "flow control key k",
            HoldReason.RATE,
            {"maximum": 2, "period_ms": 10 * SECOND, "earliest_ms": EPOCH_MS + 10 * SECOND},
            "flow control key k lets 2 start per 10s, this one at 2026-01-01T00:00:10.000Z at the earliest; "
            "it is next in line",
            id="rate",
        ),
        pytest.param(
            "flow control key k",
            HoldReason.RATE,
            {"maximum": 0, "period_ms": SECOND},
            "flow control key k lets 0 start per 1s; it is next in line",
            id="rate-of-nothing",
        ),
        pytest.param(
            "flow control key k",
            HoldReason.PARALLELISM,
            {"maximum": None, "position": 2},
            "flow control key k lets those before it start first; it is number 2 in line",
            id="behind-others",
        ),
    ],
)
def test_what_a_line_waits_for(line: str, reason: HoldReason, fields: dict[str, Any], expected: str) -> None:
    assert waits_for(line, reason, **{"position": 1, "maximum": 1, **fields}) == expected


def test_what_held_a_message() -> None:
    assert held_by(HoldKind.QUEUE, "q", HoldReason.PAUSED) == "held by queue q (paused)"
    assert held_by(HoldKind.GLOBAL, "", HoldReason.PARALLELISM) == "held by the account's global parallelism"


FORWARDING = AnsweringRule(
    rule_id=RuleId("rule_1"), url="https://one.test/*", method=None, forward_to="http://app.test/", fault=None
)
ANSWERING = replace(FORWARDING, forward_to=None)


@pytest.mark.parametrize(
    ("status", "body", "changes", "rule", "expected"),
    [
        pytest.param(401, b"", {}, None, True, id="401"),
        pytest.param(403, b"", {}, None, True, id="403"),
        pytest.param(401, b"", {"via": Via.MOUNT}, None, True, id="mounted"),
        pytest.param(400, b"no `Upstash-Signature` header", {}, None, True, id="named"),
        pytest.param(500, b'{"error":"SignatureError"}', {}, None, True, id="raised"),
        pytest.param(401, b"", {"via": Via.RULE}, FORWARDING, True, id="forwarded"),
        pytest.param(401, b"", {"via": Via.RULE}, ANSWERING, False, id="a-rule"),
        pytest.param(401, b"", {"via": Via.RULE}, None, False, id="a-rule-that-is-gone"),
        pytest.param(500, b"no database", {}, None, False, id="another-failure"),
        pytest.param(500, b"x" * 5_000 + b"signature", {}, None, False, id="far-away"),
        pytest.param(200, b"signature verified", {}, None, False, id="delivered"),
        pytest.param(302, b"signature", {}, None, False, id="redirect"),
    ],
)
def test_an_answer_that_may_refuse_the_signature_names_the_variables(
    status: int, body: bytes, changes: dict[str, Any], rule: AnsweringRule | None, expected: bool
) -> None:
    """D-804."""
    outcome = replace(simulations.answered(status, body=body), **changes)
    hint = signature_hint(outcome, rule, dialect.load("upstash"))
    assert hint == (
        "if the application refuses the signature, its QSTASH_CURRENT_SIGNING_KEY and QSTASH_NEXT_SIGNING_KEY have to "
        "be those that `svc-emulator env` prints, not those of an earlier development server"
        if expected
        else None
    )


def test_an_attempt_without_an_answer_refuses_no_signature() -> None:
    """D-804."""
    assert signature_hint(simulations.unreachable(), None, dialect.SVC) is None


def test_keys_are_named_as_the_dialect_names_them() -> None:
    """D-804."""
    hint = signature_hint(simulations.answered(401), None, dialect.SVC)
    assert hint is not None
    assert hint.endswith(
        "its SVC_CURRENT_SIGNING_KEY and SVC_NEXT_SIGNING_KEY have to be those that `svc-emulator env` prints"
    )
