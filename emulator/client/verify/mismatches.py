"""The text of a failed `verify`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import Any

from emulator.client.records import Delivery, read_credentials
from emulator.client.session import Session
from emulator.client.verify.expectations import Expectation, counted, listed
from emulator.client.verify.matching import Candidate, Mismatch, Sent, check, likeness
from emulator.client.verify.timeline import WIDTH, deeds, explain_all, pace, timeline, worth_explaining
from emulator.core.model import Via
from emulator.core.rules.destination_rules import matches_url
from emulator.queries.reports import ClockStatus
from emulator.wire.durations import format_duration
from emulator.wire.instants import iso

# Rows of the timeline below a difference.
_ROWS = 16
_MAX_URLS = 5
# The longest difference that the first line shows.
_SHORT = 70
# The keywords that may be met later, as time passes.
_TIMELY = ("message_id", "url", "attempts", "at", "status", "outcome")


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """The world of a mismatch: all its deliveries, its clock, and the answer of `GET /_emulator/upcoming`.

    `explanations` holds the summary of `GET /_emulator/messages/{id}/explain` for the nearest message.
    """

    deliveries: Sequence[Delivery]
    clock: ClockStatus
    upcoming: Mapping[str, Any]
    explanations: Mapping[str, str]


async def difference(session: Session, expectation: Expectation) -> str | None:
    """The text of a failed `verify`; None if the world meets the expectation."""
    deliveries = await session.deliveries()
    # Not the session's own, because another client may have rotated the keys.
    credentials = read_credentials(await session.control("GET", "credentials"))
    mismatch = check(expectation, deliveries, credentials, session.dialect)
    if mismatch is None:
        return None
    upcoming = await session.control("GET", "upcoming")
    nearest = () if mismatch.nearest is None else mismatch.nearest.message.attempts
    surroundings = Surroundings(
        deliveries=deliveries,
        clock=await session.clock(),
        upcoming=upcoming,
        explanations=await explain_all(session, worth_explaining(nearest, upcoming)),
    )
    return text_of(mismatch, surroundings)


def text_of(mismatch: Mismatch, surroundings: Surroundings) -> str:
    """A sentence; the nearest message and what differs; hints; the timeline around it."""
    nearest = mismatch.nearest
    parts = ["\n".join(_wrapped("", _sentence(mismatch)))]
    if nearest is not None:
        parts.append(_candidate(mismatch.expectation, nearest))
    parts += ["\n".join(_wrapped("", hint)) for hint in _hints(mismatch, surroundings)]
    messages = mismatch.fulfilled if nearest is None else (nearest.message,)
    parts.append(
        timeline(
            surroundings.deliveries,
            clock=surroundings.clock,
            upcoming=surroundings.upcoming,
            explanations=surroundings.explanations,
            marked={message.last.message_id for message in messages},
            limit=_ROWS,
        )
    )
    return "\n\n".join(parts)


def _wrapped(head: str, text: str) -> list[str]:
    """The text after a head, wrapped to the width; a head indents the lines that follow."""
    hanging = " " * (len(head) + 2) if head else ""
    return wrap(text, WIDTH, initial_indent=head, subsequent_indent=hanging, break_on_hyphens=False)


# -- the sentence -----------------------------------------------------------------------------


def _sentence(mismatch: Mismatch) -> str:
    found, nearest = len(mismatch.fulfilled), mismatch.nearest
    expected = f"Expected {mismatch.expectation}"
    if mismatch.expectation.times is not None:
        expected += f", found {found}"
        if found > mismatch.expectation.times:
            return f"{expected}."
    if nearest is None:
        return f"{expected}; nothing {'else ' if found else ''}has been delivered."
    other = "nearest other one" if found else "nearest"
    if nearest.lacks("url"):
        return (
            f"{expected}; {'no other' if found else 'none'} went there, the {other} went to {nearest.message.last.url}."
        )
    return f"{expected}; the {other} differs in {_differences(nearest)}."


def _differences(candidate: Candidate) -> str:
    names = listed(finding.about for finding in candidate.findings)
    [first, *others] = candidate.findings
    [line, *more] = first.lines
    return f"{names}: {line}" if not others and not more and len(line) <= _SHORT else names


# -- the nearest message ----------------------------------------------------------------------


def _candidate(expectation: Expectation, candidate: Candidate) -> str:
    last = candidate.message.last
    lines = [f"Nearest: {last.message_id}", *_wrapped("  ", _described(candidate.message)), ""]
    labels = [finding.about for finding in candidate.findings]
    width = max(map(len, labels))
    for finding in candidate.findings:
        label = finding.about
        for line in finding.lines:
            lines += _wrapped(f"  {label:{width}}  ", line)
            label = ""
    agreeing = [name for name in expectation.aspects if not candidate.lacks(name)]
    if agreeing:
        lines += ["", *_wrapped("  ", f"As expected: {listed(agreeing)}.")]
    return "\n".join(lines)


def _described(message: Sent) -> str:
    """`POST https://app.test/hook, made 2026-01-01T00:00:00.000Z, tried 2 times: 503, 200`."""
    last = message.last
    answers = ["no response" if each.response is None else str(each.response.status) for each in message.attempts]
    runs: list[tuple[str, int]] = []
    for answer in answers:
        if runs and runs[-1][0] == answer:
            runs[-1] = (answer, runs[-1][1] + 1)
        else:
            runs.append((answer, 1))
    said = ", ".join(answer if count == 1 else f"{count} x {answer}" for answer, count in runs)
    made = f"made {iso(last.created_ms)}"
    return f"{last.method} {last.url}, {made}, {counted(len(answers), 'attempt')}: {said}"


# -- hints ------------------------------------------------------------------------------------


def _hints(mismatch: Mismatch, surroundings: Surroundings) -> Iterator[str]:
    nearest = mismatch.nearest
    if nearest is None and len(mismatch.fulfilled) > (mismatch.expectation.times or 0):
        return
    yield from _urls(mismatch, surroundings)
    if nearest is None or any(nearest.lacks(name) for name in _TIMELY):
        yield from _time(mismatch, surroundings)
    if nearest is not None:
        yield from _capture(nearest)


def _urls(mismatch: Mismatch, surroundings: Surroundings) -> Iterator[str]:
    """Where messages went instead."""
    wanted = mismatch.expectation.url
    messages = Counter({delivery.message_id: delivery.url for delivery in surroundings.deliveries}.values())
    if wanted is None or len(messages) < 2 or any(matches_url(wanted, url) for url in messages):
        return
    alike = sorted(messages, key=lambda url: (-likeness(wanted, url), url))
    listing = [f"{url} ({counted(messages[url], 'message')})" for url in alike[:_MAX_URLS]]
    if len(alike) > len(listing):
        listing.append(f"and to {counted(len(alike) - len(listing), 'other URL')}")
    yield f"Delivered to: {', '.join(listing)}."


def _time(mismatch: Mismatch, surroundings: Surroundings) -> Iterator[str]:
    """What to do so that time passes."""
    clock, items, waiting = surroundings.clock, deeds(surroundings.upcoming), surroundings.upcoming["waiting"]
    if not items and not waiting and not surroundings.deliveries:
        yield (
            "Nothing is waiting either. Was it published to this world? Its address and token are "
            "emulator.url and emulator.token, as in emulator.env."
        )
    elif clock.rate:
        if items or waiting:
            yield f"The clock goes {pace(clock.rate)}: emulator.wait_for(...) waits for what is still to come."
    elif any(entry["kind"] == "attempt" for entry in waiting):
        yield "An attempt is still under way: emulator.clock.advance(0) returns when it has ended."
    else:
        coming = _next(mismatch, items)
        if coming is not None:
            ahead_ms = coming.at_ms - clock.now_ms
            yield (
                f"The clock is frozen at {iso(clock.now_ms)}, and {coming.what} due in {format_duration(ahead_ms)}: "
                f"emulator.clock.advance({_argument(ahead_ms)})"
            )


@dataclass(frozen=True, slots=True)
class _Coming:
    """Due work as a sentence names it, and its instant."""

    what: str
    at_ms: int


def _next(mismatch: Mismatch, items: Sequence[Mapping[str, Any]]) -> _Coming | None:
    """The next due work that may be the expected: of the nearest message, to its URL, or without a known URL."""
    url, nearest = mismatch.expectation.url, mismatch.nearest
    if nearest is not None and not nearest.lacks("url"):
        last = nearest.message.last
        for item in items:
            if item.get("message_id") == last.message_id:
                expected = [moment.since(last.created_ms) for moment in mismatch.expectation.at or ()]
                return _Coming("the nearest message is", max([item["at_ms"], *expected]))
    for item in items:
        goes_to = item.get("url", item.get("destination"))
        if url is None or goes_to is None or "://" not in goes_to:
            return _Coming("the next work is", item["at_ms"])
        if matches_url(url, goes_to):
            return _Coming("the next message there is", item["at_ms"])
    return None


def _argument(duration_ms: int) -> str:
    """A duration as an argument of `advance`, which takes no fractions."""
    return str(duration_ms) if duration_ms % 1000 else f'"{format_duration(duration_ms)}"'


def _capture(nearest: Candidate) -> Iterator[str]:
    last = nearest.message.last
    if last.via is Via.CAPTURE and any(nearest.lacks(name) for name in ("attempts", "status", "outcome")):
        yield (
            "The destination is external, so the emulator captured the delivery and answered it by itself; "
            "a rule (emulator.destinations), emulator.mount or allow_host decides otherwise."
        )
