"""Dead letters in the JSON of the messaging API."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from qstash import dlq

from emulator.core.model.answers import AttemptOutcome, Response, Via
from emulator.core.model.names import DeadLetterId
from emulator.queries.history import DeadLetterEntry, Page
from emulator.wire.json_fields import Json
from emulator.wire.messaging import views
from tests.wire.messaging.views.records import FAILURE, FRESH, FULL, FULL_VIEW, PLAIN, as_read

ENTRY = DeadLetterEntry(
    dead_letter_id=DeadLetterId("1767225611000-0"),
    failed_ms=1_767_225_611_000,
    message=FULL,
    outcome=AttemptOutcome(response=FAILURE, error=None, via=Via.NETWORK),
)


@pytest.mark.parametrize(
    ("response", "expected"),
    [
        pytest.param(
            FAILURE,
            {
                "responseStatus": 503,
                "responseHeader": {"Retry-After": ["10"], "X-A": ["1", "2"]},
                "responseBody": "busy",
            },
            id="text",
        ),
        pytest.param(
            Response(status=500, headers=(), body=b"\xff"),
            {"responseStatus": 500, "responseHeader": {}, "responseBodyBase64": "/w=="},
            id="binary",
        ),
        pytest.param(None, {"responseStatus": 0}, id="no-response"),
    ],
)
def test_dead_letter_is_a_message_with_its_last_response(response: Response | None, expected: dict[str, Json]) -> None:
    """D-123."""
    outcome = AttemptOutcome(response=response, error=None, via=Via.NETWORK)
    view = views.dead_letter(replace(ENTRY, outcome=outcome))
    assert view == {**FULL_VIEW, "dlqId": "1767225611000-0", **expected}


def test_dead_letters_page_has_no_cursor_at_its_end() -> None:
    assert views.dead_letters_page(Page(items=(), cursor=None)) == {"messages": []}
    assert views.dead_letters_page(Page(items=(), cursor="1-0")) == {"messages": [], "cursor": "1-0"}


def test_bulk_answers() -> None:
    """D-134."""
    assert views.cancelled(2) == {"cancelled": 2}
    assert views.dead_letters_deleted(0, None) == {"deleted": 0}
    assert views.dead_letters_deleted(100, "1-0") == {"deleted": 100, "cursor": "1-0"}
    assert views.dead_letters_retried((FRESH,), None) == {"cursor": "", "responses": [{"messageId": "msg_1"}]}


def test_client_reads_dead_letters() -> None:
    read = dlq.parse_dlq_message_response(as_read(views.dead_letter(ENTRY)))
    assert (read.dlq_id, read.response_status, read.response_body) == ("1767225611000-0", 503, "busy")
    assert read.response_headers == {"Retry-After": ["10"], "X-A": ["1", "2"]}
    lost = replace(ENTRY, message=PLAIN, outcome=AttemptOutcome(response=None, error="refused", via=Via.NETWORK))
    assert dlq.parse_dlq_message_response(as_read(views.dead_letter(lost))).response_status == 0
