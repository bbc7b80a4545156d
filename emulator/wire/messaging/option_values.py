"""The options of one value: the field of MessageOptions that each fills, and how its text is read.

Not shown in the interface document, and chosen: the forms of single values (D-073, D-088).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from emulator.core.errors import Malformed
from emulator.core.language import expressions
from emulator.core.language.excerpts import excerpt
from emulator.core.model.names import QueueName
from emulator.core.model.options import Method
from emulator.wire import durations, names, redaction
from emulator.wire.fields import parse_number

MAX_RETRIES_DIGITS = 10
# The last second of the year 9999, beyond which lies no date that other software could show.
MAX_NOT_BEFORE_S = 253_402_300_799

_METHODS = {method.value: method for method in Method}
_BOOLEANS = {"true": True, "false": False}
_DIGITS = re.compile(r"[0-9]+")


def _parse_method(text: str) -> Method:
    method = _METHODS.get(text.upper())
    if method is None:
        raise Malformed(f"expected one of {', '.join(_METHODS)}, got {excerpt(text)}")
    return method


def parse_boolean(text: str) -> bool:
    """`true` or `false` in any case, because clients write `True` too (D-073). Raises: Malformed."""
    value = _BOOLEANS.get(text.lower())
    if value is None:
        raise Malformed(f"expected true or false, got {excerpt(text)}")
    return value


def _parse_not_before_ms(text: str) -> int:
    """Unix seconds in, milliseconds out."""
    return parse_number(text, "Unix seconds", 0, MAX_NOT_BEFORE_S, digits=15) * 1000


def _parse_timeout_ms(text: str) -> int:
    timeout_ms = durations.parse_seconds_or_duration_ms(text)
    if timeout_ms == 0:
        raise Malformed(f"expected a positive duration, got {excerpt(text)}")
    return timeout_ms


def _parse_retries(text: str) -> int:
    if not _DIGITS.fullmatch(text) or len(text) > MAX_RETRIES_DIGITS:
        raise Malformed(f"expected a number of at most {MAX_RETRIES_DIGITS} digits, 0 or more, got {excerpt(text)}")
    return int(text)


def _parse_retry_delay(text: str) -> str:
    return expressions.parse(text).text


def _parse_labels(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names.parse_free_text(label.strip()) for label in text.split(",")))


def _parse_queue_name(text: str) -> QueueName:
    return QueueName(names.parse_name(text))


def _parse_deduplication_id(text: str) -> str:
    if ":" in text:
        raise Malformed("DeduplicationId cannot contain ':'")
    return names.parse_free_text(text)


# By the suffix of the header.
VALUES: Mapping[str, tuple[str, Callable[[str], object]]] = {
    "method": ("method", _parse_method),
    "header-forward": ("forward_incoming", parse_boolean),
    "delay": ("delay_ms", durations.parse_duration_ms),
    "not-before": ("not_before_ms", _parse_not_before_ms),
    "timeout": ("timeout_ms", _parse_timeout_ms),
    "retries": ("max_retries", _parse_retries),
    "retry-delay": ("retry_delay", _parse_retry_delay),
    "label": ("labels", _parse_labels),
    "redact-fields": ("redaction", redaction.parse_redaction),
    "queue-name": ("queue", _parse_queue_name),
    "deduplication-id": ("deduplication_id", _parse_deduplication_id),
    "content-based-deduplication": ("content_deduplication", parse_boolean),
}
