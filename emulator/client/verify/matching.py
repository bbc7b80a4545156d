"""Whether messages were delivered as a test expects, and which of the others comes nearest.

Which of a message's attempts an expectation speaks of: D-250.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice, zip_longest
from typing import Any, TypeAlias

from emulator.client.records import Delivery, Dialect
from emulator.client.verify.differences import (
    bytes_difference,
    first_difference,
    json_differences,
    shown,
    text_difference,
)
from emulator.client.verify.expectations import Expectation, HeaderValue, Key, Moment, counted
from emulator.client.verify.signatures import problem_with_signature
from emulator.core.language.spelling import near
from emulator.core.rules.destination_rules import matches_url
from emulator.queries.reports import Credentials
from emulator.wire.durations import format_duration
from emulator.wire.instants import iso

# Of the lines about one keyword, the first are enough.
_MAX_LINES = 12

# A value of an attempt, and the text that shows it.
_Shown: TypeAlias = tuple[int | None, str]


@dataclass(frozen=True, slots=True)
class Sent:
    """A message with its attempts so far, at least one."""

    attempts: tuple[Delivery, ...]

    @property
    def first(self) -> Delivery:
        return self.attempts[0]

    @property
    def last(self) -> Delivery:
        return self.attempts[-1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A message and how it differs from the expectation: lines by the keyword. One without findings meets it."""

    message: Sent
    findings: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Mismatch:
    """An expectation that is not met: the messages that are as expected, and the nearest of the others.

    There is no nearest one if there are no others, or if too many are as expected.
    """

    expectation: Expectation
    fulfilled: tuple[Sent, ...]
    nearest: Candidate | None


def check(
    expectation: Expectation, deliveries: Sequence[Delivery], credentials: Credentials, dialect: Dialect
) -> Mismatch | None:
    """Whether the messages of a world are as expected; None if they are.

    `deliveries` are all that its journal holds, whatever their URL, in any order; `credentials`
    those that are valid now.
    """
    candidates = [
        Candidate(message=message, findings=dict(_findings(expectation, message, credentials, dialect)))
        for message in _messages(deliveries)
    ]
    fulfilled = tuple(candidate.message for candidate in candidates if not candidate.findings)
    is_met = bool(fulfilled) if expectation.times is None else len(fulfilled) == expectation.times
    if is_met:
        return None
    are_too_many = expectation.times is not None and len(fulfilled) > expectation.times
    others = [] if are_too_many else [candidate for candidate in candidates if candidate.findings]
    # Of equally near ones the latest, which the test has probably just caused.
    nearest = min(reversed(others), key=lambda candidate: _distance(expectation, candidate), default=None)
    return Mismatch(expectation=expectation, fulfilled=fulfilled, nearest=nearest)


def likeness(wanted: str, url: str) -> float:
    """How much two URLs begin and end alike, 1 if they are the same."""
    head = first_difference(wanted, url)
    tail = first_difference(wanted[head:][::-1], url[head:][::-1])
    return (head + tail) / max(len(wanted), len(url), 1)


def _messages(deliveries: Sequence[Delivery]) -> list[Sent]:
    """The messages in the order in which they were first tried."""
    found: dict[str, list[Delivery]] = {}
    for delivery in sorted(deliveries, key=lambda delivery: (delivery.at_ms, delivery.seq)):
        found.setdefault(delivery.message_id, []).append(delivery)
    return [Sent(tuple(attempts)) for attempts in found.values()]


def _distance(expectation: Expectation, candidate: Candidate) -> tuple[bool, float, int, int]:
    """A sort key: another message or another URL counts for more than any difference of content."""
    unlike = 0.0
    if "url" in candidate.findings and expectation.url is not None:
        unlike = 1.0 - likeness(expectation.url, candidate.message.last.url) / 2
    lines = sum(map(len, candidate.findings.values()))
    return "message_id" in candidate.findings, unlike, len(candidate.findings), lines


# Yields how a message differs from the value of one keyword.
_Check: TypeAlias = Callable[[Any, Sent], Iterator[str]]


# -- one message ------------------------------------------------------------------------------


def _findings(
    expectation: Expectation, message: Sent, credentials: Credentials, dialect: Dialect
) -> Iterator[tuple[str, tuple[str, ...]]]:
    checks: dict[str, _Check] = {
        **_CHECKS,
        "signed_with": partial(_signed_with, credentials=credentials, dialect=dialect),
    }
    for about in expectation.aspects:
        lines = checks[about](getattr(expectation, about), message)
        shown_lines = tuple(islice(lines, _MAX_LINES))
        if shown_lines:
            more = sum(1 for _ in lines)
            yield about, (*shown_lines, f"... {more} more") if more else shown_lines


def _plain(wanted: str, got: str, fits: Callable[[str, str], bool] = operator.eq) -> Iterator[str]:
    if not fits(wanted, got):
        yield f"expected {wanted}, got {got}"


def _attempts(wanted: int, message: Sent) -> Iterator[str]:
    got = len(message.attempts)
    if got != wanted:
        first = message.first.attempt
        lost = f" (the journal begins with attempt {first}: it was cleared)" if first > 1 else ""
        yield f"expected {wanted}, got {got}{lost}"


def _each_attempt(verb: str, wanted: Sequence[_Shown], got: Sequence[_Shown]) -> Iterator[str]:
    """Lines for the attempts that differ; each value comes with its text."""
    for number, (expected, found) in enumerate(zip_longest(wanted, got), 1):
        if expected is None:
            yield f"attempt {number}: unexpected, {verb} {found[1]}"
        elif found is None:
            yield f"attempt {number}: expected {expected[1]}, not made so far"
        elif expected[0] != found[0]:
            yield f"attempt {number}: expected {expected[1]}, {verb} {found[1]}"


def _at(moments: Sequence[Moment], message: Sent) -> Iterator[str]:
    created_ms = message.first.created_ms
    wanted = [(moment.since(created_ms), _both(moment, created_ms)) for moment in moments]
    began = [each.at_ms for each in message.attempts]
    shown_began = [(at_ms, f"+{format_duration(at_ms - created_ms)} ({iso(at_ms)})") for at_ms in began]
    return _each_attempt("began", wanted, shown_began)


def _both(moment: Moment, created_ms: int) -> str:
    """A moment as it was given, and in the other way."""
    instant_ms = moment.since(created_ms)
    other = f"+{format_duration(instant_ms - created_ms)}" if moment.absolute else iso(instant_ms)
    return f"{moment} ({other})"


def _status(wanted: int | tuple[int | None, ...], message: Sent) -> Iterator[str]:
    last = message.last
    if isinstance(wanted, tuple):
        shown_wanted = [(status, "no response" if status is None else str(status)) for status in wanted]
        yield from _each_attempt("got", shown_wanted, [(each.status, _answer(each)) for each in message.attempts])
    elif last.status != wanted:
        which = "" if len(message.attempts) == 1 else f" for attempt {last.attempt}, the last so far"
        yield f"expected {wanted}, got {_answer(last)}{which}"


def _answer(delivery: Delivery) -> str:
    return f"no response ({delivery.error})" if delivery.response is None else str(delivery.response.status)


def _outcome(wanted: str, message: Sent) -> Iterator[str]:
    if message.last.succeeded is not (wanted == "succeeded"):
        yield f"expected {wanted}, but attempt {message.last.attempt} got {_answer(message.last)}"


def _body(wanted: bytes, message: Sent) -> Iterator[str]:
    if message.last.body != wanted:
        yield bytes_difference(wanted, message.last.body)


def _body_json(wanted: Any, message: Sent) -> Iterator[str]:
    try:
        got = message.last.json()
    except (ValueError, RecursionError):
        body = message.last.body
        yield "expected JSON, got an empty body" if not body else f"expected JSON, got {shown(message.last.text)}"
        return
    yield from json_differences(wanted, got)


def _headers(expected: Sequence[tuple[str, HeaderValue]], message: Sent) -> Iterator[str]:
    headers = message.last.headers
    for name, wanted in expected:
        values = headers.get_list(name)
        # Several headers of one name mean the same as one with all values, between commas.
        if values and wanted is not None and any(_fits(wanted, each) for each in (*values, ", ".join(values))):
            continue
        if values:
            yield _unfit(name, wanted, ", ".join(values))
        elif wanted is not None:
            sent = [raw.decode("latin-1") for raw, _ in headers.raw]
            hint = "".join(f"; did you mean {each}?" for each in near(name, sent))
            yield f"{name}: missing, expected {_wanted(wanted)}{hint}"


def _fits(wanted: str | re.Pattern[str], value: str) -> bool:
    return wanted.search(value) is not None if isinstance(wanted, re.Pattern) else wanted == value


def _unfit(name: str, wanted: HeaderValue, value: str) -> str:
    match wanted:
        case None:
            return f"{name}: expected none, got {shown(value)}"
        case str():
            return f"{name}: {text_difference(wanted, value)}"
        case _:
            return f"{name}: expected {_wanted(wanted)}, got {shown(value)}"


def _wanted(wanted: str | re.Pattern[str]) -> str:
    return f"a value with {wanted.pattern!r} in it" if isinstance(wanted, re.Pattern) else shown(wanted)


def _signed_with(wanted: Key, message: Sent, *, credentials: Credentials, dialect: Dialect) -> Iterator[str]:
    problems = [
        (f"attempt {each.attempt}", problem_with_signature(each, wanted, credentials, dialect))
        for each in message.attempts
    ]
    if len(problems) > 1 and len({problem for _, problem in problems}) == 1:
        problems = [(f"all {counted(len(problems), 'attempt')}", problems[0][1])]
    for which, problem in problems:
        if problem is not None:
            yield problem if len(message.attempts) == 1 else f"{which}: {problem}"


_CHECKS: dict[str, _Check] = {
    "message_id": lambda wanted, message: _plain(wanted, message.last.message_id),
    "url": lambda wanted, message: _plain(wanted, message.last.url, matches_url),
    "method": lambda wanted, message: _plain(wanted, message.last.method),
    "attempts": _attempts,
    "at": _at,
    "status": _status,
    "outcome": _outcome,
    "body": _body,
    "body_json": _body_json,
    "headers": _headers,
}
