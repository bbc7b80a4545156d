"""The records of the messaging API as JSON objects.

Fields that do not apply are left out, never null, because the public clients take presence for a
value. Redaction is applied here, to everything that shows a message or a schedule: the interface
document, Svc-Redact-Fields. Header maps are canonical name -> list of values (D-120).
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence

from emulator.core.errors import Refused
from emulator.core.language.text import by_canonical_name
from emulator.core.model.messages import Accepted, Message, PublishedMessage
from emulator.core.model.options import CallbackOptions, DeliveryPolicy, FlowControl, MessageOptions, Method, Redaction
from emulator.core.model.resources import FlowState, Queue, ScheduleProgress, SigningKeys, UrlGroup
from emulator.core.record import ScheduleId
from emulator.core.rules import attempts
from emulator.core.rules.callbacks import decompressed
from emulator.core.rules.options import delivered_headers
from emulator.queries.history import DeadLetterEntry, Event, MessageEvents, Page
from emulator.wire.dialect import Dialect
from emulator.wire.error_body import error_json
from emulator.wire.json_reader import Json
from emulator.wire.redaction import Surface, Visibility, joined, visibility_of

# -- publishing -------------------------------------------------------------------------------


def accepted(accepted: Accepted) -> Json:
    """One object for a URL; for a URL group a list, one object per endpoint in their order (D-056)."""
    if accepted.is_group:
        return [_published(message, with_url=True) for message in accepted.messages]
    return _published(accepted.messages[0])


def batch_reply(items: Sequence[Accepted | Refused], dialect: Dialect) -> list[Json]:
    """One entry per item; a refused one is an object that says why, as an error of its own call would (D-121)."""
    return [error_json(item, dialect) if isinstance(item, Refused) else accepted(item) for item in items]


def _published(published: PublishedMessage, *, with_url: bool = False) -> dict[str, Json]:
    view: dict[str, Json] = {"messageId": published.message_id}
    if with_url:
        view["url"] = published.url
    if published.deduplicated:
        view["deduplicated"] = True
    return view


# -- messages, events, dead letters -----------------------------------------------------------


def message(message: Message, trim: int | None = None) -> dict[str, Json]:
    """A message record; times in milliseconds (D-131); `trim` as in `trimmed`."""
    visibility = visibility_of(message, Surface.SERVICE)
    return present(
        {
            "messageId": message.message_id,
            "url": message.url,
            "topicName": message.source.url_group,
            "endpointName": message.source.endpoint_name,
            "method": message.method.value,
            "header": by_canonical_name(visibility.headers(message.headers)),
            **_body(visibility.body(message.body), trim),
            "maxRetries": message.policy.max_retries,
            "retryDelayExpression": message.policy.retry_delay,
            "notBefore": message.not_before_ms,
            "createdAt": message.created_ms,
            **_callbacks(message.policy, name="Header"),
            "queueName": message.policy.queue,
            "scheduleId": message.source.schedule_id,
            "callerIP": message.source.caller_ip or None,
            "api": message.source.api,
            **labels_of(message.policy.labels),
            **_flow_control(message.policy.flow_control),
        }
    )


def event(event: Event, trim: int | None = None) -> dict[str, Json]:
    """One entry of the event log; `trim` as in `trimmed`.

    Unlike elsewhere `body` is always base64, `timeout` is in milliseconds and the header maps of
    callbacks are in the plural. Two facts carry two names each, as readers of both exist (D-122).
    """
    message = event.message
    visibility = visibility_of(message, Surface.SERVICE)
    response = None if event.response is None else visibility.response(decompressed(event.response, message.headers))
    response_headers = None if response is None else by_canonical_name(response.headers)
    return present(
        {
            "time": event.at_ms,
            "messageId": message.message_id,
            "state": event.state.value,
            "url": message.url,
            "error": event.error,
            "nextDeliveryTime": event.next_delivery_ms,
            "topicName": message.source.url_group,
            "endpointName": message.source.endpoint_name,
            "queueName": message.policy.queue,
            "scheduleId": message.source.schedule_id,
            "header": by_canonical_name(visibility.headers(message.headers)),
            "body": _base64_trimmed(visibility.body(message.body), trim),
            "responseStatus": None if response is None else response.status,
            "responseHeader": response_headers,
            "responseHeaders": response_headers,
            "responseBody": None if response is None else _base64_trimmed(response.body, trim),
            "timeout": message.policy.timeout_ms,
            "method": message.method.value,
            "maxRetries": message.policy.max_retries,
            "retryDelayExpr": message.policy.retry_delay,
            "retryDelayExpression": message.policy.retry_delay,
            **_callbacks(message.policy, name="Headers"),
            "callerIP": message.source.caller_ip or None,
            "api": message.source.api,
            **labels_of(message.policy.labels),
            **_flow_control(message.policy.flow_control),
        }
    )


def events_page(page: Page[Event], *keys: str, trim: int | None = None) -> dict[str, Json]:
    """A page of the event log under `events`, `logs` or both (D-089)."""
    events = [event(entry, trim) for entry in page.items]
    return present({**dict.fromkeys(keys, events), "cursor": page.cursor})


def grouped_events_page(page: Page[MessageEvents], trim: int | None) -> dict[str, Json]:
    """A page of messages, each a message record with its events (D-525)."""
    messages = [
        {**message(each.message, trim), "events": [event(entry, trim) for entry in each.events]} for each in page.items
    ]
    return present({"messages": messages, "cursor": page.cursor})


def trimmed(content: bytes, trim: int | None) -> bytes | None:
    """The first `trim` bytes of a body: all of it without a number, None with -1 (D-387)."""
    if trim is None:
        return content
    return None if trim < 0 else content[:trim]


def trimmed_text(text: str, trim: int | None) -> str | None:
    """The same of a text in UTF-8; a character that would be cut in the middle is left out."""
    if trim is None:
        return text
    return None if trim < 0 else text.encode("utf-8", "replace")[:trim].decode("utf-8", "ignore")


def dead_letter(entry: DeadLetterEntry, trim: int | None = None) -> dict[str, Json]:
    """A message record with its last response; status 0 stands for no response at all (D-123)."""
    answer: dict[str, Json] = {"responseStatus": 0}
    if entry.outcome.response is not None:
        visibility = visibility_of(entry.message, Surface.SERVICE)
        response = visibility.response(decompressed(entry.outcome.response, entry.message.headers))
        plain = _body(response.body, trim)
        answer = {
            "responseStatus": response.status,
            "responseHeader": by_canonical_name(response.headers),
            "responseBody": plain.get("body"),
            "responseBodyBase64": plain.get("bodyBase64"),
        }
    return present({**message(entry.message, trim), "dlqId": entry.dead_letter_id, **answer})


def dead_letters_page(page: Page[DeadLetterEntry], trim: int | None = None) -> dict[str, Json]:
    """A page of the dead letter queue; `trim` as in `trimmed`."""
    return present({"messages": [dead_letter(entry, trim) for entry in page.items], "cursor": page.cursor})


def cancelled(count: int) -> dict[str, Json]:
    """How many messages a cancellation met (D-062)."""
    return {"cancelled": count}


def dead_letters_deleted(count: int, cursor: str | None) -> dict[str, Json]:
    """How many dead letters were deleted, and the cursor to continue with if more match (D-134)."""
    return present({"deleted": count, "cursor": cursor})


def dead_letters_retried(messages: Sequence[PublishedMessage], cursor: str | None) -> dict[str, Json]:
    """The messages made from dead letters. Here alone the last page has a cursor, an empty one (D-134)."""
    return {"cursor": cursor or "", "responses": [_published(entry) for entry in messages]}


# -- schedules, URL groups, queues ------------------------------------------------------------


def schedule(progress: ScheduleProgress, default_retries: int) -> dict[str, Json]:
    """A schedule record; `delay` and `timeout` in seconds, times in milliseconds (D-132)."""
    record = progress.schedule
    options = record.options
    visibility = Visibility(options.redaction, Surface.SERVICE)
    return present(
        {
            "scheduleId": record.schedule_id,
            "cron": record.cron,
            "destination": record.destination.text,
            "method": (options.method or Method.POST).value,
            "createdAt": record.created_ms,
            "isPaused": progress.paused,
            "retries": default_retries if options.max_retries is None else options.max_retries,
            "header": by_canonical_name(visibility.headers(delivered_headers(options))) or None,
            **_body(visibility.body(record.body)),
            "delay": None if options.delay_ms is None else options.delay_ms // 1000,
            "timeout": None if options.timeout_ms is None else options.timeout_ms // 1000,
            "retryDelayExpression": options.retry_delay,
            **_callbacks(options, name="Header"),
            "queueName": options.queue,
            # Records and the public contract differ in the spelling (D-532).
            "callerIP": record.caller_ip or None,
            "callerIp": record.caller_ip or None,
            **labels_of(options.labels),
            **_flow_control(options.flow_control),
            "lastScheduleTime": progress.last_fired_ms,
            "nextScheduleTime": progress.next_ms,
            "lastScheduleStates": {key: state.value for key, state in progress.last_states} or None,
            "error": progress.error,
        }
    )


def schedule_created(schedule_id: ScheduleId) -> dict[str, Json]:
    """The answer to writing a schedule."""
    return {"scheduleId": schedule_id}


def url_group(group: UrlGroup) -> dict[str, Json]:
    """A URL group with its endpoints; `headers` only if it has default headers (D-124)."""
    return present(
        {
            "name": group.name,
            "createdAt": group.created_ms,
            "updatedAt": group.updated_ms,
            "endpoints": [present({"name": endpoint.name, "url": endpoint.url}) for endpoint in group.endpoints],
            "headers": default_headers(group) or None,
        }
    )


def default_headers(group: UrlGroup) -> dict[str, list[str]]:
    """The default headers of a group, with what messages or callbacks would hide hidden."""
    return {name: _default_values(name, values, group.defaults) for name, values in group.headers}


def queue(queue: Queue, lag: int) -> dict[str, Json]:
    """A queue; `lag` counts its messages that have not ended (D-133)."""
    return {
        "name": queue.name,
        "parallelism": queue.parallelism,
        "createdAt": queue.created_ms,
        "updatedAt": queue.updated_ms,
        "lag": lag,
        "paused": queue.paused,
    }


# -- flow control, keys -----------------------------------------------------------------------


def flow_key(flow: FlowState, count: int, waiting: int, now_ms: int) -> dict[str, Json]:
    """A flow control key; `count` attempts of it have left. All fields are there, 0 or false where nothing is set.

    Units: `ratePeriod` in seconds, `ratePeriodStart` in seconds since the Unix epoch.
    """
    # D-125
    return {
        "flowControlKey": flow.key,
        "waitListSize": waiting,
        "parallelismMax": flow.parallelism or 0,
        "parallelismCount": count,
        "rateMax": flow.rate or 0,
        "rateCount": attempts.rate_count(flow, now_ms),
        "ratePeriod": 0 if flow.rate is None else flow.period_ms // 1000,
        "ratePeriodStart": flow.window_start_ms // 1000,
        "isPaused": flow.paused,
        "isPinnedParallelism": flow.pinned_parallelism,
        "isPinnedRate": flow.pinned_rate,
    }


def global_parallelism(maximum: int, count: int) -> dict[str, Json]:
    """The account's own limit on attempts under way, and how many there are."""
    return {"parallelismMax": maximum, "parallelismCount": count}


def signing_keys(keys: SigningKeys) -> dict[str, Json]:
    """The pair of keys that receivers verify with."""
    return {"current": keys.current, "next": keys.next}


# -- parts of records -------------------------------------------------------------------------


def present(fields: dict[str, Json]) -> dict[str, Json]:
    """The fields that apply."""
    return {name: value for name, value in fields.items() if value is not None}


def _body(shown: bytes, trim: int | None = None) -> dict[str, Json]:
    """`body` if it is text, else `bodyBase64`; neither if there is none."""
    if not shown:
        return {}
    try:
        return {"body": trimmed_text(shown.decode(), trim)}
    except UnicodeDecodeError:
        return {"bodyBase64": _base64_trimmed(shown, trim)}


def _base64_trimmed(content: bytes, trim: int | None) -> str | None:
    return b64encode(trimmed(content, trim) or b"").decode() or None


def _callbacks(options: DeliveryPolicy | MessageOptions, *, name: str) -> dict[str, Json]:
    callback, failure = options.callback, options.failure_callback
    return {
        "callback": None if callback is None else callback.url,
        f"callback{name}": _callback_headers(callback, options.redaction),
        "failureCallback": None if failure is None else failure.url,
        f"failureCallback{name}": _callback_headers(failure, options.redaction),
    }


def _callback_headers(callback: CallbackOptions | None, redaction: Redaction | None) -> dict[str, list[str]] | None:
    """The headers a callback will carry; what the message or the callback itself hides stays hidden (D-126)."""
    if callback is None:
        return None
    visibility = Visibility(joined(redaction, callback.options.redaction), Surface.SERVICE)
    return by_canonical_name(visibility.headers(delivered_headers(callback.options))) or None


def _default_values(name: str, values: tuple[str, ...], defaults: MessageOptions) -> list[str]:
    """The values of a group's default header; one that messages or callbacks would hide is hidden here too."""
    bearer, mark, forwarded = name.lower().partition("-forward-")
    callback: CallbackOptions | None = None
    if bearer.endswith("-failure-callback"):
        callback = defaults.failure_callback
    elif bearer.endswith("-callback"):
        callback = defaults.callback
    if not mark:
        return list(values)
    redaction = joined(defaults.redaction, None if callback is None else callback.options.redaction)
    visibility = Visibility(redaction, Surface.SERVICE)
    return [value for _, value in visibility.headers(tuple((forwarded, value) for value in values))]


def labels_of(labels: tuple[str, ...]) -> dict[str, Json]:
    """The labels, the first of them under a name of its own; neither without one."""
    return {"label": labels[0], "labels": list(labels)} if labels else {}


def _flow_control(flow: FlowControl | None) -> dict[str, Json]:
    if flow is None:
        return {}
    return {
        "flowControlKey": flow.key,
        "parallelism": flow.parallelism,
        "rate": flow.rate,
        "period": flow.period_ms // 1000,
    }
