"""Messages in the JSON of the messaging API."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from qstash import message as client_message

from emulator.core.model.messages import Message
from emulator.core.model.options import CallbackOptions, MessageOptions, Redaction
from emulator.wire.json_fields import Json
from emulator.wire.messaging import views
from tests.wire.messaging.views.records import (
    FULL,
    FULL_VIEW,
    MARKED_SECRET,
    MARKED_TOKEN,
    PLAIN,
    PLAIN_VIEW,
    SECRET,
    as_read,
    redacting,
)


@pytest.mark.parametrize(
    ("record", "expected"),
    [pytest.param(PLAIN, PLAIN_VIEW, id="least"), pytest.param(FULL, FULL_VIEW, id="everything")],
)
def test_message_shows_what_is_set_and_leaves_out_the_rest(record: Message, expected: dict[str, Json]) -> None:
    """D-120, D-131."""
    assert views.message(record) == expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param(b"", {}, id="none"),
        pytest.param("grüße".encode(), {"body": "grüße"}, id="text"),
        pytest.param(b"\xff\x00", {"bodyBase64": "/wA="}, id="binary"),
    ],
)
def test_body_is_text_or_base64(body: bytes, expected: dict[str, Json]) -> None:
    assert views.message(replace(PLAIN, body=body)) == {**PLAIN_VIEW, **expected}


@pytest.mark.parametrize(
    ("redaction", "expected"),
    [
        pytest.param(
            redacting(body=True),
            {"header": {"Authorization": ["token-1"], "X-Open": ["open"]}, "body": MARKED_SECRET},
            id="body",
        ),
        pytest.param(
            redacting(names=("authorization",)),
            {"header": {"Authorization": [MARKED_TOKEN], "X-Open": ["open"]}, "body": SECRET},
            id="one-header",
        ),
        pytest.param(
            redacting(all_headers=True),
            {
                "header": {
                    "Authorization": [MARKED_TOKEN],
                    "X-Open": ["REDACTED:2348f998744212575d85959674f9607ab26f67708a917157472832386337c904"],
                },
                "body": SECRET,
            },
            id="all-headers",
        ),
    ],
)
def test_redacted_parts_appear_as_their_hash(redaction: Redaction, expected: dict[str, Json]) -> None:
    headers = (("authorization", "token-1"), ("x-open", "open"))
    view = views.message(replace(PLAIN, headers=headers, body=SECRET.encode(), redaction=redaction))
    assert {key: view[key] for key in ("header", "body")} == expected


def test_empty_redacted_body_stays_empty() -> None:
    assert views.message(replace(PLAIN, redaction=redacting(body=True))) == PLAIN_VIEW


def test_callback_headers_hide_what_message_or_callback_hides() -> None:
    """D-126."""
    callback = CallbackOptions(
        url="https://app.example.com/done",
        options=MessageOptions(
            forwarded=(("authorization", "token-1"), ("x-key", "s3cret"), ("x-open", "open")),
            redaction=redacting(names=("x-key",)),
        ),
    )
    record = replace(PLAIN, callback=callback, redaction=redacting(names=("authorization",)))
    expected = {"Authorization": [MARKED_TOKEN], "X-Key": [MARKED_SECRET], "X-Open": ["open"]}
    assert views.message(record)["callbackHeader"] == expected
    only_the_callback = replace(record, redaction=None)
    assert views.message(only_the_callback)["callbackHeader"] == {**expected, "Authorization": ["token-1"]}


def test_client_reads_a_message() -> None:
    read = client_message.parse_message_response(as_read(views.message(FULL)))
    assert (read.message_id, read.url_group, read.endpoint) == ("msg_1", "receivers", "first one")
    assert read.headers == {"Content-Type": ["application/json"], "X-Test": ["a", "b"]}
    assert read.callback_headers == {"X-Done": ["yes"]}
    assert read.caller_ip == "127.0.0.1"
    assert read.flow_control is not None
    assert (read.flow_control.parallelism, read.flow_control.rate, read.flow_control.period) == (2, None, 5403)
    assert client_message.parse_message_response(as_read(views.message(PLAIN))).flow_control is None
