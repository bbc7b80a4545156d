"""When an expression fires and when attempts are made, with each change of a clock in a sentence.

The command line, the Python API and the control API all answer from here; the JSON is in `control/when.py`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from enum import Enum

from emulator.core.language import cron, expressions
from emulator.core.language.calendar import DAY_MS, LATEST_MS, MINUTE_MS
from emulator.core.language.cron import CronSchedule
from emulator.core.record import Record
from emulator.core.rules.retries import RetryDelay, delay_before_retry
from emulator.wire.names import read_field
from emulator.wire.reasons import arithmetic
from emulator.wire.times import format_duration, iso, local_iso


class Effect(Enum):
    """What a change of the clock does to an expression."""

    # The clock is put forward: a local time that is skipped fires at the first minute after the gap.
    MOVED = "moved"
    # It is put forward, and what real minutes would have shown is lost: the minutes are a wildcard.
    SKIPPED = "skipped"
    # It is put back: the local time of this firing comes again, and does not fire then.
    FIRST_PASS = "first_pass"
    # It is put back, and every real minute fires, in both passes.
    BOTH_PASSES = "both_passes"


class OffsetChange(Record):
    """A change of a zone's clock that an expression meets.

    It goes from the local time `from_minute` to `to_minute`, at the instant `at_ms`; `minute` is the first
    local time of the expression that is skipped, or comes twice. Local times are minutes since the epoch.
    """

    at_ms: int
    from_minute: int
    to_minute: int
    minute: int
    effect: Effect


class CronFiring(Record):
    """One firing; `changes` are those that it has to do with, in order."""

    at_ms: int
    offset_minutes: int
    changes: tuple[OffsetChange, ...] = ()

    @property
    def local(self) -> str:
        """What the clock of the zone shows, ISO 8601 with its offset."""
        return local_iso(self.at_ms, self.offset_minutes)

    @property
    def explanation(self) -> str | None:
        """What changes of the zone's clock did to it, None without any."""
        return "; ".join(_sentence(change) for change in self.changes) or None


# So many firings at most, and so many retries: no plan allows more.
MAX_COUNT = 1_000
MAX_RETRIES = expressions.PROBED_RETRIES


class RetryStep(Record):
    """One attempt of a message whose attempts all fail at once: its number from 1, and when, after the first.

    `delay` is the wait before it and what decided that; the first attempt has none.
    """

    attempt: int
    after_ms: int
    delay: RetryDelay | None

    @property
    def delay_ms(self) -> int:
        """How long after the attempt before, 0 for the first."""
        return 0 if self.delay is None else self.delay.delay_ms

    @property
    def arithmetic(self) -> str:
        """How the delay came about."""
        return "the first attempt" if self.delay is None else arithmetic(self.delay)


def read_schedule(expression: str) -> CronSchedule:
    """A cron expression, parsed. Raises InvalidInput for `expression`."""
    return read_field("expression", expression, cron.parse)


def read_ladder(retry_delay: str | None, retries: int) -> list[RetryStep]:
    """The attempts by a retry delay, or None for the default backoff. Raises InvalidInput for `retry_delay`."""
    return read_field("retry_delay", retry_delay, lambda expression: list(ladder(expression, retries)))


def firings(schedule: CronSchedule, after_ms: int, count: int) -> Iterator[CronFiring]:
    """The first so many firings after an instant, or fewer where the calendar ends. Source: D-430."""
    before_ms = after_ms
    for _ in range(count):
        at_ms = schedule.next_after(before_ms)
        if at_ms > LATEST_MS:
            return
        yield CronFiring(
            at_ms=at_ms,
            offset_minutes=schedule.offset_minutes(at_ms),
            changes=(*_forward(schedule, before_ms, at_ms), *_back(schedule, at_ms)),
        )
        before_ms = at_ms


def ladder(retry_delay: str | None, retries: int) -> Iterator[RetryStep]:
    """The attempts of a message, the first at 0 ms; none takes any time. Raises: Malformed. Source: D-431."""
    after_ms = 0
    yield RetryStep(attempt=1, after_ms=after_ms, delay=None)
    for retried in range(retries):
        delay = delay_before_retry(expression=retry_delay, retried=retried, response_headers=(), now_ms=0)
        after_ms += delay.delay_ms
        yield RetryStep(attempt=retried + 2, after_ms=after_ms, delay=delay)


# -- changes of the clock -----------------------------------------------------------------------


def _forward(schedule: CronSchedule, before_ms: int, at_ms: int) -> Iterator[OffsetChange]:
    """The gaps since the last firing that have to do with this one."""
    if schedule.zone is None:
        return
    # What is moved fires at the end of the gap, so an earlier change can only have lost firings.
    start_ms = before_ms if schedule.calendar.every_minute else at_ms - MINUTE_MS
    for change_ms in _changes(schedule, start_ms, at_ms):
        gap_begins, gap_ends = _local_times(schedule, change_ms)
        minute = schedule.calendar.next_label(gap_begins - 1)
        if minute < gap_ends:
            effect = Effect.SKIPPED if schedule.calendar.every_minute else Effect.MOVED
            yield OffsetChange(
                at_ms=change_ms, from_minute=gap_begins, to_minute=gap_ends, minute=minute, effect=effect
            )


def _back(schedule: CronSchedule, at_ms: int) -> Iterator[OffsetChange]:
    """The change around a firing whose local time comes twice."""
    if schedule.zone is None:
        return
    local = at_ms // MINUTE_MS + schedule.offset_minutes(at_ms)
    for change_ms in _changes(schedule, at_ms - DAY_MS, at_ms + DAY_MS):
        repeat_ends, repeat_begins = _local_times(schedule, change_ms)
        if repeat_begins <= local < repeat_ends:
            effect = Effect.BOTH_PASSES if schedule.calendar.every_hour else Effect.FIRST_PASS
            yield OffsetChange(
                at_ms=change_ms, from_minute=repeat_ends, to_minute=repeat_begins, minute=local, effect=effect
            )


def _local_times(schedule: CronSchedule, change_ms: int) -> tuple[int, int]:
    """What the clock would have shown at a change, and what it shows."""
    minute = change_ms // MINUTE_MS
    return (
        minute + schedule.offset_minutes(change_ms - MINUTE_MS),
        minute + schedule.offset_minutes(change_ms),
    )


def _changes(schedule: CronSchedule, after_ms: int, until_ms: int) -> Iterator[int]:
    """The instants after one and up to another at which the zone's offset changes, one a day at most."""
    start_ms = after_ms
    while start_ms < until_ms:
        end_ms = min(start_ms + DAY_MS, until_ms)
        offset = schedule.offset_minutes(start_ms)
        if schedule.offset_minutes(end_ms) != offset:
            minutes = range(start_ms // MINUTE_MS, end_ms // MINUTE_MS + 1)
            found = bisect_left(minutes, True, key=lambda minute: schedule.offset_minutes(minute * MINUTE_MS) != offset)
            yield minutes[found] * MINUTE_MS
        start_ms = end_ms


# -- the changes in words -----------------------------------------------------------------------


def _sentence(change: OffsetChange) -> str:
    day = iso(change.minute * MINUTE_MS)[:10]
    local, before, after = _shown(change.minute), _shown(change.from_minute), _shown(change.to_minute)
    match change.effect:
        case Effect.MOVED:
            what = f"the clock goes from {before} to {after}, and {local} does not exist on {day}"
            return f"{what}: it fires at the first minute after the gap"
        case Effect.SKIPPED:
            gap = format_duration((change.to_minute - change.from_minute) * MINUTE_MS)
            return f"the clock goes from {before} to {after} on {day}: nothing fires for the {gap} that do not exist"
        case Effect.FIRST_PASS:
            return (
                f"the clock goes back from {before} to {after}, and {local} comes twice on {day}: only the first fires"
            )
        case Effect.BOTH_PASSES:
            return f"the clock goes back from {before} to {after}, and {local} comes twice on {day}: both fire"


def _shown(minute: int) -> str:
    """A local time as `02:30`."""
    hour, minutes = divmod(minute % 1440, 60)
    return f"{hour:02}:{minutes:02}"
