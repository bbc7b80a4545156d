"""Putting configuration together: a request over a group's defaults, overrides over a dead letter."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from functools import lru_cache
from operator import attrgetter
from typing import Any, TypeVar

from msgspec.structs import asdict, fields, replace

from emulator.core.errors import InvalidInput
from emulator.core.model.options import (
    REUSE,
    CallbackOptions,
    DeliveryPolicy,
    Destination,
    DestinationKind,
    MessageOptions,
    Reuse,
)
from emulator.core.record import Headers, QueueName

T = TypeVar("T", bound=Hashable)

_HEADER_FIELDS = frozenset(("forwarded", "incoming"))
_PLAIN_FIELDS = tuple(field.name for field in fields(MessageOptions) if field.name not in _HEADER_FIELDS)
_NOTHING_SAID = MessageOptions()
_CALLBACKS = ("callback", "failure_callback")
# What a message keeps of its options; all but the first group it has as they are.
_SETTLED_OPTIONS = ("max_retries", "timeout_ms", "queue")
_POLICY_OPTIONS = tuple(field.name for field in fields(DeliveryPolicy) if field.name not in _SETTLED_OPTIONS)
_policy_options = attrgetter(*_POLICY_OPTIONS)


def with_defaults(options: MessageOptions, defaults: MessageOptions) -> MessageOptions:
    """`options` where they say something, `defaults` where they do not; headers are joined by name (D-020)."""
    if defaults == _NOTHING_SAID:
        return options
    filled = {
        name: getattr(defaults, name)
        for name in _PLAIN_FIELDS
        if getattr(options, name) in (None, ()) and getattr(defaults, name) not in (None, ())
    }
    if "delay_ms" in filled and options.not_before_ms is not None:
        del filled["delay_ms"]
    if "not_before_ms" in filled and options.delay_ms is not None:
        del filled["not_before_ms"]
    return replace(
        options,
        forwarded=headers_over(options.forwarded, defaults.forwarded),
        incoming=headers_over(options.incoming, defaults.incoming),
        **filled,
    )


def with_callback_defaults(options: MessageOptions, defaults: MessageOptions) -> MessageOptions:
    """As `with_defaults`; the callbacks too are put together option by option, whichever names their URL (D-020)."""
    joined = with_defaults(options, defaults)
    callbacks: dict[str, object] = {}
    for field in _CALLBACKS:
        named = getattr(options, field) or getattr(defaults, field)
        if named is not None:
            said, default = (callback_settings(each, field) or _NOTHING_SAID for each in (options, defaults))
            callbacks |= {
                field: replace(named, options=with_callback_defaults(said, default)),
                f"{field}_settings": None,
            }
    return replace(joined, **callbacks) if callbacks else joined


def callback_settings(options: MessageOptions, field: str) -> MessageOptions | None:
    """What the options say about their `callback` or their `failure_callback`, with its URL or without."""
    callback: CallbackOptions | None = getattr(options, field)
    settings: MessageOptions | None = getattr(options, f"{field}_settings")
    return settings if callback is None else callback.options


def headers_over(headers: Headers, defaults: Headers) -> Headers:
    """The headers, and those defaults whose name they do not use."""
    if not defaults:
        return headers
    names = {name.lower() for name, _ in headers}
    return headers + tuple(pair for pair in defaults if pair[0].lower() not in names)


def delivered_headers(options: MessageOptions) -> Headers:
    """What the destination gets: content type, forwarded headers, and the incoming ones if asked for.

    A content type among the forwarded headers replaces the request's own, and a forwarded
    header replaces an incoming one of the same name.
    """
    headers = options.forwarded
    if options.content_type is not None and not any(name.lower() == "content-type" for name, _ in headers):
        headers = (("Content-Type", options.content_type), *headers)
    if options.forward_incoming:
        headers = headers_over(headers, options.incoming)
    return shared(headers) if headers else headers


@lru_cache(maxsize=1024)
def shared(value: T) -> T:
    """The same value, as one object for all who have an equal one.

    Each request is read into objects of its own, and messages that wait differ in little.
    """
    return value


def policy_of(
    options: MessageOptions, *, max_retries: int, timeout_ms: int, queue: QueueName | None = None
) -> DeliveryPolicy:
    """How a message with these options is delivered; the keywords are what the account makes of the others."""
    return _policy(max_retries, timeout_ms, queue, _policy_options(options))


# By the values and not by the record: a publish that asks for nothing new makes none.
@lru_cache(maxsize=1024)
def _policy(max_retries: int, timeout_ms: int, queue: QueueName | None, asked: tuple[Any, ...]) -> DeliveryPolicy:
    own = dict(zip(_POLICY_OPTIONS, asked, strict=True))
    return DeliveryPolicy(max_retries=max_retries, timeout_ms=timeout_ms, queue=queue, **own)


def options_of(policy: DeliveryPolicy) -> MessageOptions:
    """The options that ask for a policy."""
    return MessageOptions(**asdict(policy))


def reused_options(options: MessageOptions, reuse: Reuse) -> MessageOptions:
    """Of some options those that hold for other messages of a run as well (`REUSE`)."""
    return MessageOptions(**{name: getattr(options, name) for name, places in REUSE.items() if reuse in places})


def first_delivery_ms(options: MessageOptions, now_ms: int) -> int:
    """The first delivery time. Not-before wins over a delay; one in the past means now (D-008)."""
    if options.not_before_ms is not None:
        return max(now_ms, options.not_before_ms)
    return now_ms + (options.delay_ms or 0)


def check_answer_is_heard(destination: Destination, options: MessageOptions) -> None:
    """What an API of the service answers goes to the callback, so there must be one (D-085). Raises InvalidInput."""
    if destination.kind is DestinationKind.API and options.callback is None:
        raise InvalidInput("Svc-Callback", f"expected a URL, where the answer of {destination.text} is sent")


# The options that a queue does not apply, each by its field, with the document's headers that set it (D-021).
_DELAYS = {"delay_ms": ("Svc-Delay",), "not_before_ms": ("Svc-Not-Before",)}
_FLOW_CONTROL = {"flow_control": ("Svc-Flow-Control-Key", "Svc-Flow-Control-Value")}


def ignored_by_queues(*, keeps_delay: bool) -> Mapping[str, tuple[str, ...]]:
    """The options that a queue does not apply: field -> headers. A schedule's messages keep their delay."""
    return _FLOW_CONTROL if keeps_delay else {**_DELAYS, **_FLOW_CONTROL}


def applied_in_a_queue(options: MessageOptions, *, keeps_delay: bool) -> MessageOptions:
    """The options as they hold for a queued message."""
    return replace(options, **dict.fromkeys(ignored_by_queues(keeps_delay=keeps_delay)))


def queue_of_a_run(options: MessageOptions, queue: QueueName | None) -> QueueName | None:
    """The queue that is named for a message of a run, and ignored: runs are in no queue (D-325)."""
    return None if options.workflow is None else queue or options.queue


def not_applied_in_a_queue(
    options: MessageOptions, queue: QueueName | None, *, keeps_delay: bool = False
) -> tuple[str, ...]:
    """Of the options that a queue does not apply, the header of each that was given. A delay of 0 is none.

    The queue is `queue`, or else that of the options; without any, every option is applied. A
    message of a run is in no queue (D-325).
    """
    if options.workflow is not None or (queue is None and options.queue is None):
        return ()
    given = replace(options, delay_ms=options.delay_ms or None)
    ignored = ignored_by_queues(keeps_delay=keeps_delay)
    return tuple(headers[0] for field, headers in ignored.items() if getattr(given, field) is not None)
