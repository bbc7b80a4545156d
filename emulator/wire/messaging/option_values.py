"""The options of one value: the field of MessageOptions, or of RunOptions, that each fills, and how its text is read.

Not shown in the interface document, and chosen: the forms of single values (D-073, D-088).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from emulator.core.errors import Malformed
from emulator.core.language import expressions
from emulator.core.language.text import excerpt
from emulator.core.model.options import CallType, Method
from emulator.core.record import QueueName, RunId
from emulator.wire import names, redaction, times, urls
from emulator.wire.names import parse_number
from emulator.wire.query_reader import choice

MAX_RETRIES_DIGITS = 10
# The last second of the year 9999, beyond which lies no date that other software could show.
MAX_NOT_BEFORE_S = 253_402_300_799

_BOOLEANS = {"true": True, "false": False}
_DIGITS = re.compile(r"[0-9]+")


def parse_boolean(text: str) -> bool:
    """`true` or `false` in any case, because clients write `True` too (D-073). Raises: Malformed."""
    value = _BOOLEANS.get(text.lower())
    if value is None:
        raise Malformed(f"expected true or false, got {excerpt(text)}")
    return value


def _parse_timeout_ms(text: str) -> int:
    timeout_ms = times.parse_seconds_or_duration_ms(text)
    if timeout_ms == 0:
        raise Malformed(f"expected a positive duration, got {excerpt(text)}")
    return timeout_ms


def _parse_retries(text: str) -> int:
    if not _DIGITS.fullmatch(text) or len(text) > MAX_RETRIES_DIGITS:
        raise Malformed(f"expected a number of at most {MAX_RETRIES_DIGITS} digits, 0 or more, got {excerpt(text)}")
    return int(text)


def _parse_labels(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names.parse_free_text(label.strip()) for label in text.split(",")))


def _parse_deduplication_id(text: str) -> str:
    if ":" in text:
        raise Malformed("DeduplicationId cannot contain ':'")
    return names.parse_free_text(text)


# By the suffix of the header.
VALUES: Mapping[str, tuple[str, Callable[[str], object]]] = {
    "method": ("method", choice({method.value: method for method in Method})),
    "header-forward": ("forward_incoming", parse_boolean),
    "delay": ("delay_ms", times.parse_duration_ms),
    "not-before": (
        "not_before_ms",
        lambda text: parse_number(text, "Unix seconds", 0, MAX_NOT_BEFORE_S, digits=15) * 1000,
    ),
    "timeout": ("timeout_ms", _parse_timeout_ms),
    "retries": ("max_retries", _parse_retries),
    "retry-delay": ("retry_delay", lambda text: expressions.parse(text).text),
    "label": ("labels", _parse_labels),
    "redact-fields": ("redaction", redaction.parse_redaction),
    "queue-name": ("queue", lambda text: QueueName(names.parse_name(text))),
    "deduplication-id": ("deduplication_id", _parse_deduplication_id),
    "content-based-deduplication": ("content_deduplication", parse_boolean),
}

RUN_ID = "workflow-runid"
_CALL_TYPES = {call_type.value.lower(): call_type for call_type in CallType}


def _parse_call_type(text: str) -> CallType:
    call_type = _CALL_TYPES.get(text.lower())
    if call_type is None:
        raise Malformed(f"expected one of {', '.join(CallType)}, got {excerpt(text)}")
    return call_type


UNKNOWN_SDK = "workflow-unknown-sdk"

# Those that make a message part of a workflow run: without the run's id all others say nothing, but in a trigger.
RUN_VALUES: Mapping[str, tuple[str, Callable[[str], object]]] = {
    RUN_ID: ("run_id", lambda text: RunId(names.parse_free_text(text))),
    "workflow-init": ("is_init", parse_boolean),
    "workflow-url": ("url", urls.parse_url),
    "workflow-calltype": ("call_type", _parse_call_type),
    "workflow-invoke": ("invokes", parse_boolean),
    "workflow-trigger-by-sdk": ("by_sdk", parse_boolean),
    UNKNOWN_SDK: ("unknown_sdk", parse_boolean),
    "feature-set": ("features", lambda text: tuple(part.strip() for part in text.split(",") if part.strip())),
}
