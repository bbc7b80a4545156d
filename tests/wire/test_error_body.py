"""Refusals over HTTP (D-080)."""

from __future__ import annotations

import pytest

from emulator.core import errors
from emulator.core.errors import InvalidInput, NotFound, QuotaExceeded, Refused
from emulator.wire import dialect
from emulator.wire.error_body import error_json, extra_headers, status_of

_DAILY = QuotaExceeded("quota exceeded", limit=10, remaining=0, reset_s=86_400, daily=True)
_BURST = QuotaExceeded("too fast", limit=100, remaining=1, reset_s=5, daily=False)


_STATUSES: list[tuple[Refused, int]] = [
    (InvalidInput("Svc-Delay", "expected a duration"), 400),
    (errors.Unauthenticated("unable to authenticate: invalid token"), 401),
    (errors.Forbidden("read-only"), 403),
    (errors.RunOver("workflow run wfr_1 has ended"), 400),
    (errors.InvalidRunMessage("Svc-Delay", "expected a duration"), 412),
    (NotFound("message msg_1 not found"), 404),
    (errors.NotAcceptable("xml only"), 406),
    (errors.Conflict("busy"), 409),
    (errors.InstantExhausted("too many"), 409),
    (errors.LimitReached("quota maxQueues exceeded"), 412),
    (errors.OverLimit("Svc-Retries", "quota maxRetries exceeded"), 412),
    (errors.PayloadTooLarge("too large"), 413),
    (_DAILY, 429),
    (errors.InsufficientStorage("no room"), 507),
]


@pytest.mark.parametrize(("refused", "status"), _STATUSES)
def test_status_of_every_refusal(refused: Refused, status: int) -> None:
    assert status_of(refused) == status


def test_no_kind_of_refusal_is_forgotten() -> None:
    assert {type(refused) for refused, _ in _STATUSES} == {*Refused.__subclasses__(), *InvalidInput.__subclasses__()}


def test_invalid_input_names_the_field_in_the_dialect() -> None:
    """D-001."""
    refused = InvalidInput("Svc-Callback-Delay", "a callback cannot be delayed")
    assert error_json(refused, dialect.SVC) == {
        "error": "Svc-Callback-Delay: a callback cannot be delayed",
        "field": "Svc-Callback-Delay",
    }
    assert error_json(refused, dialect.load("upstash")) == {
        "error": "Upstash-Callback-Delay: a callback cannot be delayed",
        "field": "Upstash-Callback-Delay",
    }


def test_other_refusals_have_no_field() -> None:
    """D-001."""
    assert error_json(NotFound("message msg_1 not found"), dialect.SVC) == {"error": "message msg_1 not found"}


def test_quota_headers() -> None:
    assert extra_headers(_DAILY) == (
        ("RateLimit-Limit", "10"),
        ("RateLimit-Remaining", "0"),
        ("RateLimit-Reset", "86400"),
    )
    assert extra_headers(_BURST) == (
        ("Burst-RateLimit-Limit", "100"),
        ("Burst-RateLimit-Remaining", "1"),
        ("Burst-RateLimit-Reset", "5"),
    )
    assert extra_headers(NotFound("x")) == ()


def test_a_field_without_a_name_is_named_all_the_same() -> None:
    """D-001: a client may send a header, a parameter or a JSON field whose name is empty; found by fuzzing."""
    assert error_json(InvalidInput("", "expected the name of a header"), dialect.SVC) == {
        "error": "'': expected the name of a header",
        "field": "''",
    }
