"""Counting what happens in worlds, for metrics: a few additions a fact, and nothing that grows with messages.

Counters of the server must never go back, while worlds are reset and removed: what a world counted is added to the
sum of the ended ones then (D-725).
"""

from __future__ import annotations

import weakref
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import TypeAlias

import msgspec

from emulator.core.message_facts import (
    AttemptFinished,
    AttemptStarted,
    DuplicateFinished,
    DuplicateStarted,
    MessageCreated,
    MessageFailed,
    PublishDeduplicated,
    RetryScheduled,
)
from emulator.core.model.messages import AttemptOutcome, CreatedBy, Message, Phase
from emulator.core.resource_facts import ScheduleFired
from emulator.core.run_facts import RunEnded, RunStarted, StepAccepted
from emulator.core.state import Fact, StateView, duplicate_subject
from emulator.wire.urls import origin_of
from emulator.worlds.calls import RefusedCalls
from emulator.worlds.world import World

# A metric without prefix and unit, and the values of its labels.
Key: TypeAlias = tuple[str, ...]

OTHER = "other"
_MOST_VALUES = 100

# The upper bounds of the buckets in seconds; one without a bound follows.
DURATIONS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
LAGS = (0, 0.1, 1, 5, 15, 60, 300, 900, 3_600, 21_600, 86_400)
BOUNDS = {"attempt_duration": DURATIONS, "delivery_lag": LAGS, "api_request_duration": DURATIONS}

_LAG = ("delivery_lag",)
_STATUS_CLASSES = {number: f"{number}xx" for number in range(1, 10)}


class Labels:
    """The values of a label: the first hundred that are seen, and `other` for all further ones (D-726)."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {}
        # For the origin of a URL. What a value is called does not change.
        self.of_url = lru_cache(maxsize=4096)(lambda url: self.of(origin_of(url) or OTHER))

    def of(self, value: str) -> str:
        known = self._known.get(value)
        if known is not None:
            return known
        if len(self._known) < _MOST_VALUES:
            return self._known.setdefault(value, value)
        return OTHER


class Values:
    """Counters, and histograms: the number in each bucket, and the sum of all values at the end."""

    __slots__ = ("counters", "histograms")

    def __init__(self) -> None:
        self.counters: Counter[Key] = Counter()
        self.histograms: dict[Key, list[float]] = {}

    def observe(self, key: Key, seconds: float, count: int = 1) -> None:
        found = self.histograms.get(key)
        bounds = BOUNDS[key[0]]
        if found is None:
            found = self.histograms[key] = [0] * (len(bounds) + 2)
        found[bisect_left(bounds, seconds)] += count
        found[-1] += seconds * count

    def add(self, other: Values) -> None:
        self.counters.update(other.counters)
        for key, numbers in other.histograms.items():
            own = self.histograms.get(key)
            self.histograms[key] = list(numbers) if own is None else [a + b for a, b in zip(own, numbers, strict=True)]


class _StepType(msgspec.Struct):
    step_type: str = msgspec.field(name="stepType", default=OTHER)


_read_step_type = msgspec.json.Decoder(_StepType).decode
# Those of the service's clients; an endpoint may write anything.
_STEP_TYPES = frozenset(
    ("Initial", "Run", "SleepFor", "SleepUntil", "Call", "Wait", "Notify", "Invoke", "CreateWebhook", "WaitForWebhook")
)


class WorldCounts:
    """What has happened in one world since it began, in this process."""

    def __init__(self, destinations: Labels, schedules: Labels, refused: RefusedCalls, state: StateView) -> None:
        self._values = Values()
        self._destinations = destinations
        self._schedules = schedules
        self._refused = refused
        # A reset does not empty it.
        self._refused_before = refused.publishes.copy()
        # By message, or duplicate, that is under way: what its outcome is counted for.
        self._under_way: dict[str, str] = {
            progress.message.message_id: self._destination(progress.message)
            for progress in (state.messages.values() if any(each.active for each in state.accounts.values()) else ())
            if progress.phase is Phase.ACTIVE
        }
        self._last: tuple[str, AttemptOutcome] | None = None
        # What every message adds to is counted by what costs least; `values` gives it the names of its labels.
        # Accepted publishes, by what made them; attempts, by destination, status and whether they succeeded.
        self._accepted: dict[str, int] = {}
        self._attempts: dict[tuple[str, int | None, bool], int] = {}
        # Attempts that started when they were due, as almost all do.
        self._on_time = 0

    def values(self) -> Values:
        total = Values()
        total.add(self._values)
        if self._on_time:
            total.observe(_LAG, 0, self._on_time)
        for made_by, count in self._accepted.items():
            total.counters["published", made_by, "accepted"] += count
        for (destination, status, succeeded), count in self._attempts.items():
            said = "succeeded" if succeeded else "failed"
            status_class = "none" if status is None else _STATUS_CLASSES.get(status // 100, OTHER)
            total.counters["attempts", destination, said, status_class] += count
        for api, count in (self._refused.publishes - self._refused_before).items():
            total.counters["published", api, "refused"] += count
        return total

    def count(self, state: StateView, produced: Sequence[Fact]) -> None:
        for fact in produced:
            count = _COUNTED.get(type(fact))
            if count is not None:
                count(self, state, fact)

    def _destination(self, message: Message) -> str:
        """What a message counts for: its URL group, its queue, or the origin of its URL (D-726)."""
        name = message.source.url_group or message.policy.queue
        return self._destinations.of_url(message.url) if name is None else self._destinations.of(name)

    def created(self, state: StateView, fact: MessageCreated) -> None:
        made_by, accepted = fact.message.source.created_by, self._accepted
        accepted[made_by] = accepted.get(made_by, 0) + 1

    def deduplicated(self, state: StateView, fact: PublishDeduplicated) -> None:
        earlier = state.messages.get(fact.message_id)
        api = CreatedBy.PUBLISH if earlier is None else earlier.message.source.created_by
        self._values.counters["published", api, "deduplicated"] += 1

    def started(self, state: StateView, fact: AttemptStarted) -> None:
        progress = state.messages.get(fact.message_id)
        if progress is not None:
            self._under_way[fact.message_id] = self._destination(progress.message)
            lag_ms = fact.at_ms - progress.due_ms
            if lag_ms > 0:
                self._values.observe(_LAG, lag_ms / 1000)
            else:
                self._on_time += 1

    def duplicate_started(self, state: StateView, fact: DuplicateStarted) -> None:
        subject = duplicate_subject(fact.message_id, fact.number, fact.redelivery)
        self._under_way[subject] = self._destination(state.duplicates[subject].message)

    def finished(self, state: StateView, fact: AttemptFinished) -> None:
        destination = self._under_way.pop(fact.message_id, OTHER)
        self._attempt(destination, fact.outcome)
        self._last = destination, fact.outcome

    def duplicate_finished(self, state: StateView, fact: DuplicateFinished) -> None:
        subject = duplicate_subject(fact.message_id, fact.number, fact.outcome.redelivery)
        self._attempt(self._under_way.pop(subject, OTHER), fact.outcome)

    def _attempt(self, destination: str, outcome: AttemptOutcome) -> None:
        response, attempts = outcome.response, self._attempts
        key = destination, None if response is None else response.status, outcome.succeeded
        attempts[key] = attempts.get(key, 0) + 1
        if outcome.took_ms is not None:
            self._values.observe(("attempt_duration", destination), outcome.took_ms / 1000)

    def retried(self, state: StateView, fact: RetryScheduled) -> None:
        # By the command that finished its attempt.
        if self._last is not None:
            self._values.counters["retries", self._last[0]] += 1

    def failed(self, state: StateView, fact: MessageFailed) -> None:
        if self._last is not None:
            destination, outcome = self._last
            reason = "non_retryable" if outcome.non_retryable else "retries_exhausted"
            self._values.counters["dead_letters", destination, reason] += 1

    def fired(self, state: StateView, fact: ScheduleFired) -> None:
        said = "published" if fact.error is None else "refused"
        self._values.counters["schedule_firings", self._schedules.of(fact.schedule_id), said] += 1

    def run_started(self, state: StateView, fact: RunStarted) -> None:
        self._values.counters["workflow_runs", "started"] += 1
        self._values.counters["workflow_steps", "Initial"] += 1

    def run_ended(self, state: StateView, fact: RunEnded) -> None:
        self._values.counters["workflow_runs", fact.state.removeprefix("RUN_").lower()] += 1

    def step(self, state: StateView, fact: StepAccepted) -> None:
        try:
            kind = _read_step_type(fact.step.body).step_type
        except (msgspec.DecodeError, RecursionError):
            kind = OTHER
        self._values.counters["workflow_steps", kind if kind in _STEP_TYPES else OTHER] += 1


_COUNTED: dict[type[Fact], Callable[..., None]] = {
    MessageCreated: WorldCounts.created,
    PublishDeduplicated: WorldCounts.deduplicated,
    AttemptStarted: WorldCounts.started,
    AttemptFinished: WorldCounts.finished,
    DuplicateStarted: WorldCounts.duplicate_started,
    DuplicateFinished: WorldCounts.duplicate_finished,
    RetryScheduled: WorldCounts.retried,
    MessageFailed: WorldCounts.failed,
    ScheduleFired: WorldCounts.fired,
    RunStarted: WorldCounts.run_started,
    RunEnded: WorldCounts.run_ended,
    StepAccepted: WorldCounts.step,
}


class Counts:
    """What happens in all worlds of a server, whose observer it is, and which calls of its APIs are answered."""

    def __init__(self) -> None:
        self._spans: Counter[str] = Counter()
        # Answered calls by path and status: the number of those in each bucket of `DURATIONS`, and the sum of seconds.
        self._requests: dict[tuple[str, int], list[float]] = {}
        self._destinations, self._schedules = Labels(), Labels()
        # By the identity of the world, because a world may be removed and made again under its id.
        self._worlds: dict[int, WorldCounts] = {}
        self._ended = Values()

    def observe(self, world: World, state: StateView, produced: Sequence[Fact]) -> None:
        """See `worlds.world.Observer`."""
        counts = self._worlds.get(id(world))
        if produced and counts is not None:
            counts.count(state, produced)
            return
        if counts is None:
            weakref.finalize(world, partial(self._end, id(world))).atexit = False
        else:
            self._end(id(world))
        counts = WorldCounts(self._destinations, self._schedules, world.refused_calls, state)
        self._worlds[id(world)] = counts
        counts.count(state, produced)

    def _end(self, world: int) -> None:
        """A world begins again, or is gone."""
        self._ended.add(self._worlds.pop(world).values())

    def of(self, world: World) -> Values:
        """What one world has counted since it began."""
        counts = self._worlds.get(id(world))
        return Values() if counts is None else counts.values()

    def of_all(self) -> Values:
        """What all worlds have counted since the server started, those that are gone included."""
        total = Values()
        total.add(self._ended)
        for counts in tuple(self._worlds.values()):
            total.add(counts.values())
        return total

    def requests(self) -> Values:
        """The calls of all APIs since the server started, and the exported spans."""
        total = Values()
        for (route, status), numbers in tuple(self._requests.items()):
            total.counters["api_requests", route, str(status)] += int(sum(numbers[:-1]))
            one = Values()
            one.histograms["api_request_duration", route] = numbers
            total.add(one)
        for outcome, number in tuple(self._spans.items()):
            total.counters["trace_spans", outcome] += number
        return total

    def count_spans(self, outcome: str, number: int) -> None:
        """So many spans were exported, failed or dropped. Threads call it, each with outcomes of its own."""
        self._spans[outcome] += number

    def count_request(self, route: str, status: int, seconds: float) -> None:
        """A call of an API was answered; `route` is the path of its operation."""
        found = self._requests.get((route, status))
        if found is None:
            found = self._requests[route, status] = [0] * (len(DURATIONS) + 2)
        found[bisect_left(DURATIONS, seconds)] += 1
        found[-1] += seconds
