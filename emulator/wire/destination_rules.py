"""Destination rules as users write them. How they are shown again: `control/destinations.py`."""

from __future__ import annotations

import re
from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Mapping, Sequence
from urllib.parse import urlsplit

from emulator.core.errors import InvalidInput
from emulator.core.language.text import excerpt
from emulator.core.model.options import Method
from emulator.core.model.resources import DestinationRule, Fault, ScriptedResponse
from emulator.core.record import Headers, Record, RuleId
from emulator.wire.json_reader import (
    Fields,
    Json,
    encoded_text,
    integer,
    kind_of,
    one_of,
    read_choice,
    read_duration_ms,
    read_list,
    read_text,
)

# More than any message has attempts (D-792).
_MAX_RESPONSES = 1_000
_ANSWERS = ("respond", "sequence", "forward_to", "fault")
# What a rule may do beside an answer, or without one (D-420).
_DISTURBANCES = ("latency", "duplicate", "reorder")
_MARK = re.compile(r"[1-9][0-9]{0,14}\.[1-9][0-9]{0,14}")

_HEADER_NAME = re.compile(r"[-!#$%&'*+.^_`|~0-9A-Za-z]+")
# What HTTP allows in a value: visible characters, blanks and tabs, and bytes beyond ASCII.
_HEADER_VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")


def read_rule(value: Json) -> DestinationRule:
    """A destination rule as the control API and fixtures write it; its id is left empty.

    Raises: InvalidInput, whose field is the path of the value at fault.
    """
    given = Fields(value, "", ("match", *_ANSWERS, *_DISTURBANCES, "times", "chance", "except"))
    match = given.need(
        "match",
        lambda match, path: Fields(match, path, ("url", "method")),
        'missing, expected an object such as {"url": "https://api.example.com/*"}',
    )
    url = match.need("url", _read_pattern, "missing, expected a URL, or a glob in which * matches any characters")
    method = match.get("method", _read_method, None)
    answers = [key for key in _ANSWERS if key in given]
    duplicate_ms = given.get("duplicate", _read_duration_or_flag, None)
    reorder_ms = given.get("reorder", _read_duration_or_flag, None)
    disturbs = "latency" in given or duplicate_ms is not None or reorder_ms is not None
    if len(answers) != 1 and (answers or not disturbs):
        found = " and ".join(answers) or "none"
        raise InvalidInput(
            answers[1] if answers else "respond", f"expected exactly one of {', '.join(_ANSWERS)}, got {found}"
        )
    responses = given.get("sequence", _read_sequence, ())
    if "respond" in given:
        responses = (given.need("respond", _read_response),)
    forward_to, fault = given.get("forward_to", _read_url_origin, None), given.get("fault", one_of(Fault), None)
    if "latency" in given and responses:
        raise InvalidInput("latency", f"expected inside {answers[0]}, beside status")
    latency = given.get("latency", _read_latency, _NO_LATENCY)
    return DestinationRule(
        rule_id=RuleId(""),
        url=url,
        method=method,
        responses=responses,
        forward_to=forward_to,
        fault=fault,
        latency_ms=latency.least_ms,
        latest_ms=latency.most_ms,
        times=given.get("times", integer(1), None),
        is_sequence="sequence" in given,
        chance=given.get("chance", read_probability, None),
        duplicate_ms=duplicate_ms,
        reorder_ms=reorder_ms,
        exempt_attempts=given.get("except", read_exempt_attempts, ()),
    )


def read_rule_order(value: Json) -> tuple[RuleId, ...]:
    """The ids of rules, the first to be tried first. Raises: InvalidInput."""
    ids = Fields(value, "", ("ids",)).need("ids", read_list, "missing, expected the ids of all rules in order")
    return tuple(RuleId(read_text(each, f"ids[{index}]")) for index, each in enumerate(ids))


_SCHEMES = ("http://", "https://")


def _read_pattern(value: Json, path: str) -> str:
    """A URL or a glob that some URL can match: every destination begins with its scheme (D-329)."""
    pattern = read_text(value, path)
    beginning, glob, _ = pattern.lower().partition("*")
    if not any(beginning.startswith(scheme) or (glob and scheme.startswith(beginning)) for scheme in _SCHEMES):
        raise InvalidInput(
            path, f"expected to begin with http:// or https://, or with * for any characters, got {excerpt(pattern)}"
        )
    return pattern


def _read_method(value: Json, path: str) -> Method:
    name = value.upper() if isinstance(value, str) else value
    return Method(read_choice(name, path, tuple(Method)))


def _read_sequence(value: Json, path: str) -> tuple[ScriptedResponse, ...]:
    items = read_list(value, path)
    if not items:
        raise InvalidInput(path, "expected at least one response")
    if len(items) > _MAX_RESPONSES:
        raise InvalidInput(path, f"expected at most {_MAX_RESPONSES} responses, got {len(items)}")
    return tuple(_read_response(item, f"{path}[{index}]") for index, item in enumerate(items))


def _read_response(value: Json, path: str) -> ScriptedResponse:
    given = Fields(value, path, ("status", "headers", "body", "body_base64", "latency"))
    # Statuses below 200 announce an answer and are none.
    status = given.get("status", integer(200, 599), 200)
    headers = given.get("headers", _read_headers, ())
    if "body" in given and "body_base64" in given:
        raise InvalidInput(given.at("body_base64"), "expected only one of body and body_base64")
    body = given.get("body", encoded_text, b"")
    latency = given.get("latency", _read_latency, _NO_LATENCY)
    return ScriptedResponse(
        status=status,
        headers=headers,
        body=given.get("body_base64", _read_base64, body),
        latency_ms=latency.least_ms,
        latest_ms=latency.most_ms,
    )


class _Latency(Record):
    """A latency, or with `most_ms` a range of them."""

    least_ms: int = 0
    most_ms: int | None = None


_NO_LATENCY = _Latency()


def _read_latency(value: Json, path: str) -> _Latency:
    """A duration, or `{"min": ..., "max": ...}`."""
    if not isinstance(value, Mapping):
        return _Latency(least_ms=read_duration_ms(value, path))
    given = Fields(value, path, ("min", "max"))
    least_ms = given.get("min", read_duration_ms, 0)
    most_ms = given.need("max", read_duration_ms, "missing, expected the longest latency, such as 2s")
    if most_ms < least_ms:
        raise InvalidInput(given.at("max"), "expected at least min")
    return _Latency(least_ms=least_ms, most_ms=most_ms)


def _read_duration_or_flag(value: Json, path: str) -> int | None:
    """How much later at most; true for the same instant, false is as if it were not given."""
    if isinstance(value, bool):
        return 0 if value else None
    return read_duration_ms(value, path)


def read_probability(value: Json, path: str) -> float:
    """A number from 0 to 1. Raises: InvalidInput."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise InvalidInput(path, "expected a number from 0 (never) to 1 (always)")
    return float(value)


def read_exempt_attempts(value: Json, path: str) -> tuple[str, ...]:
    """Attempts that a rule never meets, each as the `chaos` of a delivery names it. Raises: InvalidInput."""
    marks = read_list(value, path)
    for index, mark in enumerate(marks):
        if not isinstance(mark, str) or not _MARK.fullmatch(mark):
            raise InvalidInput(f"{path}[{index}]", 'expected an attempt such as "3.1", the first of the third message')
    return tuple(str(mark) for mark in marks)


def _read_headers(value: Json, path: str) -> Headers:
    if not isinstance(value, Mapping):
        raise InvalidInput(path, f"expected an object, got {kind_of(value)}")
    headers: list[tuple[str, str]] = []
    for name, given in value.items():
        at = f"{path}.{name}"
        if not _HEADER_NAME.fullmatch(name):
            raise InvalidInput(at, "is not the name of a header")
        values = given if isinstance(given, Sequence) and not isinstance(given, str) else [given]
        for text in values:
            if not isinstance(text, str):
                raise InvalidInput(at, f"expected a text, or a list of texts, got {kind_of(text)}")
            if not _HEADER_VALUE.fullmatch(text):
                raise InvalidInput(at, "expected a header's value in one line")
            headers.append((name, text))
    return tuple(headers)


def _read_base64(value: Json, path: str) -> bytes:
    if not isinstance(value, str):
        raise InvalidInput(path, f"expected base64 text, got {kind_of(value)}")
    try:
        return b64decode(value.encode("ascii"), validate=True)
    except (UnicodeEncodeError, Base64Error):
        raise InvalidInput(path, "expected base64 text in the standard alphabet, padded") from None


def _read_url_origin(value: Json, path: str) -> str:
    """Where to send instead: scheme, host and port. Path and query stay those of the destination."""
    text = read_text(value, path)
    expected = "expected an origin such as http://127.0.0.1:3000, without path or query"
    try:
        parts = urlsplit(text)
        is_origin = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        raise InvalidInput(path, expected) from None
    if not is_origin or parts.path not in ("", "/") or parts.query or parts.fragment or "@" in parts.netloc:
        raise InvalidInput(path, expected)
    return text
