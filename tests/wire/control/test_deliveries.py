"""The delivery journal as JSON: its query, and its entries."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from emulator.core.errors import InvalidInput
from emulator.core.model.answers import AttemptOutcome, Response, Via
from emulator.core.model.messages import Message
from emulator.core.model.names import AccountId, MessageId
from emulator.core.model.options import Method, Redaction
from emulator.queries.history import Delivery, DeliveryQuery
from emulator.wire.control.deliveries import delivery_view, read_delivery_query
from emulator.wire.control.parameters import read_redact

DELIVERY = Delivery(
    seq=4,
    at_ms=1_767_225_600_000,
    finished_ms=1_767_225_602_000,
    message=Message(
        message_id=MessageId("msg_1"),
        number=1,
        account_id=AccountId("a"),
        created_ms=0,
        not_before_ms=0,
        url="https://api.example.com/hook",
        method=Method.POST,
        headers=(("x-key", "s3cret"),),
        body=b"s3cret",
        max_retries=0,
        retry_delay=None,
        timeout_ms=1000,
        callback=None,
        failure_callback=None,
        caller_ip="127.0.0.1",
        redaction=Redaction(body=True, all_headers=False, header_names=("x-key",)),
    ),
    attempt=1,
    outcome=AttemptOutcome(
        response=Response(status=200, headers=(("set-cookie", "a=1"), ("set-cookie", "b=2")), body=b"\xff"),
        error=None,
        via=Via.RULE,
        request_headers=(("Host", "api.example.com"), ("x-key", "s3cret"), ("X-Key", "other")),
    ),
)
DELIVERY_VIEW = {
    "seq": 4,
    "at": "2026-01-01T00:00:00.000Z",
    "at_ms": 1_767_225_600_000,
    "message_id": "msg_1",
    "attempt": 1,
    "method": "POST",
    "url": "https://api.example.com/hook",
    "headers": {"Host": ["api.example.com"], "x-key": ["s3cret"], "X-Key": ["other"]},
    "body": "s3cret",
    "body_base64": None,
    "via": "rule",
    "response": {"status": 200, "headers": {"set-cookie": ["a=1", "b=2"]}, "body": None, "body_base64": "/w=="},
    "error": None,
    "duration_ms": 2000,
    "created_ms": 0,
}


def test_delivery_shows_what_was_sent_exactly() -> None:
    assert delivery_view(DELIVERY, redact=False) == DELIVERY_VIEW


def test_delivery_hides_on_request_what_the_message_hides() -> None:
    marker = "REDACTED:1ec1c26b50d5d3c58d9583181af8076655fe00756bf7285940ba3670f99fcba0"
    other = "REDACTED:d9298a10d1b0735837dc4bd85dac641b0f3cef27a47e5d53a54f2f3f5b2fcffa"
    assert delivery_view(DELIVERY, redact=True) == {
        **DELIVERY_VIEW,
        "headers": {"Host": ["api.example.com"], "x-key": [marker], "X-Key": [other]},
        "body": marker,
    }


def test_delivery_without_response_has_null_and_an_error() -> None:
    failed = replace(DELIVERY, outcome=AttemptOutcome(response=None, error="refused", via=Via.NETWORK))
    expected = {**DELIVERY_VIEW, "headers": {}, "via": "network", "response": None, "error": "refused"}
    assert delivery_view(failed, redact=False) == expected


@pytest.mark.parametrize(
    ("pairs", "expected"),
    [
        pytest.param([], DeliveryQuery(limit=100), id="nothing"),
        pytest.param([("world", "w"), ("url", ""), ("cursor", "")], DeliveryQuery(), id="empty-is-absent"),
        pytest.param(
            [
                ("url", "https://a/*"),
                ("message_id", "msg_1"),
                ("outcome", "failed"),
                ("limit", "1000"),
                ("cursor", "9"),
            ],
            DeliveryQuery(limit=1000, cursor="9", url="https://a/*", message_id="msg_1", outcome="failed"),
            id="everything",
        ),
        pytest.param([("outcome", "delivered")], DeliveryQuery(outcome="succeeded"), id="delivered-is-succeeded"),
    ],
)
def test_delivery_query_is_read(pairs: list[tuple[str, str]], expected: DeliveryQuery) -> None:
    assert read_delivery_query(pairs) == expected


@pytest.mark.parametrize(("text", "expected"), [("true", True), ("TRUE", True), ("false", False)])
def test_redaction_of_the_journal_is_asked_for(text: str, expected: bool) -> None:
    assert read_redact([("redact", text), ("limit", "5")]) is expected
    assert read_delivery_query([("redact", text)]) == DeliveryQuery()


def test_redact_is_true_or_false() -> None:
    with pytest.raises(InvalidInput) as caught:
        read_redact([("redact", "yes")])
    assert caught.value.field == "redact"


@pytest.mark.parametrize(
    ("pairs", "field"),
    [
        pytest.param([("limit", "0")], "limit", id="limit-0"),
        pytest.param([("limit", "1001")], "limit", id="limit-too-large"),
        pytest.param([("limit", "ten")], "limit", id="limit-word"),
        pytest.param([("limit", "٣")], "limit", id="limit-of-another-script"),
        pytest.param([("outcome", "pending")], "outcome", id="outcome"),
        pytest.param([("uri", "x")], "uri", id="unknown"),
        pytest.param([("url", "a"), ("url", "b")], "url", id="twice"),
    ],
)
def test_delivery_query_that_is_wrong_names_the_field(pairs: list[tuple[str, str]], field: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        read_delivery_query(pairs)
    assert caught.value.field == field
