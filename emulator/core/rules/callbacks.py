"""Callback messages: messages that carry an attempt's outcome, and their JSON.

A callback is an ordinary message with a JSON body (interface document, "Events"); fields that
do not apply are left out, never null.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Mapping

from msgspec.structs import replace

from emulator.core.decision import Decision
from emulator.core.facts import MessageCreated
from emulator.core.identifiers import message_id as make_message_id
from emulator.core.language.headers import by_canonical_name
from emulator.core.model.answers import AttemptOutcome
from emulator.core.model.messages import CreatedBy, Message, QueueSlot
from emulator.core.model.names import DeadLetterId, MessageId
from emulator.core.model.options import CallbackOptions, Method, Redaction
from emulator.core.rules import limits
from emulator.core.rules.attempts import bring_limits
from emulator.core.rules.options import delivered_headers, headers_over
from emulator.core.rules.responses import as_read
from emulator.core.state_view import StateView


def send_callback(
    state: StateView,
    source: Message,
    callback: CallbackOptions,
    outcome: AttemptOutcome,
    retried: int,
    dead_letter_id: DeadLetterId | None = None,
) -> Decision[None]:
    """Publish a callback about an attempt of `source` as a new message (D-019)."""
    account = state.accounts[source.account_id].account
    options = callback.options
    yield from bring_limits(state, source.account_id, options.flow_control)
    number = state.counters.messages + 1
    yield MessageCreated(
        message=Message(
            message_id=MessageId(make_message_id(state.event_key, number)),
            number=number,
            account_id=source.account_id,
            created_ms=state.now_ms,
            not_before_ms=state.now_ms,
            url=callback.url,
            method=options.method or Method.POST,
            headers=headers_over(delivered_headers(options), (("Content-Type", "application/json"),)),
            body=encoded(fields_of(source, outcome, retried, dead_letter_id, account.max_message_size)),
            max_retries=source.max_retries if options.max_retries is None else options.max_retries,
            retry_delay=options.retry_delay or source.retry_delay,
            timeout_ms=limits.timeout_ms(account, options.timeout_ms),
            callback=options.callback,
            failure_callback=options.failure_callback,
            caller_ip=source.caller_ip,
            labels=options.labels,
            redaction=_redaction(source, options.redaction),
            flow_control=options.flow_control,
            source_message_id=source.message_id,
            queue_slot=source.queue_slot or _own_slot(source),
            # Only a failure callback names a dead letter.
            created_by=CreatedBy.CALLBACK if dead_letter_id is None else CreatedBy.FAILURE_CALLBACK,
        )
    )


def _own_slot(source: Message) -> QueueSlot | None:
    return None if source.queue is None else QueueSlot(queue=source.queue, message_id=source.message_id)


def _redaction(source: Message, own: Redaction | None) -> Redaction | None:
    """What the source hides and what the callback itself hides (D-026).

    The callback's body repeats the source's headers and body, so whatever the source hides, that body is hidden whole.
    """
    if source.redaction is None:
        return own
    return replace(source.redaction, body=True).joined(own)


def fields_of(
    source: Message, outcome: AttemptOutcome, retried: int, dead_letter_id: DeadLetterId | None, max_size: int
) -> dict[str, object]:
    """The fields of a callback; the response body is cut at `max_size` bytes (interface document, Limits 8).

    The kind of each field is the document's (D-006). Without a response, `status` is 0 and `body`
    holds the text of the failure (D-027). A body in gzip is unpacked (D-440).
    """
    response = None if outcome.response is None else as_read(outcome.response, source.headers, max_size)
    answer = (outcome.error or "").encode() if response is None else response.body[:max_size]
    return {
        "status": 0 if response is None else response.status,
        "header": {} if response is None else by_canonical_name(response.headers),
        "body": b64encode(answer).decode(),
        "retried": retried,
        "maxRetries": source.max_retries,
        "sourceMessageId": source.message_id,
        "topicName": source.url_group,
        "endpointName": source.endpoint_name,
        "url": source.url,
        "method": source.method.value,
        "sourceHeader": {name: ", ".join(values) for name, values in by_canonical_name(source.headers).items()},
        "sourceBody": b64encode(source.body).decode(),
        "notBefore": str(source.not_before_ms),
        "createdAt": str(source.created_ms),
        "scheduleId": source.schedule_id,
        "callerIP": source.caller_ip,
        "api": source.api,
        "dlqId": dead_letter_id,
    }


def encoded(fields: Mapping[str, object]) -> bytes:
    """The JSON of a callback, with the fields that apply, as JavaScript would write it (D-361)."""
    present = {name: value for name, value in fields.items() if value is not None}
    text = json.dumps(present, separators=(",", ":"), ensure_ascii=False)
    return text.encode("utf-8", "backslashreplace")
