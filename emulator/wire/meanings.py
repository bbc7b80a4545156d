"""When an expression fires and when attempts are made, as JSON, with each change of a clock in a sentence.

The command line, the Python API and the control API all answer from here.
"""

from __future__ import annotations

from collections.abc import Iterable

from emulator.core.errors import InvalidInput
from emulator.core.language import cron, expressions
from emulator.core.language.calendar import MINUTE_MS
from emulator.core.language.cron import CronSchedule
from emulator.core.rules.clock import LATEST_MS
from emulator.queries.meanings import ClockChange, Effect, Firing, Rung, firings, ladder
from emulator.wire.durations import format_duration
from emulator.wire.fields import read_field
from emulator.wire.instants import iso, local_iso
from emulator.wire.json_fields import Json
from emulator.wire.reasons import arithmetic

# So many firings at most, and so many retries: no plan allows more.
MAX_COUNT = 1_000
MAX_RETRIES = expressions.PROBED_RETRIES


def firings_of(expression: str, start_ms: int, count: int) -> dict[str, Json]:
    """When a cron expression fires after an instant. Raises InvalidInput for `expression`."""
    schedule = read_field("expression", expression, cron.parse)
    return firings_view(schedule, start_ms, firings(schedule, start_ms, count))


def attempts_of(retry_delay: str | None, retries: int, start_ms: int | None) -> dict[str, Json]:
    """The attempts by a retry delay, or None for the default backoff. Raises InvalidInput: `retry_delay`, `from`."""
    rungs = read_field("retry_delay", retry_delay, lambda expression: list(ladder(expression, retries)))
    if start_ms is not None and start_ms + rungs[-1].after_ms > LATEST_MS:
        raise InvalidInput("from", "expected an instant from which the attempts end in the year 9999 at the latest")
    return ladder_view(retry_delay, rungs, start_ms)


def firings_view(schedule: CronSchedule, after_ms: int, firings: Iterable[Firing]) -> dict[str, Json]:
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


def ladder_view(retry_delay: str | None, rungs: Iterable[Rung], first_ms: int | None) -> dict[str, Json]:
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
            for each in rungs
        ],
    }


def explanation(firing: Firing) -> str | None:
    """What changes of the zone's clock did to a firing, None without any."""
    return "; ".join(_sentence(change) for change in firing.changes) or None


def _sentence(change: ClockChange) -> str:
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
