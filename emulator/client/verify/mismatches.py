"""The text of a failed `verify`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby, zip_longest
from textwrap import wrap
from typing import Any

from emulator.client.errors import HistoryNotKept
from emulator.client.records import Delivery, Journal, read_credentials
from emulator.client.resources import MessageStatus
from emulator.client.session import Session
from emulator.client.verify.expectations import Expectation, counted, listed
from emulator.client.verify.matching import Candidate, Mismatch, Sent, check, likeness, messages_of
from emulator.client.verify.timeline import WIDTH, WorldSnapshot, due_work, in_order, pace, timeline, world_snapshot
from emulator.core.model.messages import Via
from emulator.core.rules.destination_rules import matches_url
from emulator.delivery.mounts import near_mount
from emulator.wire.times import format_duration, iso

# Rows of the timeline below a difference.
_ROWS = 16
_MAX_URLS = 5
# The longest difference that the first line shows.
_SHORT = 70
# The keywords that may be met later, as time passes.
_TIMELY = ("message_id", "url", "label", "queue", "schedule_id", "pending", "attempts", "at", "status", "outcome")


# Messages whose attempts are asked for one by one; of more, those of all messages that fit the filters.
_FEW = 20


async def difference(session: Session, expectation: Expectation) -> str | None:
    """The text of a failed `verify`; None if the world meets the expectation.

    The server is asked for what may meet it; only if that fails for what lies around, and for little of that.
    Raises HistoryNotKept where the answer depends on history that was dropped.
    """
    # D-482.
    statuses, dropped_ms = await _statuses(session, expectation)
    meant = await _resolve(session, expectation, statuses)
    credentials = session.credentials
    if expectation.signed_with is not None:
        # Not the session's own, because another client may have rotated the keys.
        credentials = read_credentials(await session.control("GET", "credentials"))

    def compare(deliveries: Sequence[Delivery]) -> Mismatch | None:
        return check(expectation, deliveries, credentials, session.dialect, statuses)

    mismatch = compare(meant.deliveries)
    dropped_ms = max(dropped_ms or 0, meant.dropped_ms or 0) or None
    if dropped_ms is not None:
        _check_is_kept(expectation, meant.deliveries, dropped_ms, is_met=mismatch is None)
    if mismatch is None:
        return None
    around = await session.newest_deliveries()
    known = {each.seq: each for each in (*meant.deliveries, *around.deliveries)}
    mismatch = compare([*known.values()])
    if mismatch is not None and mismatch.nearest is not None and around.count > len(known):
        # Its first attempts may be older than what was read.
        message_id = mismatch.nearest.message.known.message_id
        known |= {each.seq: each for each in await session.deliveries(message_id=message_id)}
        mismatch = compare([*known.values()])
    if mismatch is None:
        # It came meanwhile.
        return None
    nearest = () if mismatch.nearest is None else mismatch.nearest.message.attempts
    marked = _marked(mismatch)
    newest = {each.seq for each in around.deliveries}
    shown = [each for seq, each in sorted(known.items()) if seq in newest or each.message_id in marked]
    return text_of(mismatch, await world_snapshot(session, replace(around, deliveries=shown), nearest))


async def _statuses(session: Session, expectation: Expectation) -> tuple[Sequence[MessageStatus], int | None]:
    """The messages that have not ended or were not tried, where the expectation speaks of such; see `Journal`."""
    if not expectation.asks_where_it_stands:
        return (), None
    query = expectation.query
    query["state"] = "live" if expectation.pending else "live,canceled,failed"
    if (message_id := query.pop("message_id", None)) is not None:
        query["id"] = message_id
    return await session.message_statuses(**query)


async def _resolve(session: Session, expectation: Expectation, statuses: Sequence[MessageStatus]) -> Journal:
    """The attempts of the messages that may meet the expectation."""
    if expectation.attempts == 0:
        return Journal(deliveries=[])
    tried = [status.message_id for status in statuses if status.attempts]
    if not expectation.pending or len(tried) > _FEW:
        return await session.journal(**expectation.query)
    return Journal(
        deliveries=[each for message_id in tried for each in await session.deliveries(message_id=message_id)]
    )


def _check_is_kept(expectation: Expectation, deliveries: Sequence[Delivery], dropped_ms: int, *, is_met: bool) -> None:
    """Raises HistoryNotKept for an expectation that what was dropped might have met, or not."""
    what = None
    if expectation.times is not None and not expectation.pending:
        what = f"how many messages were as expected (times={expectation.times})"
    elif is_met and expectation.needs_every_attempt and any(not each.is_whole for each in messages_of(deliveries)):
        what = "how often a message was tried"
    if what is not None:
        raise HistoryNotKept(
            f"history up to {iso(dropped_ms)} is not kept, and so it is unknown {what}: "
            'keep all of it with keep_history="all"'
        )


def _marked(mismatch: Mismatch) -> set[str]:
    messages = mismatch.fulfilled if mismatch.nearest is None else (mismatch.nearest.message,)
    return {message.known.message_id for message in messages}


async def order_difference(session: Session, wanted: Sequence[Expectation]) -> str | None:
    """The text of a failed `verify_order`; None if there are deliveries as wanted, one after the other."""
    known: dict[int, Delivery] = {}
    for query in [dict(pairs) for pairs in dict.fromkeys(tuple(each.query.items()) for each in wanted)]:
        known |= {each.seq: each for each in await session.deliveries(**query)}
    credentials = read_credentials(await session.control("GET", "credentials"))
    attempts = in_order(known.values())

    def first_met(expectation: Expectation, start: int) -> int | None:
        met = (
            place
            for place in range(start, len(attempts))
            if check(expectation, [attempts[place]], credentials, session.dialect) is None
        )
        return next(met, None)

    # The earliest place for each leaves most to those that follow (D-483).
    places: list[int] = []
    for number, expectation in enumerate(wanted, start=1):
        place = first_met(expectation, places[-1] + 1 if places else 0)
        if place is not None:
            places.append(place)
            continue
        lines = [f"Expected {counted(len(wanted), 'delivery')} in order; number {number}, {expectation}, did not come"]
        if places:
            lines[0] += f" after number {number - 1}"
        before = first_met(expectation, 0)
        lines[0] += "." if before is None else f": it came before, at {iso(attempts[before].at_ms)}."
        lines += [f"  {at}  {iso(attempts[place].at_ms)}  {_of(attempts[place])}" for at, place in enumerate(places, 1)]
        around = await session.newest_deliveries()
        marked = {attempts[place].message_id for place in (*places, *([] if before is None else [before]))}
        snapshot = await world_snapshot(session, around, ())
        parts = ["\n".join(line for each in lines for line in _wrapped("", each) or [each])]
        parts += ["\n".join(_wrapped("", each)) for each in snapshot.ineffective_calls]
        return "\n\n".join([*parts, timeline(snapshot, marked=marked, limit=_ROWS)])
    return None


def _of(delivery: Delivery) -> str:
    answer = "no response" if delivery.response is None else str(delivery.response.status)
    return f"{delivery.method} {delivery.url}, attempt {delivery.attempt}: {answer}"


def text_of(mismatch: Mismatch, snapshot: WorldSnapshot) -> str:
    """A sentence; the nearest message and what differs; hints; the timeline around it."""
    nearest = mismatch.nearest
    parts = ["\n".join(_wrapped("", _sentence(mismatch)))]
    if nearest is not None:
        parts.append(_candidate(mismatch.expectation, nearest))
    hints = [*_hints(mismatch, snapshot), *snapshot.ineffective_calls]
    parts += ["\n".join(_wrapped("", hint)) for hint in hints]
    return "\n\n".join([*parts, timeline(snapshot, marked=_marked(mismatch), limit=_ROWS)])


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
        if mismatch.expectation.asks_where_it_stands:
            return f"{expected}; there is no {'other ' if found else ''}message."
        return f"{expected}; nothing {'else ' if found else ''}has been delivered."
    other = "nearest other one" if found else "nearest"
    if "url" in nearest.findings:
        none = "no other" if found else "none"
        went = "went" if nearest.message.attempts else "is"
        return f"{expected}; {none} went there, the {other} {went} to {nearest.message.known.url}."
    return f"{expected}; the {other} differs in {_differences(nearest)}."


def _differences(candidate: Candidate) -> str:
    names = listed(candidate.findings)
    [first, *others] = candidate.findings.values()
    [line, *more] = first
    return f"{names}: {line}" if not others and not more and len(line) <= _SHORT else names


# -- the nearest message ----------------------------------------------------------------------


def _candidate(expectation: Expectation, candidate: Candidate) -> str:
    lines = [f"Nearest: {candidate.message.known.message_id}", *_wrapped("  ", _described(candidate.message)), ""]
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
    known = message.known
    answers = ["no response" if each.response is None else str(each.response.status) for each in message.attempts]
    runs = [(answer, len([*equal])) for answer, equal in groupby(answers)]
    said = ", ".join(answer if count == 1 else f"{count} x {answer}" for answer, count in runs)
    made = f"{known.method} {known.url}, made {iso(known.created_ms)}"
    if not message.attempts:
        return f"{made}, not tried so far"
    return f"{made}, {counted(len(answers), 'attempt')}: {said}"


# -- hints ------------------------------------------------------------------------------------


def _hints(mismatch: Mismatch, snapshot: WorldSnapshot) -> Iterator[str]:
    nearest = mismatch.nearest
    if nearest is None and len(mismatch.fulfilled) > (mismatch.expectation.times or 0):
        return
    yield from _urls(mismatch, snapshot)
    if mismatch.expectation.url is not None:
        question = near_mount(mismatch.expectation.url, snapshot.mounted)
        if question is not None and question not in snapshot.near_mounts.values():
            yield question
    if nearest is None or not nearest.findings.keys().isdisjoint(_TIMELY):
        yield from _time(mismatch, snapshot)
    if nearest is not None:
        yield from _capture(nearest)


def _urls(mismatch: Mismatch, snapshot: WorldSnapshot) -> Iterator[str]:
    """Where messages went instead."""
    wanted = mismatch.expectation.url
    messages = Counter({delivery.message_id: delivery.url for delivery in snapshot.deliveries}.values())
    if wanted is None or len(messages) < 2 or any(matches_url(wanted, url) for url in messages):
        return
    alike = sorted(messages, key=lambda url: (-likeness(wanted, url), url))
    listing = [f"{url} ({counted(messages[url], 'message')})" for url in alike[:_MAX_URLS]]
    if len(alike) > len(listing):
        listing.append(f"and to {counted(len(alike) - len(listing), 'other URL')}")
    yield f"Delivered to: {', '.join(listing)}."


def _time(mismatch: Mismatch, snapshot: WorldSnapshot) -> Iterator[str]:
    """What to do so that time passes."""
    clock, items, waiting = snapshot.clock, due_work(snapshot.upcoming), snapshot.upcoming["waiting"]
    if not items and not waiting and not snapshot.deliveries:
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
        known = nearest.message.known
        for item in items:
            if item.get("message_id") == known.message_id:
                expected = [moment.since(known.created_ms) for moment in mismatch.expectation.at or ()]
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
    if not nearest.message.attempts:
        return
    last = nearest.message.last
    if last.via is Via.CAPTURE and not nearest.findings.keys().isdisjoint(("attempts", "status", "outcome")):
        if last.response is not None:
            did = ", so the emulator captured the delivery and answered it by itself"
        elif "external=fail" in (last.error or ""):
            did = ", and the emulator lets such deliveries fail (external=fail)"
        else:
            # An address that is never called; the error says which.
            return
        yield (
            f"The destination is external{did}; "
            "a rule (emulator.destinations), emulator.mount or allow_host decides otherwise."
        )
