"""Chat completions: canned, as a stream, and where a server takes them."""

from __future__ import annotations

import json

import pytest

from emulator.core.errors import InvalidInput, Malformed
from emulator.core.model.answers import Response
from emulator.wire.messaging import chat


@pytest.mark.parametrize(
    ("base", "url"),
    [
        ("http://127.0.0.1:11434", "http://127.0.0.1:11434/v1/chat/completions"),
        ("http://localhost:11434/", "http://localhost:11434/v1/chat/completions"),
        ("http://localhost:1234/v1", "http://localhost:1234/v1/chat/completions"),
        ("http://localhost:1234/api/v1/", "http://localhost:1234/api/v1/chat/completions"),
        ("http://localhost:1234/v1/chat/completions", "http://localhost:1234/v1/chat/completions"),
    ],
)
def test_a_base_url_says_where_completions_are(base: str, url: str) -> None:
    """D-311."""
    assert chat.completions_url(base) == url


@pytest.mark.parametrize("base", ["localhost:11434", "ftp://x", "http://", ""])
def test_what_is_no_url_is_malformed(base: str) -> None:
    with pytest.raises(Malformed):
        chat.completions_url(base)


def test_a_canned_completion_has_the_shape_that_clients_read() -> None:
    answer = chat.canned(b'{"model":"m","messages":[]}', message_id="msg_abc", at_ms=1_767_225_600_999)
    assert (answer.status, answer.headers) == (200, (("Content-Type", "application/json"),))
    assert json.loads(answer.body) == {
        "id": "chatcmpl-abc",
        "object": "chat.completion",
        "created": 1_767_225_600,
        "model": "m",
        "choices": [
            {
                "index": 0,
                "message": {
                    "role": "assistant",
                    "content": "This is the emulator's canned completion: no model was asked.",
                },
                "logprobs": None,
                "finish_reason": "stop",
            }
        ],
        "usage": {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0},
    }


@pytest.mark.parametrize("request_body", [b"", b"[]", b"\xff", b'{"model":1}', b'{"model":""}', b"[" * 100_000])
def test_any_request_has_a_canned_completion(request_body: bytes) -> None:
    answer = chat.canned(request_body, message_id="msg_abc", at_ms=0)
    assert json.loads(answer.body)["model"] == "emulator"


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (b"", "body"),
        (b"{", "body"),
        (b"[]", "body"),
        (b"\xff", "body"),
        (b"[" * 100_000, "body"),
        (b"{}", "messages"),
        (b'{"messages":"hello"}', "messages"),
        (b'{"messages":[],"stream":"yes"}', "stream"),
    ],
)
def test_what_is_no_chat_request_is_named(body: bytes, field: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        chat.read_wants_stream(body)
    assert caught.value.field == field


def test_a_stream_is_asked_for() -> None:
    assert chat.read_wants_stream(b'{"messages":[],"stream":true}') is True
    assert chat.read_wants_stream(b'{"messages":[],"stream":false}') is False
    assert chat.read_wants_stream(b'{"messages":[],"stream":null}') is False


def test_a_completion_becomes_events() -> None:
    whole = {
        "id": "c1",
        "object": "chat.completion",
        "created": 7,
        "model": "m",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "whale"}, "finish_reason": "length"}],
    }
    headers = (("content-type", "application/json"), ("X-RateLimit-Limit-Requests", "5"))
    answer = chat.as_stream(Response(status=200, headers=headers, body=json.dumps(whole).encode()))
    assert answer.headers == (("Content-Type", "text/event-stream"), ("X-RateLimit-Limit-Requests", "5"))
    first, last, end, rest = answer.body.decode().split("\n\n")
    assert json.loads(first.removeprefix("data: ")) == {
        "id": "c1",
        "created": 7,
        "model": "m",
        "object": "chat.completion.chunk",
        "choices": [
            {
                "index": 0,
                "delta": {"role": "assistant", "content": "whale"},
                "logprobs": None,
                "finish_reason": None,
            }
        ],
    }
    assert json.loads(last.removeprefix("data: "))["choices"] == [
        {"index": 0, "delta": {}, "logprobs": None, "finish_reason": "length"}
    ]
    assert (end, rest) == ("data: [DONE]", "")


@pytest.mark.parametrize(
    "answer",
    [
        Response(status=500, headers=(), body=b'{"choices":[]}'),
        Response(status=200, headers=(("Content-Type", "text/event-stream"),), body=b"data: [DONE]\n\n"),
        Response(status=200, headers=(), body=b'{"choices":"none"}'),
        Response(status=200, headers=(), body=b""),
    ],
)
def test_what_is_no_completion_stays_as_it_is(answer: Response) -> None:
    assert chat.as_stream(answer) == answer


def test_the_limits_of_a_model_are_passed_on() -> None:
    headers = (
        ("Content-Type", "a/b"),
        ("Retry-After", "3"),
        ("X-RateLimit-Reset-Tokens", "53s"),
        ("Set-Cookie", "a=b"),
        ("Transfer-Encoding", "chunked"),
    )
    assert [name for name, _ in chat.passed_on(headers)] == ["Content-Type", "Retry-After", "X-RateLimit-Reset-Tokens"]
