"""Names and identifiers that clients choose: of queues, URL groups, schedules and flow control keys.

Source: interface document, "Errors" (scheduleId and queue name). That URL group names follow the
same rule, and that no name or key is longer than 256 characters, is chosen (D-076).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeVar
from urllib.parse import unquote_to_bytes

from emulator.core.errors import InvalidInput, Malformed
from emulator.core.language.text import excerpt
from emulator.core.record import FlowKey, GroupName, QueueName, ScheduleId

MAX_LENGTH = 256

_NAME = re.compile(r"[A-Za-z0-9_.-]{1,256}")


def is_name(text: str) -> bool:
    """Whether a text consists of letters, digits, hyphens, underscores and periods, 1 to 256 of them."""
    return _NAME.fullmatch(text) is not None


def parse_name(text: str) -> str:
    """A name by the rule for queues, URL groups and schedules. Raises: Malformed."""
    if not is_name(text):
        raise Malformed(
            f"expected 1 to {MAX_LENGTH} letters, digits, hyphens, underscores or periods, got {excerpt(text)}"
        )
    return text


def parse_free_text(text: str) -> str:
    """A label, a flow control key or an identifier without a grammar of its own. Raises: Malformed."""
    if not 1 <= len(text) <= MAX_LENGTH or not text.isprintable():
        raise Malformed(f"expected 1 to {MAX_LENGTH} printable characters, got {excerpt(text)}")
    return text


def read_queue_name(text: str, *, field: str = "queueName") -> QueueName:
    """The queue named in a path or a body. Raises: InvalidInput naming `field`."""
    return QueueName(read_field(field, text, parse_name))


def read_schedule_id(text: str) -> ScheduleId:
    """The schedule named in a path. Raises: InvalidInput."""
    return ScheduleId(read_field("scheduleId", text, parse_name))


def read_group_name(text: str) -> GroupName:
    """The URL group named in a path. Raises: InvalidInput."""
    return GroupName(read_field("url_group_name", text, parse_name))


def read_flow_key(raw_segment: str) -> FlowKey:
    """The flow control key in a raw path: free text, and so percent-encoded there. Raises: InvalidInput."""
    return FlowKey(read_field("flowControlKey", raw_segment, _parse_raw_free_text))


def _parse_raw_free_text(raw: str) -> str:
    try:
        text = unquote_to_bytes(raw.encode("latin-1", "replace")).decode()
    except UnicodeDecodeError:
        raise Malformed(f"expected percent-encoded UTF-8, got {excerpt(raw)}") from None
    return parse_free_text(text)


# -- parsing a named value: a refusal names the field -----------------------------------------

V = TypeVar("V")
T = TypeVar("T")


def read_field(name: str, value: V, parse: Callable[[V], T]) -> T:
    """The parsed value. Raises: InvalidInput that names the field of a malformed one."""
    try:
        return parse(value)
    except Malformed as malformed:
        raise InvalidInput(name, malformed.reason) from None


def parse_number(text: str, what: str, least: int, most: int, *, digits: int) -> int:
    """A number in plain digits, at most so many of them. Raises: Malformed, which says what was expected."""
    if not (text.isascii() and text.isdigit()) or len(text) > digits or not least <= int(text) <= most:
        raise Malformed(f"expected {what} from {least} to {most}, got {excerpt(text)}")
    return int(text)
