"""When an expression fires and when attempts are made, as JSON, with each change of a clock in a sentence.

The command line, the Python API and the control API all answer from here.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from enum import Enum

from emulator.core.errors import InvalidInput
from emulator.core.language import cron, expressions
from emulator.core.language.calendar import DAY_MS, LATEST_MS, MINUTE_MS
from emulator.core.language.cron import CronSchedule
from emulator.core.record import Record
from emulator.core.rules.retries import RetryDelay, delay_before_retry
from emulator.wire.json_reader import Json
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


class RetryStep(Record):
    """One attempt of a message whose attempts all fail at once: its number from 1, and when, after the first.

    `delay` is the wait before it and what decided that; the first attempt has none.
    """

    attempt: int
    after_ms: int
    delay: RetryDelay | None


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
    start_ms = before_ms if schedule.fires_every_minute else at_ms - MINUTE_MS
    for change_ms in _changes(schedule, start_ms, at_ms):
        gap_begins, gap_ends = _local_times(schedule, change_ms)
        minute = schedule.next_label(gap_begins - 1)
        if minute < gap_ends:
            effect = Effect.SKIPPED if schedule.fires_every_minute else Effect.MOVED
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
            effect = Effect.BOTH_PASSES if schedule.fires_in_both_passes else Effect.FIRST_PASS
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


# -- the answers ------------------------------------------------------------------------------

# So many firings at most, and so many retries: no plan allows more.
MAX_COUNT = 1_000
MAX_RETRIES = expressions.PROBED_RETRIES


def firings_of(expression: str, start_ms: int, count: int) -> dict[str, Json]:
    """When a cron expression fires after an instant. Raises InvalidInput for `expression`."""
    schedule = read_field("expression", expression, cron.parse)
    return firings_view(schedule, start_ms, firings(schedule, start_ms, count))


def attempts_of(retry_delay: str | None, retries: int, start_ms: int | None) -> dict[str, Json]:
    """The attempts by a retry delay, or None for the default backoff. Raises InvalidInput: `retry_delay`, `from`."""
    steps = read_field("retry_delay", retry_delay, lambda expression: list(ladder(expression, retries)))
    if start_ms is not None and start_ms + steps[-1].after_ms > LATEST_MS:
        raise InvalidInput("from", "expected an instant from which the attempts end in the year 9999 at the latest")
    return ladder_view(retry_delay, steps, start_ms)


def firings_view(schedule: CronSchedule, after_ms: int, firings: Iterable[CronFiring]) -> dict[str, Json]:
    """An expression with its firings after an instant; `explanation` is null but at a change of the clock (D-430)."""
    return {
        "cron": schedule.text,
        "time_zone": schedule.time_zone,
        "from": iso(after_ms),
        "from_ms": after_ms,
        "firings": [
            {
                "at": iso(each.at_ms),
                "at_ms": each.at_ms,
                "local": local_iso(each.at_ms, each.offset_minutes),
                "explanation": explanation(each),
            }
            for each in firings
        ],
    }


def ladder_view(retry_delay: str | None, steps: Iterable[RetryStep], first_ms: int | None) -> dict[str, Json]:
    """Attempts with their waits in ms and what decided them; with their instants if the first has one (D-431)."""
    return {
        "retry_delay": retry_delay,
        "attempts": [
            {
                "attempt": each.attempt,
                "at": None if first_ms is None else iso(first_ms + each.after_ms),
                "at_ms": None if first_ms is None else first_ms + each.after_ms,
                "after_ms": each.after_ms,
                "delay_ms": 0 if each.delay is None else each.delay.delay_ms,
                "arithmetic": "the first attempt" if each.delay is None else arithmetic(each.delay),
            }
            for each in steps
        ],
    }


def explanation(firing: CronFiring) -> str | None:
    """What changes of the zone's clock did to a firing, None without any."""
    return "; ".join(_sentence(change) for change in firing.changes) or None


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
