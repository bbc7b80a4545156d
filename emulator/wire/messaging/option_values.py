"""The options of one value: the field of MessageOptions that each fills, and how its text is read.

Not shown in the interface document, and chosen: the forms of single values (D-073, D-088).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Protocol, TypeVar

from emulator.core.errors import Malformed
from emulator.core.language import expressions
from emulator.core.language.text import excerpt
from emulator.core.model.options import CallType, Method, RunOptions
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


# -- options of runs: the headers that make a message part of a workflow run -------------------
# Without an id of a run all others say nothing. Unknown workflow headers are ignored.

T = TypeVar("T")

RUN_ID = "workflow-runid"
_INIT = "workflow-init"
_URL = "workflow-url"
_CALL_TYPE = "workflow-calltype"
_INVOKE = "workflow-invoke"
_BY_SDK = "workflow-trigger-by-sdk"
_FEATURES = "feature-set"
KEYS = (RUN_ID, _INIT, _URL, _CALL_TYPE, _INVOKE, _BY_SDK, _FEATURES)

_CALL_TYPES = {call_type.value.lower(): call_type for call_type in CallType}


class ReadOption(Protocol):
    """Reads an option by its key; None without one, InvalidInput naming it for a wrong one."""

    def __call__(self, key: str, parse: Callable[[str], T]) -> T | None: ...


def read(texts: Mapping[str, str], read_option: ReadOption) -> RunOptions:
    """What the workflow headers say of a message that names a run. Raises InvalidInput naming the header."""
    run_id = read_option(RUN_ID, parse_run_id)
    assert run_id is not None
    features = texts.get(_FEATURES, "").split(",")
    return RunOptions(
        run_id=run_id,
        is_init=read_option(_INIT, parse_boolean) or False,
        url=read_option(_URL, urls.parse_url),
        call_type=read_option(_CALL_TYPE, _parse_call_type) or CallType.STEP,
        invokes=read_option(_INVOKE, parse_boolean) or False,
        by_sdk=read_option(_BY_SDK, parse_boolean) or False,
        features=tuple(feature.strip() for feature in features if feature.strip()),
    )


def parse_run_id(text: str) -> RunId:
    """The id of a run: any name. Raises: Malformed."""
    return RunId(names.parse_free_text(text))


def _parse_call_type(text: str) -> CallType:
    call_type = _CALL_TYPES.get(text.lower())
    if call_type is None:
        raise Malformed(f"expected one of {', '.join(CallType)}, got {excerpt(text)}")
    return call_type
