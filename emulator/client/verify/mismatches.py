"""The text of a failed `verify`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby, zip_longest
from textwrap import wrap
from typing import Any

from emulator.client.records import read_credentials
from emulator.client.session import Session
from emulator.client.verify.expectations import Expectation, counted, listed
from emulator.client.verify.matching import Candidate, Mismatch, Sent, check, likeness
from emulator.client.verify.timeline import WIDTH, Surroundings, deeds, pace, surroundings_of, timeline
from emulator.core.model.answers import Via
from emulator.core.rules.destination_rules import matches_url
from emulator.wire.durations import format_duration
from emulator.wire.instants import iso

# Rows of the timeline below a difference.
_ROWS = 16
_MAX_URLS = 5
# The longest difference that the first line shows.
_SHORT = 70
# The keywords that may be met later, as time passes.
_TIMELY = ("message_id", "url", "attempts", "at", "status", "outcome")


async def difference(session: Session, expectation: Expectation) -> str | None:
    """The text of a failed `verify`; None if the world meets the expectation."""
    deliveries = await session.deliveries()
    # Not the session's own, because another client may have rotated the keys.
    credentials = read_credentials(await session.control("GET", "credentials"))
    mismatch = check(expectation, deliveries, credentials, session.dialect)
    if mismatch is None:
        return None
    nearest = () if mismatch.nearest is None else mismatch.nearest.message.attempts
    return text_of(mismatch, await surroundings_of(session, deliveries, nearest))


def text_of(mismatch: Mismatch, surroundings: Surroundings) -> str:
    """A sentence; the nearest message and what differs; hints; the timeline around it."""
    nearest = mismatch.nearest
    parts = ["\n".join(_wrapped("", _sentence(mismatch)))]
    if nearest is not None:
        parts.append(_candidate(mismatch.expectation, nearest))
    hints = [*_hints(mismatch, surroundings), *surroundings.in_vain]
    parts += ["\n".join(_wrapped("", hint)) for hint in hints]
    messages = mismatch.fulfilled if nearest is None else (nearest.message,)
    marked = {message.last.message_id for message in messages}
    return "\n\n".join([*parts, timeline(surroundings, marked=marked, limit=_ROWS)])


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
    if "url" in nearest.findings:
        none = "no other" if found else "none"
        return f"{expected}; {none} went there, the {other} went to {nearest.message.last.url}."
    return f"{expected}; the {other} differs in {_differences(nearest)}."


def _differences(candidate: Candidate) -> str:
    names = listed(candidate.findings)
    [first, *others] = candidate.findings.values()
    [line, *more] = first
    return f"{names}: {line}" if not others and not more and len(line) <= _SHORT else names


# -- the nearest message ----------------------------------------------------------------------


def _candidate(expectation: Expectation, candidate: Candidate) -> str:
    last = candidate.message.last
    lines = [f"Nearest: {last.message_id}", *_wrapped("  ", _described(candidate.message)), ""]
    width = max(map(len, candidate.findings))
    for about, differences in candidate.findings.items():
        for label, line in zip_longest([about], differences, fillvalue=""):
            lines += _wrapped(f"  {label:{width}}  ", line)
    agreeing = [name for name in expectation.aspects if name not in candidate.findings]
    if agreeing:
        lines += ["", *_wrapped("  ", f"As expected: {listed(agreeing)}.")]
    return "\n".join(lines)


def _described(message: Sent) -> str:
    """`POST https://app.test/hook, made 2026-01-01T00:00:00.000Z, tried 2 times: 503, 200`."""
    last = message.last
    answers = ["no response" if each.response is None else str(each.response.status) for each in message.attempts]
    runs = [(answer, len([*equal])) for answer, equal in groupby(answers)]
    said = ", ".join(answer if count == 1 else f"{count} x {answer}" for answer, count in runs)
    made = f"made {iso(last.created_ms)}"
    return f"{last.method} {last.url}, {made}, {counted(len(answers), 'attempt')}: {said}"


# -- hints ------------------------------------------------------------------------------------


def _hints(mismatch: Mismatch, surroundings: Surroundings) -> Iterator[str]:
    nearest = mismatch.nearest
    if nearest is None and len(mismatch.fulfilled) > (mismatch.expectation.times or 0):
        return
    yield from _urls(mismatch, surroundings)
    if nearest is None or not nearest.findings.keys().isdisjoint(_TIMELY):
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
            what, at_ms = coming
            ahead_ms = at_ms - clock.now_ms
            yield (
                f"The clock is frozen at {iso(clock.now_ms)}, and {what} due in {format_duration(ahead_ms)}: "
                f"emulator.clock.advance({_argument(ahead_ms)})"
            )


def _next(mismatch: Mismatch, items: Sequence[Mapping[str, Any]]) -> tuple[str, int] | None:
    """The next due work that may be the expected, as a sentence names it, and its instant.

    That is of the nearest message, or goes to the wanted URL or to an unknown one.
    """
    url, nearest = mismatch.expectation.url, mismatch.nearest
    if nearest is not None and "url" not in nearest.findings:
        last = nearest.message.last
        for item in items:
            if item.get("message_id") == last.message_id:
                expected = [moment.since(last.created_ms) for moment in mismatch.expectation.at or ()]
                return "the nearest message is", max([item["at_ms"], *expected])
    for item in items:
        goes_to = item.get("url", item.get("destination"))
        if url is None or goes_to is None or "://" not in goes_to:
            return "the next work is", item["at_ms"]
        if matches_url(url, goes_to):
            return "the next message there is", item["at_ms"]
    return None


def _argument(duration_ms: int) -> str:
    """A duration as an argument of `advance`, which takes no fractions."""
    whole_ms, rest_ms = duration_ms // 1000 * 1000, duration_ms % 1000
    seconds = format_duration(whole_ms) if whole_ms or not rest_ms else ""
    return f'"{seconds}{f"{rest_ms}ms" if rest_ms else ""}"'


def _capture(nearest: Candidate) -> Iterator[str]:
    last = nearest.message.last
    if last.via is Via.CAPTURE and not nearest.findings.keys().isdisjoint(("attempts", "status", "outcome")):
        yield (
            "The destination is external, so the emulator captured the delivery and answered it by itself; "
            "a rule (emulator.destinations), emulator.mount or allow_host decides otherwise."
        )
