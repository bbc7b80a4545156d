"""Chat completions in the shape that clients of language models read: canned ones, and as a stream of events.

Source: not shown in the interface document; the shapes are those that public clients send and read (D-311, D-312).
"""

from __future__ import annotations

import json
from urllib.parse import urlsplit

from emulator.core.errors import InvalidInput, Malformed, PayloadTooLarge
from emulator.core.model.messages import Response
from emulator.core.record import Headers
from emulator.wire.json_reader import check_size
from emulator.wire.urls import parse_url

EVENT_STREAM = "text/event-stream"
CONTENT = "This is the emulator's canned completion: no model was asked."
_MODEL = "emulator"
_PATH = "/chat/completions"
_END = b"data: [DONE]\n\n"
# What a client reads of an answer besides its body; the model's own limits are named in headers of these kinds.
_PASSED_ON = ("content-type", "content-encoding", "retry-after")
_LIMITS = "x-ratelimit-"


def completions_url(base: str) -> str:
    """Where a server takes chat completions: `http://host`, `http://host/v1` and the whole URL name the same place.

    Raises: Malformed.
    """
    url = parse_url(base).rstrip("/")
    path = urlsplit(url).path
    if path.endswith(_PATH):
        return url
    return f"{url}{_PATH}" if path else f"{url}/v1{_PATH}"


def canned(request: bytes, *, message_id: str, at_ms: int) -> Response:
    """The default answer to a chat request. The model is that of the request."""
    try:
        model = _decoded(request).get("model")
    except Malformed:
        model = None
    completion = {
        "id": f"chatcmpl-{message_id.removeprefix('msg_')}",
        "object": "chat.completion",
        "created": at_ms // 1000,
        "model": model if isinstance(model, str) and model else _MODEL,
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": CONTENT},
                "logprobs": None,
                "finish_reason": "stop",
            }
        ],
        "usage": {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0},
    }
    body = json.dumps(completion, separators=(",", ":")).encode()
    return Response(status=200, headers=(("Content-Type", "application/json"),), body=body)


def read_wants_stream(request: bytes) -> bool:
    """Whether a chat request asks for a stream. Raises: InvalidInput for what is no chat request."""
    try:
        given = _decoded(request)
    except Malformed as malformed:
        raise InvalidInput("body", malformed.reason) from None
    if not isinstance(given.get("messages"), list):
        raise InvalidInput("messages", "expected a list of messages")
    stream = given.get("stream")
    if stream is not None and not isinstance(stream, bool):
        raise InvalidInput("stream", "expected true or false")
    return stream is True


def as_stream(answer: Response) -> Response:
    """A completion as the events of a stream: all of its text in one. Any other answer is left as it is."""
    try:
        given = _decoded(answer.body)
    except Malformed:
        return answer
    choices = given.get("choices")
    if not 200 <= answer.status < 300 or not isinstance(choices, list):
        return answer
    common: dict[str, object] = {name: given[name] for name in ("id", "created", "model") if name in given}
    events = b""
    for choice in choices:
        if isinstance(choice, dict):
            index, delta = choice.get("index", 0), choice.get("message", {})
            for piece, reason in ((delta, None), ({}, choice.get("finish_reason", "stop"))):
                part = {"index": index, "delta": piece, "logprobs": None, "finish_reason": reason}
                chunk = {**common, "object": "chat.completion.chunk", "choices": [part]}
                events += f"data: {json.dumps(chunk, separators=(',', ':'))}\n\n".encode()
    headers = (("Content-Type", EVENT_STREAM), *(pair for pair in answer.headers if pair[0].lower() != "content-type"))
    return Response(status=answer.status, headers=headers, body=events + _END)


def passed_on(headers: Headers) -> Headers:
    """The headers of the model's answer that its caller gets."""
    return tuple(pair for pair in headers if pair[0].lower() in _PASSED_ON or pair[0].lower().startswith(_LIMITS))


def _decoded(text: bytes) -> dict[str, object]:
    """Raises: Malformed for anything but a JSON object."""
    try:
        check_size(text)
        value: object = json.loads(text)
    except PayloadTooLarge:
        raise Malformed("expected JSON of fewer values") from None
    except (ValueError, RecursionError):
        raise Malformed("expected JSON") from None
    if not isinstance(value, dict):
        raise Malformed("expected a JSON object")
    return value
