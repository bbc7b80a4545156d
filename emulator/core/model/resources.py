"""What is made by name and kept: schedules, URL groups, queues and flow control keys."""

from __future__ import annotations

from enum import StrEnum

from emulator.core.model.names import AccountId, FlowKey, GroupName, MessageId, QueueName, ScheduleId
from emulator.core.model.options import DEFAULT_PERIOD_MS, Destination, MessageOptions
from emulator.core.record import Record


class ScheduleRunState(StrEnum):
    """How a message of a schedule's last firing went (D-038)."""

    IN_PROGRESS = "IN_PROGRESS"
    SUCCESS = "SUCCESS"
    FAIL = "FAIL"


class Schedule(Record):
    """A schedule as it was last written: what is published at every firing of `cron`."""

    schedule_id: ScheduleId
    account_id: AccountId
    cron: str
    destination: Destination
    body: bytes
    options: MessageOptions
    caller_ip: str
    created_ms: int


class ScheduleProgress(Record):
    """A schedule and what has come of it; `next_ms` is None while it is paused."""

    schedule: Schedule
    paused: bool = False
    next_ms: int | None
    last_fired_ms: int | None = None
    last_states: tuple[tuple[MessageId, ScheduleRunState], ...] = ()
    error: str | None = None


class Endpoint(Record):
    url: str
    name: str | None


class UrlGroup(Record):
    """A named set of endpoints. `headers` are the default headers as given, `defaults` what they say."""

    name: GroupName
    account_id: AccountId
    endpoints: tuple[Endpoint, ...]
    headers: tuple[tuple[str, tuple[str, ...]], ...]
    defaults: MessageOptions
    created_ms: int
    updated_ms: int


class Queue(Record):
    name: QueueName
    account_id: AccountId
    parallelism: int
    paused: bool
    created_ms: int
    updated_ms: int


class FlowState(Record):
    """One flow control key: its limits, and what they have let through.

    `parallelism` and `rate` are None while no message or pin has set them. `window_start_ms` is
    when the current rate period began, 0 before the first dispatch under a rate.
    """

    key: FlowKey
    account_id: AccountId
    parallelism: int | None = None
    rate: int | None = None
    period_ms: int = DEFAULT_PERIOD_MS
    active: int = 0
    rate_count: int = 0
    window_start_ms: int = 0
    paused: bool = False
    pinned_parallelism: bool = False
    pinned_rate: bool = False
