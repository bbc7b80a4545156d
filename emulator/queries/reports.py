"""The control API's requests to a world and its reports: plain records, no rules.

Times are milliseconds since the Unix epoch on the virtual clock; `wall_ms` alone is real time.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from emulator.core.model.messages import HeldDestination
from emulator.core.record import AccountId, AsDatetime, Record

DEFAULT_MAX_DELIVERIES = 1_000_000
DEFAULT_HORIZON_MS = 30 * 86_400_000


class ClockStatus(Record):
    """The state of a clock. `rate` 0 is frozen, 1 real time; `pending` counts live messages.

    `slipped_ms` is the virtual time that the clock has lost since its rate was set. `held` are the destinations
    to which nothing leaves.
    """

    # D-300, D-785.

    now_ms: int
    rate: float
    next_due_ms: int | None
    pending: int
    in_flight: int
    slipped_ms: int = 0
    held: tuple[HeldDestination, ...] = ()

    now = AsDatetime[datetime]("now_ms")
    next_due = AsDatetime[datetime | None]("next_due_ms")


class Until(StrEnum):
    """Until what a clock is advanced; true once it is so, which is looked at after each instant (D-708)."""

    INSTANT = "instant"
    NEXT = "next"
    IDLE = "idle"
    DEAD_LETTERS = "dead-letters"  # the world holds a dead letter, of a message or of a run
    MESSAGE = "message"  # that message has ended
    RUN = "run"  # that run has ended
    DELIVERIES = "deliveries"  # so many were made by this advance


class UntilCondition(Record):
    """A condition with what belongs to it: `id` to a message or a run, `number` to an instant (ms) or deliveries."""

    kind: Until
    id: str = ""
    number: int = 0


class AdvanceReport(Record):
    """What a clock advance did. `stopped` names what ended it early; `idle` is the answer of a drain only.

    `reached` is that of an advance until a condition only: whether it is so. `held` are the destinations to
    which nothing leaves at its end.
    """

    from_ms: int
    to_ms: int
    deliveries: int
    succeeded: int
    failed: int
    schedules_fired: int
    messages_created: int
    wall_ms: int
    stopped: str | None
    idle: bool | None
    reached: bool | None = None
    held: tuple[HeldDestination, ...] = ()

    from_ = AsDatetime[datetime]("from_ms")
    to = AsDatetime[datetime]("to_ms")


# Why an advance ended before its condition was true.
_ENDED = {
    "max_deliveries": "as many deliveries were made as it may make",
    "horizon": "the horizon came first (give a longer one)",
    "nothing_due": "nothing is due any more that could make it true",
}


def ended_by(stopped: str | None) -> str:
    """Why an advance ended before its condition was true, by the `stopped` of its report."""
    return _ENDED.get(stopped or "", "it was ended")


def not_reached(until: str, report: AdvanceReport) -> str:
    """What an advance says that ended before its condition was true."""
    return f"until {until}: not reached, {ended_by(report.stopped)}; the clock stands at {report.to:%Y-%m-%dT%H:%M:%S}Z"


class ClockChange(Record):
    """A new rate, a new instant, or both; at least one is set."""

    rate: float | None
    now_ms: int | None


class AdvanceRequest(Record):
    """How far to advance: by a duration, to an instant, or until a condition, exactly one of them.

    `horizon_ms` is how far at most until a condition.
    """

    by_ms: int | None
    to_ms: int | None
    max_deliveries: int = DEFAULT_MAX_DELIVERIES
    undoable: bool = False
    until: UntilCondition | None = None
    horizon_ms: int = DEFAULT_HORIZON_MS


class DrainRequest(Record):
    """Run until nothing but schedules is due, at most `horizon_ms` further on."""

    horizon_ms: int = DEFAULT_HORIZON_MS
    max_deliveries: int = DEFAULT_MAX_DELIVERIES
    undoable: bool = False


class Snapshot(Record):
    """A saved world: where its clock stood, how many live messages it had, and how large its file is."""

    name: str
    now_ms: int
    pending: int
    size_bytes: int

    now = AsDatetime[datetime]("now_ms")


class Credentials(Record):
    """All a client needs to use a world: both APIs' credentials, and the ids it can ask for."""

    account_id: AccountId
    token: str
    read_only_token: str
    current_signing_key: str
    next_signing_key: str
    username: str
    password: str
    search_index_ids: tuple[str, ...]
    vector_index_ids: tuple[str, ...]
