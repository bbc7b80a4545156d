"""What happened in a world and what is still to come, as tables for the report of a test.

Plain text in ASCII, at most 100 columns, without colour, because CI logs can show no more.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from textwrap import wrap
from typing import Any

import msgspec

from emulator.client.errors import Refused
from emulator.client.records import Delivery, Journal
from emulator.client.session import Session
from emulator.client.verify.expectations import counted
from emulator.client.verify.unused_rules import question_about, summary_of, unused_rules
from emulator.core.model.messages import Via
from emulator.queries.reports import ClockStatus
from emulator.server.logs import printable
from emulator.wire.reasons import said_of
from emulator.wire.redaction import Surface, visibility_of_fields
from emulator.wire.times import format_duration, iso
from emulator.wire.urls import origin_of
from emulator.worlds.calls import DeduplicatedPublish, RefusedCall

_PUBLISHES = ("/v2/publish", "/v2/enqueue", "/v2/batch")


async def mismatches_of(session: Session, *, forget: bool = False) -> str | None:
    """What strict mode found in the calls of a world, as the text of a failure; None for nothing.

    With `forget` it is not found again.
    """
    found: list[Mapping[str, Any]] = (await session.control("GET", "mismatches"))["mismatches"]
    if forget and found:
        await session.control("DELETE", "mismatches")
    if not found:
        return None
    lines = [f"  {each['operation']}: {each['mismatch']}{_times(each['count'])}" for each in found]
    return "\n".join([f"The contract does not know what was sent ({counted(len(found), 'mismatch')}):", *lines])


def _times(count: int) -> str:
    return "" if count == 1 else f" ({count} times)"


def refused_line(call: RefusedCall) -> str:
    """Why a call was refused, and what was probably meant."""
    return f"{call.error}{'' if call.hint is None else f' ({call.hint})'}"


def describe(refused: Sequence[RefusedCall], cancelled: int, deduplicated: int) -> Iterable[str]:
    """Sentences about what made no delivery; the first is about the last refused publish."""
    publishes = [call for call in refused if call.method == "POST" and call.path.lower().startswith(_PUBLISHES)]
    others = len(refused) - len(publishes)
    if publishes:
        text = f"{_counted_were(len(publishes), 'publish')} refused"
        yield f"{text}{', the last one' if len(publishes) > 1 else ''}: {refused_line(publishes[-1])}"
    if others:
        last = next(call for call in reversed(refused) if call not in publishes)
        text = f"{_counted_were(others, 'other call' if publishes else 'call')} refused"
        yield f"{text}{', the last one' if others > 1 else ''}: {last.method} {last.path}: {refused_line(last)}"
    if cancelled:
        yield f"{_counted_were(cancelled, 'message')} cancelled."
    if deduplicated:
        yield f"{_counted_were(deduplicated, 'publish')} deduplicated, and made no message."


def _counted_were(count: int, noun: str) -> str:
    return f"{counted(count, noun)} {'was' if count == 1 else 'were'}"


WIDTH = 100
DEFAULT_LIMIT = 40
# Rows of the sections after the table.
COMING_LIMIT = 10
EXPLAINED_LIMIT = 5
_PAGE = "1000"

# Kinds of due work that have an effect; the others are expiries.
_WITH_EFFECT = frozenset(("delivery", "retry", "answer", "timeout", "duplicate", "schedule", "rate_window"))

# The head of the list of whole ids.
IDS = "Whole ids:"

_GAP = "  "
_HEADS = ("", "virtual time (UTC)", "after", "message", "try", "destination", "by", "answer")
_DESTINATION = _HEADS.index("destination")
_MIN_ID = 4
_REFUSED = "refused"
_NOT_SENT = "Refused by the emulator, as no rule and no mount asked for it"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldSnapshot:
    """What a timeline shows of a world: its deliveries, its clock, and what is due.

    `upcoming` is the answer of `GET /_emulator/upcoming`; `explanations` holds the summaries of
    `GET /_emulator/messages/{id}/explain` of some messages by their ids.
    """

    deliveries: Sequence[Delivery]
    clock: ClockStatus
    upcoming: Mapping[str, Any]
    explanations: Mapping[str, str]
    # Of the applications that are mounted: their origins, and what was captured although one may have been meant.
    mounted: Sequence[str] = ()
    near_mounts: Mapping[str, str] = field(default_factory=dict)
    refused: Sequence[RefusedCall] = ()
    deduplicated: Sequence[DeduplicatedPublish] = ()
    # Of the messages that were cancelled: id and URL.
    cancelled: Sequence[tuple[str, str]] = ()
    # Those that decided no attempt, in the control API's JSON.
    unused_rules: Sequence[Mapping[str, Any]] = ()
    # How many attempts and messages the journal has, if those are more than `deliveries` holds: the newest are whole.
    count: int | None = None
    messages: int | None = None
    # Up to when history is not kept.
    dropped_ms: int | None = None

    @property
    def ineffective_calls(self) -> list[str]:
        """Sentences about what was asked for and made no delivery."""
        near = [f"no application is mounted at {origin}: {question}" for origin, question in self.near_mounts.items()]
        return [*near, *describe(self.refused, len(self.cancelled), len(self.deduplicated))]


async def timeline_of(session: Session) -> str:
    """The timeline of a world, with why messages failed."""
    journal = await session.newest_deliveries()
    return timeline(await world_snapshot(session, journal, journal.deliveries), has_ids=True)


async def world_snapshot(session: Session, journal: Journal, explained: Sequence[Delivery]) -> WorldSnapshot:
    """The world around its newest deliveries; why messages failed is asked of those that are `explained`."""
    upcoming = await session.control("GET", "upcoming")
    explanations: dict[str, str] = {}
    for message_id in worth_explaining(explained, upcoming):
        # Refused if the world was reset meanwhile.
        with suppress(Refused):
            explanations[message_id] = (await session.explain(message_id))["summary"]
    for message_id in _maybe_of_real_time(journal.deliveries, upcoming):
        with suppress(Refused):
            explanation = await session.explain(message_id)
            if any(reason["kind"] == "real_time" for reason in explanation["reasons"]):
                explanations[message_id] = explanation["summary"]
    answer = await session.control("GET", "refused", query={"limit": _PAGE})
    cancelled = await session.control("GET", "messages", query={"state": "CANCELED", "limit": _PAGE})
    return WorldSnapshot(
        deliveries=journal.deliveries,
        count=journal.count,
        messages=journal.messages,
        dropped_ms=journal.dropped_ms,
        clock=await session.clock(),
        mounted=session.server.mounted(session.world),
        near_mounts=session.server.near_mounts(session.world),
        upcoming=upcoming,
        explanations=explanations,
        refused=msgspec.convert(answer["refused"], list[RefusedCall]),
        deduplicated=msgspec.convert(answer["deduplicated"], list[DeduplicatedPublish]),
        unused_rules=await unused_rules(session),
        cancelled=[(each["message_id"], each["url"]) for each in reversed(cancelled["messages"])],
    )


def timeline(
    world: WorldSnapshot, *, marked: Collection[str] = (), limit: int = DEFAULT_LIMIT, has_ids: bool = False
) -> str:
    """The attempts in the order of their start, then due work, waiting work, and the reasons of failures.

    In the table `after` is the time since the message was made. Attempts of the `marked` messages have a
    mark, and of more than `limit` attempts those near a mark are shown, or else the first and the last ones.
    `has_ids` adds the ids as commands take them, of which the tables show the ends.
    """
    ordered = in_order(world.deliveries)
    items, waiting, explanations = due_work(world.upcoming), world.upcoming["waiting"], world.explanations
    known = [delivery.message_id for delivery in ordered]
    known += [entry["message_id"] for entry in (*items, *waiting) if "message_id" in entry]
    known += [message_id for message_id, _ in world.cancelled]
    known += [publish.message_id for publish in world.deduplicated]
    ids = short_ids([*known, *explanations])
    parts = [_headline(world, ordered)]
    if world.dropped_ms is not None:
        parts.append(f"History up to {iso(world.dropped_ms)} is not kept (keep_history).")
    if ordered:
        parts += _table(ordered, ids, marked, limit, unread=max(0, (world.count or 0) - len(ordered)))
    if items:
        coming = [_coming(item, world.upcoming["now_ms"], ids) for item in items]
        parts += ["", "Still to come:", *_listed(coming)]
    if waiting:
        parts += ["", "Waiting:", *_listed([(ids[entry["message_id"]], _why(entry)) for entry in waiting])]
    if explanations:
        parts += ["", "Why:", *_listed([(ids[each], text) for each, text in explanations.items()])]
    parts += _ineffective(world, ids)
    if has_ids:
        parts += _captured(world)
        shown = "\n".join(parts)
        short = [(end, each) for each, end in ids.items() if end != each and end in shown]
        if short:
            parts += ["", IDS, *_listed(short)]
    # A label or a URL may hold what rules a terminal (D-277).
    return "\n".join(map(printable, parts))


def in_order(deliveries: Iterable[Delivery]) -> list[Delivery]:
    """Attempts in the order in which they began; the journal has them in the order in which they ended."""
    return sorted(deliveries, key=lambda delivery: (delivery.at_ms, delivery.seq))


def due_work(upcoming: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The due work that has an effect."""
    return [item for item in upcoming["items"] if item["kind"] in _WITH_EFFECT]


def worth_explaining(deliveries: Iterable[Delivery], upcoming: Mapping[str, Any]) -> list[str]:
    """The ids of the latest messages that ended with a failed attempt, at most a few, the oldest first."""
    last = {delivery.message_id: delivery for delivery in in_order(deliveries)}
    going_on = {entry.get("message_id") for entry in (*due_work(upcoming), *upcoming["waiting"])}
    ended = [each for each, delivery in last.items() if not delivery.succeeded and each not in going_on]
    return ended[-EXPLAINED_LIMIT:]


def _maybe_of_real_time(deliveries: Iterable[Delivery], upcoming: Mapping[str, Any]) -> list[str]:
    """The ids of a few messages whose not-before may be of real time: those due next, and the newest that left."""
    due = dict.fromkeys(item["message_id"] for item in upcoming["items"] if item["kind"] == "delivery")
    left = dict.fromkeys(delivery.message_id for delivery in in_order(deliveries))
    return [*list(due)[:EXPLAINED_LIMIT], *list(left)[-EXPLAINED_LIMIT:]]


def short_ids(message_ids: Iterable[str]) -> dict[str, str]:
    """The shortest ends of the ids that differ; whole ids begin alike and fill half a line."""
    distinct = dict.fromkeys(message_ids)
    length = _MIN_ID
    while len({each[-length:] for each in distinct}) < len(distinct):
        length += 1
    return {each: each if len(each) <= length + 6 else f"msg_..{each[-length:]}" for each in distinct}


def shortened(text: str, width: int) -> str:
    """A text in at most `width` columns, its middle left out if it is longer."""
    if len(text) <= width:
        return text
    right = (width - 3) // 2
    return f"{text[: width - 3 - right]}...{text[len(text) - right :]}"


def pace(rate: float) -> str:
    """How fast a clock goes."""
    return {0.0: "frozen", 1.0: "in real time"}.get(rate, f"at {rate:g} times real time")


def _headline(world: WorldSnapshot, deliveries: Sequence[Delivery]) -> str:
    clock, attempts = world.clock, max(len(deliveries), world.count or 0)
    messages = max(len({delivery.message_id for delivery in deliveries}), world.messages or 0)
    happened = f"{counted(attempts, 'attempt')} of {counted(messages, 'message')}"
    return f"{happened if messages else 'Nothing delivered'}; the clock is at {iso(clock.now_ms)}, {pace(clock.rate)}"


# -- what happened ----------------------------------------------------------------------------


def _table(
    deliveries: Sequence[Delivery], ids: Mapping[str, str], marked: Collection[str], limit: int, *, unread: int
) -> list[str]:
    """The rows of attempts; `unread` is how many more there are, older than the newest of these."""
    marks = [delivery.message_id in marked for delivery in deliveries]
    if unread and not any(marks):
        # What was read is not the beginning, so the end says most.
        chosen = [*range(len(marks))[-limit:]]
    else:
        chosen = _chosen(marks, limit)
    is_precise = any(deliveries[index].at_ms % 1000 for index in chosen)
    rows = [(">" if marks[index] else "", *_cells(deliveries[index], ids, is_precise=is_precise)) for index in chosen]
    widths = _widths([_HEADS, *rows])
    lines = [_line(_HEADS, widths), *([f"  ... {unread} older ones"] if unread else [])]
    before = -1
    for index, row in zip(chosen, rows, strict=True):
        lines += [*_skipped(index - before - 1), _line(row, widths), *_notes(deliveries[index], widths)]
        before = index
    return lines + _skipped(len(deliveries) - before - 1)


def _chosen(marks: Sequence[bool], limit: int) -> list[int]:
    """The indexes of the rows to show: those nearest to a marked one, or the first and more of the last."""
    count = len(marks)
    if count <= limit:
        return list(range(count))
    marked = [index for index, is_marked in enumerate(marks) if is_marked]
    if not marked:
        first = limit // 4
        return [*range(first), *range(count - (limit - first), count)]
    # If too many are marked, prefer the first and the last of them.
    ends = {index: min(place, len(marked) - 1 - place) for place, index in enumerate(marked)}
    nearest = sorted(range(count), key=lambda index: (_distance(index, marked), ends.get(index, 0), index))
    return sorted(nearest[:limit])


def _distance(index: int, marked: Sequence[int]) -> int:
    """The distance to the nearest of the marked indexes, which are sorted."""
    place = bisect_left(marked, index)
    return min(abs(index - each) for each in marked[max(0, place - 1) : place + 1])


def _cells(delivery: Delivery, ids: Mapping[str, str], *, is_precise: bool) -> tuple[str, ...]:
    return (
        _day_and_time(delivery.at_ms, is_precise=is_precise),
        f"+{format_duration(delivery.at_ms - delivery.created_ms)}",
        ids[delivery.message_id],
        str(delivery.attempt),
        f"{delivery.method} {delivery.url}",
        _REFUSED if _is_refused(delivery) else delivery.via.value,
        "none" if delivery.response is None else str(delivery.response.status),
    )


def _day_and_time(at_ms: int, *, is_precise: bool) -> str:
    at = iso(at_ms).replace("T", " ").rstrip("Z")
    return at if is_precise else at.partition(".")[0]


def _widths(rows: Sequence[Sequence[str]]) -> list[int]:
    """The width of each column; the destination gets the rest of the line."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEADS))]
    # The mark and a blank take two columns.
    others = 2 + sum(widths[1:]) - widths[_DESTINATION] + len(_GAP) * (len(widths) - 2)
    widths[_DESTINATION] = min(widths[_DESTINATION], WIDTH - others)
    return widths


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    cells = (shortened(cell, width).ljust(width) for cell, width in zip(row[1:], widths[1:], strict=True))
    return f"{row[0]:1} {_GAP.join(cells)}".rstrip()


def _notes(delivery: Delivery, widths: Sequence[int]) -> list[str]:
    """Below the destination: why there is no response or what a failing one says, what chance did, a redelivery."""
    # D-336.
    text = delivery.error
    if delivery.response is not None and not delivery.succeeded:
        text = said_of(visibility_of_fields(delivery.redacts, Surface.OWN).answer(delivery.response.body))
    notes = [text] if text else []
    if delivery.chaos is not None:
        notes.append(f"chaos: {delivery.chaos.did}")
    if delivery.redelivery is not None:
        notes.append(f"redelivery of attempt {delivery.attempt}")
    indent = " " * (2 + sum(widths[1:_DESTINATION]) + len(_GAP) * (_DESTINATION - 1))
    return [line for each in notes for line in wrap(each, WIDTH, initial_indent=indent, subsequent_indent=indent)]


def _skipped(count: int) -> list[str]:
    return [f"  ... {count} more"] if count else []


# -- what is to come, and why -----------------------------------------------------------------


def _coming(item: Mapping[str, Any], now_ms: int, ids: Mapping[str, str]) -> tuple[str, ...]:
    at_ms: int = item["at_ms"]
    when = _day_and_time(at_ms, is_precise=at_ms % 1000 != 0)
    return when, f"in {format_duration(at_ms - now_ms)}", ids.get(item.get("message_id", ""), ""), _why(item)


def _why(entry: Mapping[str, Any]) -> str:
    why: str = entry["why"]
    return f"to {shortened(entry['url'], WIDTH // 2)}: {why}" if "url" in entry else why


def _ineffective(world: WorldSnapshot, ids: Mapping[str, str]) -> list[str]:
    """Refused calls, cancelled messages, deduplicated publishes, and rules that decided no attempt."""
    refused = [
        (_day_and_time(call.at_ms, is_precise=True), f"{call.method} {call.path} -> {call.status} {refused_line(call)}")
        for call in world.refused[-COMING_LIMIT:]
    ]
    cancelled = [(ids[message_id], f"to {url}") for message_id, url in world.cancelled]
    deduplicated = [
        (_day_and_time(each.at_ms, is_precise=True), f"to {each.url}: {ids[each.message_id]} stands for it")
        for each in world.deduplicated
    ]
    rules = []
    for rule in world.unused_rules:
        question = question_about(rule, world.deliveries)
        rules.append((rule["match"]["url"], summary_of(rule) + (f"; {question}" if question else "")))
    sections = {
        "Refused:": refused,
        "Cancelled:": cancelled,
        "Deduplicated:": deduplicated,
        "Rules that decided no attempt:": rules,
    }
    return [line for head, rows in sections.items() if rows for line in ("", head, *_listed(rows))]


def _captured(world: WorldSnapshot) -> list[str]:
    """The origins that the emulator answered for by itself, or refused: a forgotten mount or rule is among them."""
    # D-473.
    heads = {False: "Captured, as no rule and no mount asked for it:", True: f"{_NOT_SENT}:"}
    lines: list[str] = []
    for is_refused, head in heads.items():
        counts = Counter(
            origin_of(each.url) or each.url
            for each in world.deliveries
            if each.via is Via.CAPTURE and _is_refused(each) is is_refused
        )
        if counts:
            near = {origin: f"; {question}" for origin, question in world.near_mounts.items()}
            rows = [(origin, f"{counted(n, 'attempt')}{near.get(origin, '')}") for origin, n in counts.items()]
            lines += ["", head, *_listed(rows)]
    return lines


def _is_refused(delivery: Delivery) -> bool:
    """Whether the emulator let an attempt fail instead of capturing it: external=fail, or an address never called."""
    return delivery.via is Via.CAPTURE and delivery.response is None


def _listed(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows as aligned lines; the last cell is wrapped."""
    shown = rows[:COMING_LIMIT]
    widths = [max(len(row[column]) for row in shown) for column in range(len(shown[0]) - 1)]
    lines: list[str] = []
    for *cells, text in shown:
        padded = [cell.ljust(width) for cell, width in zip(cells, widths, strict=True)]
        head = f"  {_GAP.join(padded)}{_GAP}"
        first, *more = wrap(text, WIDTH - len(head), break_on_hyphens=False)
        lines += [f"{head}{first}", *(" " * len(head) + line for line in more)]
    return lines + _skipped(len(rows) - len(shown))
