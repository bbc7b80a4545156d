"""Callback messages: messages that carry an attempt's outcome, and their JSON.

A callback is an ordinary message with a JSON body (interface document, "Events"); fields that
do not apply are left out, never null.
"""

from __future__ import annotations

import json
import zlib
from base64 import b64encode
from collections.abc import Mapping

from msgspec.structs import replace

from emulator.core.language.text import beginning, by_canonical_name
from emulator.core.message_facts import MessageCreated
from emulator.core.model.messages import (
    MAX_KEPT_BYTES,
    AttemptOutcome,
    CreatedBy,
    Message,
    QueueSlot,
    Response,
    Source,
)
from emulator.core.model.options import CallbackOptions, Method, Redaction
from emulator.core.record import DeadLetterId, Headers, MessageId
from emulator.core.record import message_id as make_message_id
from emulator.core.rules import limits
from emulator.core.rules.attempts import set_flow_limits
from emulator.core.rules.options import delivered_headers, headers_over, policy_of
from emulator.core.state import Decision, StateView

# -- responses as the service reads them --------------------------------------------------------
# Every delivery asks for gzip (D-102), so the service unpacks what it asked for, as HTTP clients do. The delivery
# journal keeps the response as it was received.

_GZIP = 16 + zlib.MAX_WBITS
_OF_THE_PACKED_BODY = ("content-encoding", "content-length")
# A stream hands back what lies behind its end: small pieces make many streams in a row cheap to read.
_PIECE_BYTES = 4096


def decompressed(response: Response, requested: Headers, most_bytes: int = MAX_KEPT_BYTES) -> Response:
    """The response with its body unpacked, at most `most_bytes` of it, and without the headers of the packed one.

    No more than that is unpacked. The response stays as it is if it is not in gzip, or not whole, and if the message
    brought its own `Accept-Encoding` among the `requested` headers: then its publisher asked, and unpacks (D-440).
    """
    encodings = [value for name, value in response.headers if name.lower() == "content-encoding"]
    if [value.strip().lower() for value in encodings] != ["gzip"]:
        return response
    if any(name.lower() == "accept-encoding" for name, _ in requested):
        return response
    # One byte more shows whether there is more.
    body = _unpacked(response.body, most_bytes + 1, is_whole=not response.is_truncated)
    if body is None:
        return response
    headers = tuple(pair for pair in response.headers if pair[0].lower() not in _OF_THE_PACKED_BODY)
    is_whole = len(body) <= most_bytes and not response.is_truncated
    received_bytes = None if is_whole else response.body_bytes
    return replace(response, headers=headers, body=beginning(body, most_bytes), received_bytes=received_bytes)


def _unpacked(body: bytes, most_bytes: int, *, is_whole: bool) -> bytes | None:
    """The first `most_bytes` of what gzip packed, None for anything else; there may be several streams in a row.

    Without `is_whole` the body ends somewhere in a stream.
    """
    unpacked = bytearray()
    stream = zlib.decompressobj(_GZIP)
    start = 0
    while start < len(body):
        if stream.eof:
            stream = zlib.decompressobj(_GZIP)
        piece = body[start : start + _PIECE_BYTES]
        try:
            unpacked += stream.decompress(piece, most_bytes - len(unpacked))
        except zlib.error:
            return None
        if len(unpacked) == most_bytes:
            return bytes(unpacked)
        start += len(piece) - len(stream.unused_data) - len(stream.unconsumed_tail)
    return bytes(unpacked) if stream.eof or not is_whole or not body else None


# -- callbacks ----------------------------------------------------------------------------------


def send_callback(
    state: StateView,
    message: Message,
    callback: CallbackOptions,
    outcome: AttemptOutcome,
    retried: int,
    dead_letter_id: DeadLetterId | None = None,
) -> Decision[None]:
    """Publish a callback about an attempt of `message` as a new message (D-019)."""
    account = state.accounts[message.account_id].account
    options = callback.options
    yield from set_flow_limits(state, message.account_id, options.flow_control)
    number = state.counters.messages + 1
    slot = message.source.queue_slot
    if slot is None and message.policy.queue is not None:
        slot = QueueSlot(queue=message.policy.queue, message_id=message.message_id)
    yield MessageCreated(
        message=Message(
            message_id=MessageId(make_message_id(state.event_key, number)),
            number=number,
            account_id=message.account_id,
            created_ms=state.now_ms,
            not_before_ms=state.now_ms,
            url=callback.url,
            method=options.method or Method.POST,
            headers=headers_over(delivered_headers(options), (("Content-Type", "application/json"),)),
            body=encoded(fields_of(message, outcome, retried, dead_letter_id, account.max_message_size)),
            policy=policy_of(
                replace(
                    options,
                    retry_delay=options.retry_delay or message.policy.retry_delay,
                    redaction=redaction_of(message, options.redaction),
                ),
                max_retries=message.policy.max_retries if options.max_retries is None else options.max_retries,
                timeout_ms=limits.timeout_ms(account, options.timeout_ms),
            ),
            source=Source(
                caller_ip=message.source.caller_ip,
                # Only a failure callback names a dead letter.
                created_by=CreatedBy.CALLBACK if dead_letter_id is None else CreatedBy.FAILURE_CALLBACK,
                source_message_id=message.message_id,
                queue_slot=slot,
                traceparent=message.source.traceparent,
            ),
        )
    )


def redaction_of(message: Message, own: Redaction | None) -> Redaction | None:
    """What the source hides and what the callback itself hides (D-026).

    The callback's body repeats the source's headers and body, so whatever the source hides, that body is hidden whole.
    """
    if message.policy.redaction is None:
        return own
    return replace(message.policy.redaction, body=True).joined(own)


def fields_of(
    message: Message, outcome: AttemptOutcome, retried: int, dead_letter_id: DeadLetterId | None, max_size: int
) -> dict[str, object]:
    """The fields of a callback; of the response body at most `max_size` bytes (interface document, Limits 8).

    No callback has more of it than is kept, and one that has not all of it says so (D-790). The kind of each field is
    the document's (D-006). Without a response, `status` is 0 and `body` holds the text of the failure (D-027). A body
    in gzip is unpacked (D-440).
    """
    response = None if outcome.response is None else read_response(outcome.response, message, max_size)
    answer = (outcome.error or "").encode() if response is None else response.body
    return {
        "status": 0 if response is None else response.status,
        "header": {} if response is None else by_canonical_name(response.headers),
        "body": b64encode(answer).decode(),
        "truncated": True if response is not None and response.is_truncated else None,
        "retried": retried,
        "maxRetries": message.policy.max_retries,
        "sourceMessageId": message.message_id,
        "topicName": message.source.url_group,
        "endpointName": message.source.endpoint_name,
        "url": message.url,
        "method": message.method.value,
        "sourceHeader": {name: ", ".join(values) for name, values in by_canonical_name(message.headers).items()},
        "sourceBody": b64encode(message.body).decode(),
        "notBefore": str(message.not_before_ms),
        "createdAt": str(message.created_ms),
        "scheduleId": message.source.schedule_id,
        "callerIP": message.source.caller_ip,
        "api": message.source.api,
        "dlqId": dead_letter_id,
    }


def read_response(response: Response, message: Message, max_size: int) -> Response:
    """An answer as the service reads it: unpacked, and at most `max_size` bytes of what is kept."""
    most_bytes = min(max_size, MAX_KEPT_BYTES)
    unpacked = decompressed(response, message.headers, most_bytes)
    if len(unpacked.body) <= most_bytes:
        return unpacked
    return replace(unpacked, body=beginning(unpacked.body, most_bytes), received_bytes=unpacked.body_bytes)


def encoded(fields: Mapping[str, object]) -> bytes:
    """The JSON of a callback, with the fields that apply, as JavaScript would write it (D-361)."""
    present = {name: value for name, value in fields.items() if value is not None}
    text = json.dumps(present, separators=(",", ":"), ensure_ascii=False)
    return text.encode("utf-8", "backslashreplace")
