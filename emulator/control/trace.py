"""The canonical trace: one line per event and per attempt, equal byte for byte on any machine.

The same seed, calls, clock moves and responses give the same lines. So a line leaves out whatever
else could differ: wall time, chosen ports, tokens, signatures, the client's own address and
software. Where a text could hold such a thing, a mask replaces it; bodies appear as the SHA-256
of what the masks leave of them (D-129, D-130).
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import tempfile
from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import AsyncIterator, Mapping
from hashlib import sha256
from typing import IO

import msgspec
from msgspec.structs import asdict, replace
from starlette.responses import Response, StreamingResponse

from emulator.control.call import WORLD_ONLY, ControlCall, ControlRoute
from emulator.control.records import dropped_view
from emulator.core.language.text import by_canonical_name
from emulator.core.model import messages
from emulator.core.model.messages import EventState, Message
from emulator.core.model.options import CallbackOptions, Redaction
from emulator.core.record import Headers
from emulator.core.rules.options import delivered_headers
from emulator.journal.history import History
from emulator.queries.history import Event, RecordedDelivery
from emulator.wire.json_reader import Json
from emulator.wire.messaging.outgoing import headers_of_attempt
from emulator.wire.reasons import disturbed, is_duplicate
from emulator.wire.redaction import Surface, Visibility, joined, redacted_text, visibility_of

# Response headers that can change what happens next, or describe the body.
_RESPONSE_HEADERS = frozenset(
    (
        "content-type",
        "retry-after",
        "x-ratelimit-reset",
        "x-ratelimit-reset-requests",
        "x-ratelimit-reset-tokens",
    )
)
# Headers that a publisher's HTTP software or a proxy adds by itself; with them, the same calls differ.
_VOLATILE_HEADERS = frozenset(
    (
        "accept",
        "accept-encoding",
        "accept-language",
        "connection",
        "content-length",
        "date",
        "forwarded",
        "host",
        "keep-alive",
        "te",
        "traceparent",
        "tracestate",
        "transfer-encoding",
        "user-agent",
        "via",
        "x-forwarded-for",
        "x-forwarded-host",
        "x-forwarded-port",
        "x-forwarded-proto",
        "x-real-ip",
        "x-request-id",
    )
)
# A trace shows that these were sent, without their values.
_SECRET_HEADERS = frozenset(("authorization", "cookie", "proxy-authorization", "svc-signature", "upstash-signature"))
_HIDDEN = "*"

# A port after a host of this machine, as it stands in a URL or percent-encoded inside another one.
_PORT = (
    r"((?:(?<![0-9.])(?:127(?:\.[0-9]{1,3}){3}|0\.0\.0\.0)|\[::1\]|%5b%3a%3a1%5d"
    r"|(?:(?<![a-z0-9_-])|(?<=%2f)|(?<=%40))localhost)\.?(?::|%3a))[0-9]{1,5}(?![0-9])"
)
_TOKEN_PARAMETER = r"""([?&][a-z0-9_.-]*token=)[^&#\s"'<>\\]+"""
# Three base64url parts, the first of them a JSON object: the form of a signature.
_JWT = r"(?<![a-z0-9_-])eyj[a-z0-9_-]{4,}\.[a-z0-9_-]+\.[a-z0-9_-]*"
_FLAGS = re.IGNORECASE | re.ASCII
_MASKS = (
    (re.compile(_PORT, _FLAGS), r"\1*"),
    (re.compile(_TOKEN_PARAMETER, _FLAGS), r"\1*"),
    (re.compile(_JWT, _FLAGS), _HIDDEN),
)

_CALLBACK_KEYS = frozenset(("sourceMessageId", "sourceHeader", "sourceBody"))


def event_line(event: Event) -> str:
    """The canonical line of one event. The CREATED line also has all options of the message."""
    message = event.message
    line: dict[str, Json] = {
        "kind": "event",
        "at_ms": event.at_ms,
        "state": event.state.value,
        "message": message.message_id,
        "url": message.url,
        "error": event.error,
        "next_delivery_ms": event.next_delivery_ms,
    }
    if event.state is EventState.CREATED:
        line |= _asked(message)
    if event.response is not None:
        line["response"] = _response(event.response, message)
    return _canonical(line)


def attempt_line(delivery: RecordedDelivery) -> str:
    """The canonical line of one attempt: what the publisher caused to be sent, and what came back."""
    message, outcome = delivery.message, delivery.outcome
    # Of the headers as sent only those the message asked for: the service's own carry a signature.
    asked_for = {name.lower() for name, _ in message.headers}
    headers = headers_of_attempt(
        message, delivery.attempt, delivery.at_ms, outcome, is_duplicate=is_duplicate(delivery.answered_by)
    )
    sent = tuple(pair for pair in headers if pair[0].lower() in asked_for)
    line: dict[str, Json] = {
        "kind": "attempt",
        "at_ms": delivery.at_ms,
        "finished_ms": delivery.finished_ms,
        "message": message.message_id,
        "attempt": delivery.attempt,
        "retried": delivery.attempt - 1,
        "method": message.method.value,
        "url": message.url,
        "headers": _headers(sent, message.policy.redaction),
        "body_sha256": _body_sha256(message),
        # Of a call with the steps so far: the body is its own step, and those before it have their own lines.
        "listed": None if message.run is None else message.run.listed or None,
        "topic": message.source.url_group,
        "schedule": message.source.schedule_id,
        "via": outcome.via.value,
        "error": outcome.error,
        "chaos": disturbed(outcome, delivery.answered_by, delivery.attempt),
        "redelivery": outcome.redelivery or None,
    }
    if outcome.response is not None:
        line["response"] = _response(outcome.response, message)
    return _canonical(line)


# -- parts of a line --------------------------------------------------------------------------


def _asked(message: Message) -> dict[str, Json]:
    flow = message.policy.flow_control
    return {
        "method": message.method.value,
        "headers": _headers(message.headers, message.policy.redaction),
        "body_sha256": _body_sha256(message),
        "not_before_ms": message.not_before_ms,
        "max_retries": message.policy.max_retries,
        "retry_delay": message.policy.retry_delay,
        "timeout_ms": message.policy.timeout_ms,
        "callback": _callback(message.policy.callback, message.policy.redaction),
        "failure_callback": _callback(message.policy.failure_callback, message.policy.redaction),
        "topic": message.source.url_group,
        "endpoint": message.source.endpoint_name,
        "queue": message.policy.queue,
        "schedule": message.source.schedule_id,
        "labels": list(message.policy.labels) or None,
        "flow_control": None if flow is None else asdict(flow),
        "source": message.source.source_message_id,
    }


def _callback(callback: CallbackOptions | None, redaction: Redaction | None) -> dict[str, Json] | None:
    if callback is None:
        return None
    headers = _headers(delivered_headers(callback.options), joined(redaction, callback.options.redaction))
    return {"url": callback.url, "headers": headers}


def _response(response: messages.Response, message: Message) -> dict[str, Json]:
    shown = visibility_of(message, Surface.OWN).response(replace(response, body=_stable(response.body)))
    kept = tuple(pair for pair in shown.headers if pair[0].lower() in _RESPONSE_HEADERS)
    return {
        "status": response.status,
        "headers": by_canonical_name(kept),
        "body_sha256": _sha256(shown.body),
    }


def _headers(headers: Headers, redaction: Redaction | None) -> dict[str, list[str]]:
    kept = ((name, value) for name, value in headers if name.lower() not in _VOLATILE_HEADERS)
    visibility = Visibility(redaction, Surface.SERVICE)
    return by_canonical_name(tuple((name, _header_value(name.lower(), value, visibility)) for name, value in kept))


def _header_value(name: str, value: str, visibility: Visibility) -> str:
    if name in _SECRET_HEADERS:
        return _HIDDEN
    masked = _masked_text(value)
    if visibility.hides_header(name):
        # The mask comes first: the digest of a value that holds a port would differ with the port.
        return redacted_text(masked.encode("utf-8", "surrogatepass"))
    return masked


# -- bodies -----------------------------------------------------------------------------------


def _body_sha256(message: Message) -> str:
    """The digest of a message's body, or of the marker that API answers show in its place."""
    return _sha256(visibility_of(message, Surface.SERVICE).body(_stable(message.body)))


def _stable(content: bytes) -> bytes:
    """What of a body is the same on any machine: it with masks, or a callback's body made canonical.

    A callback is recognised by its fields, so one that is echoed, or reported in another callback's
    `sourceBody`, is made canonical as well.
    """
    if b'"sourceMessageId"' in content:
        try:
            body: Json = json.loads(content)
            if isinstance(body, Mapping) and body.keys() >= _CALLBACK_KEYS:
                return _canonical({name: _callback_field(name, body[name]) for name in body}).encode("ascii")
        except (ValueError, RecursionError):
            pass  # Not JSON, or nested deeper than anything we send: bytes like any others.
    # Every byte is one character of Latin-1, and the masks are about ASCII alone.
    return _masked_text(content.decode("latin-1")).encode("latin-1")


def _callback_field(name: str, value: Json) -> Json:
    if name in ("body", "sourceBody") and isinstance(value, str):
        try:
            return _sha256(_stable(b64decode(value, validate=True)))
        except (Base64Error, ValueError):
            return value
    if name == "header" and isinstance(value, Mapping):
        return {key: value[key] for key in value if key.lower() in _RESPONSE_HEADERS}
    if name == "sourceHeader" and isinstance(value, Mapping):
        return {
            key: _HIDDEN if key.lower() in _SECRET_HEADERS else value[key]
            for key in value
            if key.lower() not in _VOLATILE_HEADERS
        }
    # The publisher's address depends on how this machine reaches itself.
    return None if name == "callerIP" else value


def _sha256(content: bytes) -> str:
    return sha256(content).hexdigest()


# -- canonical text ---------------------------------------------------------------------------


def _canonical(value: Mapping[str, Json]) -> str:
    return json.dumps(_masked(value), sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def _masked(value: Json) -> Json:
    """The value with every text in it masked, and without fields that have no value."""
    if isinstance(value, str):
        return _masked_text(value)
    if isinstance(value, Mapping):
        return {_masked_text(key): _masked(item) for key, item in value.items() if item is not None}
    if isinstance(value, bool | int | float) or value is None:
        return value
    return [_masked(item) for item in value]


def _masked_text(text: str) -> str:
    for pattern, replacement in _MASKS:
        text = pattern.sub(replacement, text)
    return text


# A longer trace is laid down on the disk before it is sent.
_IN_MEMORY = 16 * 1024 * 1024
_PIECE_BYTES = 1024 * 1024


async def get_trace(call: ControlCall) -> Response:
    """The answer begins when the trace has been read to its end.

    A reset meanwhile is a 409 and damage an error, and neither cuts the answer off (D-286).
    """
    await call.world.current_state()
    file: IO[bytes] = tempfile.SpooledTemporaryFile(_IN_MEMORY)  # noqa: SIM115  # the response closes it
    try:
        await _write(call.world.history, file)
    except BaseException:
        file.close()
        raise
    size = file.tell()
    file.seek(0)
    return StreamingResponse(_pieces(file), media_type="application/x-ndjson", headers={"Content-Length": str(size)})


async def _write(history: History, file: IO[bytes]) -> None:
    digest = hashlib.sha256()
    if history.dropped.seq:
        first = _canonical({"dropped": msgspec.to_builtins(dropped_view(history.dropped))}).encode() + b"\n"
        digest.update(first)
        file.write(first)
    async for entry in history.trace():
        line = event_line(entry) if isinstance(entry, Event) else attempt_line(entry)
        encoded = line.encode() + b"\n"
        digest.update(encoded)
        file.write(encoded)
    # The last line: the digest of all lines before it.
    file.write(_canonical({"sha256": digest.hexdigest()}).encode() + b"\n")


async def _pieces(file: IO[bytes]) -> AsyncIterator[bytes]:
    with file:
        while piece := await asyncio.to_thread(file.read, _PIECE_BYTES):
            yield piece


ROUTES: tuple[ControlRoute, ...] = (ControlRoute("GET", "/_emulator/trace", get_trace, WORLD_ONLY),)
