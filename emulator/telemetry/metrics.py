"""The metrics in the text format of Prometheus: what was counted, and what the worlds hold now."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

from emulator.core.model.messages import Phase
from emulator.telemetry.counts import BOUNDS, Key, Labels, Values
from emulator.version import VERSION
from emulator.worlds.world import World

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_PREFIX = "svc_emulator"


@dataclass(frozen=True, slots=True)
class Family:
    """What the lines of a metric begin with: its name without the prefix, what it is, and its labels."""

    name: str
    text: str
    labels: tuple[str, ...] = ()

    @property
    def full_name(self) -> str:
        return f"{_PREFIX}_{self.name}"


# Counters, without `_total`.
COUNTERS = (
    Family("published", "Messages accepted, publishes deduplicated, and publishes refused.", ("api", "outcome")),
    Family(
        "attempts", "Attempts that have come back, duplicates included.", ("destination", "outcome", "status_class")
    ),
    Family("retries", "Retries that were scheduled.", ("destination",)),
    Family("dead_letters", "Messages that became dead letters.", ("destination", "reason")),
    Family("schedule_firings", "Firings of schedules.", ("schedule", "outcome")),
    Family("workflow_runs", "Workflow runs that have started, and that have ended, by how.", ("state",)),
    Family("workflow_steps", "Steps that workflow runs have accepted.", ("type",)),
)
HISTOGRAMS = (
    Family("attempt_duration", "Real time that attempts took which left the emulator.", ("destination",)),
    Family("delivery_lag", "Virtual time from when an attempt was due to its start."),
)
# Of the server, whichever worlds it has.
SERVER_COUNTERS = (
    Family("api_requests", "Answered calls of all APIs, by the path of the operation.", ("route", "status")),
    Family("trace_spans", "Spans of exported traces, by what became of them.", ("outcome",)),
)
SERVER_HISTOGRAMS = (Family("api_request_duration", "Real time from a call to the end of its answer.", ("route",)),)
GAUGES = {
    "messages": Family("messages", "Live messages by what they wait for.", ("state",)),
    "queue_waiting": Family("queue_waiting", "Due messages that wait for a slot of a queue.", ("queue",)),
    "flow_control_waiting": Family("flow_control_waiting", "Due messages that wait for a flow control key.", ("key",)),
    "flow_control_active": Family("flow_control_active", "Attempts under way by flow control key.", ("key",)),
    "worlds": Family("worlds", "Worlds of the server."),
    "journal_bytes": Family("journal_bytes", "Size of the databases of the worlds."),
    "clock_seconds": Family("clock_seconds", "Virtual time since the Unix epoch."),
    "clock_rate": Family("clock_rate", "Rate of the virtual clock: 0 is frozen, 1 real time."),
    "clock_slip_seconds": Family("clock_slip_seconds", "Virtual time lost since the rate was set last."),
}
BUILD_INFO = Family("build_info", "The version of the emulator, as a label.", ("version",))


def exposition(worlds: Sequence[World], clock: World | None, values: Values, server: Values | None, size: int) -> bytes:
    """All metrics. `values` is what `worlds` have counted, `clock` the world whose clock is shown, `size` in bytes.

    Without `server`, what is of no single world is left out.
    """
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collected([*_counted(values, COUNTERS, HISTOGRAMS), *_present(worlds, clock, size)]))
    if server is not None:
        info = GaugeMetricFamily(BUILD_INFO.full_name, BUILD_INFO.text, labels=BUILD_INFO.labels)
        info.add_metric((VERSION,), 1)
        registry.register(_Collected([*_counted(server, SERVER_COUNTERS, SERVER_HISTOGRAMS), info]))
        ProcessCollector(registry=registry)
    return generate_latest(registry)


class _Collected:
    """What prometheus-client reads metrics from."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = tuple(families)

    def collect(self) -> Iterator[Metric]:
        return iter(self._families)


def _counted(values: Values, counters: Sequence[Family], histograms: Sequence[Family]) -> Iterator[Metric]:
    counted: dict[str, list[tuple[Key, int]]] = {}
    for (name, *labels), count in sorted(values.counters.items()):
        counted.setdefault(name, []).append((tuple(labels), count))
    for family in counters:
        counter = CounterMetricFamily(family.full_name, family.text, labels=family.labels)
        for key, count in counted.get(family.name, ()):
            counter.add_metric(key, count)
        yield counter
    for family in histograms:
        histogram = HistogramMetricFamily(f"{family.full_name}_seconds", family.text, labels=family.labels)
        for (name, *labels), numbers in sorted(values.histograms.items()):
            if name == family.name:
                histogram.add_metric(labels, list(_buckets(family.name, numbers)), numbers[-1])
        yield histogram


def _buckets(name: str, numbers: Sequence[float]) -> Iterator[tuple[str, float]]:
    """Each bound with the number of all values up to it."""
    so_far = 0.0
    for bound, count in zip((*BOUNDS[name], float("inf")), numbers, strict=False):
        so_far += count
        yield "+Inf" if bound == float("inf") else str(float(bound)), so_far


def _present(worlds: Sequence[World], clock: World | None, size: int) -> Iterator[Metric]:
    """What the worlds hold now, together."""
    names = ("messages", "queue_waiting", "flow_control_waiting", "flow_control_active")
    found: dict[str, Counter[str]] = {name: Counter() for name in names}
    found["messages"].update({phase.lower(): 0 for phase in (Phase.PENDING, Phase.HELD, Phase.ACTIVE, Phase.RETRYING)})
    queues, keys = Labels(), Labels()
    for world in worlds:
        phases = Counter([progress.phase for progress in world.state.messages.values()])
        found["messages"].update({phase.lower(): count for phase, count in phases.items()})
        for owner in world.state.accounts.values():
            for queue, waiting in owner.queue_wait_lists.items():
                found["queue_waiting"][queues.of(queue)] += len(waiting)
            for key, flow in owner.flow_keys.items():
                found["flow_control_active"][keys.of(key)] += flow.active
            for key, waiting in owner.flow_wait_lists.items():
                found["flow_control_waiting"][keys.of(key)] += len(waiting)
    for name, counts in found.items():
        gauge = GaugeMetricFamily(GAUGES[name].full_name, GAUGES[name].text, labels=GAUGES[name].labels)
        for label, count in counts.items():
            gauge.add_metric((label,), count)
        yield gauge
    alone: dict[str, float] = {"worlds": len(worlds), "journal_bytes": size}
    if clock is not None:
        alone["clock_seconds"] = clock.clock.now_ms / 1000
        alone["clock_rate"] = clock.pace.rate
        alone["clock_slip_seconds"] = clock.pace.slipped_ms / 1000
    for name, value in alone.items():
        yield GaugeMetricFamily(GAUGES[name].full_name, GAUGES[name].text, value=value)
