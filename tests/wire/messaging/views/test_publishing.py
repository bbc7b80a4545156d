"""Answers to publishes in the JSON of the messaging API."""

from __future__ import annotations

import pytest
from qstash import message as client_message

from emulator.core.errors import InvalidInput, NotFound
from emulator.core.model.messages import Accepted, PublishedMessage
from emulator.core.record import MessageId
from emulator.wire import dialect
from emulator.wire.json_reader import Json
from emulator.wire.messaging import views
from tests.wire.messaging.views.records import FRESH, as_read

OLD = PublishedMessage(message_id=MessageId("msg_0"), url="https://b.example.com/", deduplicated=True)
GROUP_VIEW: list[dict[str, Json]] = [
    {"messageId": "msg_1", "url": "https://a.example.com"},
    {"messageId": "msg_0", "url": "https://b.example.com/", "deduplicated": True},
]


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        pytest.param(Accepted(is_group=False, messages=(FRESH,)), {"messageId": "msg_1"}, id="url"),
        (Accepted(is_group=False, messages=(OLD,)), {"messageId": "msg_0", "deduplicated": True}),
        pytest.param(Accepted(is_group=True, messages=(FRESH, OLD)), GROUP_VIEW, id="group"),
        pytest.param(Accepted(is_group=True, messages=()), [], id="group-without-endpoints"),
    ],
)
def test_publish_reply(reply: Accepted, expected: Json) -> None:
    """D-056."""
    assert views.accepted(reply) == expected


def test_batch_reply_holds_an_error_where_an_item_was_refused() -> None:
    """D-121."""
    items = (
        Accepted(is_group=False, messages=(FRESH,)),
        NotFound("topic", "nobody"),
        InvalidInput("Svc-Delay", "expected a duration"),
        Accepted(is_group=True, messages=(FRESH, OLD)),
    )
    assert views.batch_reply(items, dialect.SVC) == [
        {"messageId": "msg_1"},
        {"error": "topic nobody not found"},
        {"error": "Svc-Delay: expected a duration", "field": "Svc-Delay"},
        GROUP_VIEW,
    ]


def test_client_reads_publish_and_batch_replies() -> None:
    single, group = Accepted(is_group=False, messages=(OLD,)), Accepted(is_group=True, messages=(FRESH, OLD))
    one = client_message.parse_publish_response(as_read(views.accepted(single)))
    assert one == client_message.PublishResponse(message_id="msg_0", deduplicated=True)
    many = client_message.parse_enqueue_response(as_read(views.accepted(group)))
    assert isinstance(many, list)
    assert [(entry.url, entry.deduplicated) for entry in many] == [
        ("https://a.example.com", False),
        ("https://b.example.com/", True),
    ]
    batch = client_message.parse_batch_response(as_read(views.batch_reply((single, group), dialect.SVC)))
    assert [type(entry) for entry in batch] == [client_message.BatchResponse, list]
