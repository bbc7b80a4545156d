"""Time zones: at which real minute a zone's clock shows a local time that a cron expression matches.

A *minute* is real (UTC), a *label* is what the wall clock of the zone shows, read as if it were UTC;
both in whole minutes since the Unix epoch.
"""

from __future__ import annotations

import functools
import re
from bisect import bisect_left
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from pathlib import Path
from zoneinfo import ZoneInfo

from emulator.core.errors import Malformed
from emulator.core.language import calendar
from emulator.core.language.cron_calendar import CronCalendar
from emulator.core.language.excerpts import excerpt
from emulator.core.record import Record

MAX_ZONE_LENGTH = 64

_DAY = calendar.DAY_MINUTES

_ZONE_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_+-]*(?:/[A-Za-z][A-Za-z0-9_+-]*){0,2}")

# Names that some systems' databases add: the machine's own zone, and copies that count leap seconds.
_MACHINE_ZONES = re.compile(r"(?:localtime|posixrules|posix/.*|right/.*)", re.IGNORECASE)


@functools.lru_cache(maxsize=1024)
def load_zone(name: str) -> ZoneInfo | None:
    """The zone of that name, None for plain UTC. Its data is read once per process."""
    if name == "UTC":
        return None
    if len(name) <= MAX_ZONE_LENGTH and _ZONE_NAME.fullmatch(name) and not _MACHINE_ZONES.fullmatch(name):
        try:
            # From the package, never from the machine's own files: those differ from machine to machine.
            with _files().joinpath(*name.split("/")).open("rb") as file:
                return ZoneInfo.from_file(file, key=name)
        except (ValueError, OSError):
            pass  # no such file, a file of another kind, or a folder such as `Europe`
    raise Malformed(
        f"provided bad location {excerpt(name)}: expected a name of the IANA time zone database such as Europe/Berlin"
    )


@functools.cache
def _files() -> Path:
    # By its path: `importlib.resources` would make every start slower and larger.
    package = find_spec("tzdata")
    assert package is not None
    assert package.origin is not None
    return Path(package.origin).with_name("zoneinfo")


# Stretches are found for so many minutes at a time, and remembered.
_BLOCK = 64 * _DAY
# zoneinfo knows the years 1 to 9999; beyond them the offset stays what it is at the edge.
_FIRST_MINUTE = -1_035_590_000
_LAST_MINUTE = 4_223_368_000
# More than any schedule needs unless all its matches lie in hours that the zone skips.
_MAX_STRETCHES = 100

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ONE_MINUTE = timedelta(minutes=1)


class _Stretch(Record):
    """Minutes [start, end) over which a zone keeps its offset, in minutes east of UTC.

    `reached` is the highest label that the zone's clock has shown before `start`.
    """

    start: int
    end: int
    offset: int
    reached: int


def next_minute(fields: CronCalendar, zone: ZoneInfo, earliest: int) -> int:
    """The first firing at minute `earliest` or later."""
    if fields.every_minute:
        minute = _search(fields, zone, earliest, every_minute=True)
        if minute is not None:
            return minute
        # Every match for decades is in a skipped hour. That takes a zone whose clock goes forward on one
        # date of the year; no zone of today does, but its database changes without us. A schedule without
        # a next firing does not exist here, so it fires after the gap.
    minute = _search(fields, zone, earliest, every_minute=False)
    if minute is None:
        raise AssertionError("a zone's clock reaches every label in the end")
    return minute


def _search(fields: CronCalendar, zone: ZoneInfo, earliest: int, *, every_minute: bool) -> int | None:
    """Go from stretch to stretch until one holds the firing.

    A label fires at the first minute at which the clock has reached it or passed it. That one rule
    gives the minute after a gap, and the first of two passes. With `every_minute` it fires at every
    minute that shows it.
    """
    for _ in range(_MAX_STRETCHES):
        stretch = _stretch_at(zone, earliest)
        reached = earliest - 1 + stretch.offset
        if not every_minute:
            reached = stretch.reached if earliest == stretch.start else max(stretch.reached, reached)
        label = fields.next_label(reached)
        minute = max(label - stretch.offset, earliest)
        if minute < stretch.end:
            return minute
        # No offset reaches a day. Two days on, the clock cannot show again what it has shown, and no
        # minute before `label - _DAY` shows the label: years of stretches need not be visited.
        is_past_repeats = stretch.end - earliest >= 2 * _DAY
        earliest = max(stretch.end, label - _DAY) if is_past_repeats else stretch.end
    return None


def _stretch_at(zone: ZoneInfo, minute: int) -> _Stretch:
    for stretch in _stretches(zone, minute // _BLOCK):
        if minute < stretch.end:
            return stretch
    raise AssertionError("the stretches of a block cover it")


@functools.lru_cache(maxsize=4096)
def _stretches(zone: ZoneInfo, block: int) -> tuple[_Stretch, ...]:
    """The stretches of one block of minutes, cut at its edges.

    Looks at one minute of each day, so two changes that undo each other within a day go unseen.
    """
    block_start, block_end = block * _BLOCK, (block + 1) * _BLOCK
    # Two days earlier, so that `reached` knows a change shortly before the block.
    start = block_start - 2 * _DAY
    offset = offset_at(zone, start)
    reached = start - 1 + offset
    stretches: list[_Stretch] = []
    while start < block_end:
        end, following = _end_of_offset(zone, start, offset, block_end)
        if end > block_start:
            visible = max(start, block_start)
            before = reached if visible == start else max(reached, visible - 1 + offset)
            stretches.append(_Stretch(start=visible, end=end, offset=offset, reached=before))
        reached = max(reached, end - 1 + offset)
        start, offset = end, following
    return tuple(stretches)


def _end_of_offset(zone: ZoneInfo, start: int, offset: int, limit: int) -> tuple[int, int]:
    """The first minute after `start` with another offset, and that offset; `limit` if there is none before it."""
    while start < limit:
        following = min(start + _DAY, limit)
        if offset_at(zone, following) != offset:
            minutes = range(start, following + 1)
            change = minutes[bisect_left(minutes, True, key=lambda minute: offset_at(zone, minute) != offset)]
            return change, offset_at(zone, change)
        start = following
    return limit, offset


def offset_at(zone: ZoneInfo, minute: int) -> int:
    """The zone's offset at a minute. Seconds, which only offsets of long ago have, are dropped.

    So firings stay on whole minutes: the first one at or after the local time.
    """
    moment = _EPOCH + timedelta(minutes=min(max(minute, _FIRST_MINUTE), _LAST_MINUTE))
    return (moment.astimezone(zone).utcoffset() or timedelta()) // _ONE_MINUTE
