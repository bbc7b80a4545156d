"""The control API's requests to a world and its reports: plain records, no rules.

Times are milliseconds since the Unix epoch on the virtual clock; `wall_ms` alone is real time.
"""

from __future__ import annotations

from emulator.core.model.names import AccountId
from emulator.core.record import Record

DEFAULT_MAX_DELIVERIES = 1_000_000
DEFAULT_HORIZON_MS = 30 * 86_400_000


class ClockStatus(Record):
    """The state of a clock. `rate` 0 is frozen, 1 real time; `pending` counts live messages.

    `slipped_ms` is the virtual time that the clock has lost since its rate was set (D-300).
    """

    now_ms: int
    rate: float
    next_due_ms: int | None
    pending: int
    in_flight: int
    slipped_ms: int = 0


class AdvanceReport(Record):
    """What a clock advance did. `stopped` names what ended it early; `idle` is the answer of a drain only."""

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


class ClockChange(Record):
    """A new rate, a new instant, or both; at least one is set."""

    rate: float | None
    now_ms: int | None


class AdvanceRequest(Record):
    """How far to advance: by a duration or to an instant, exactly one of them."""

    by_ms: int | None
    to_ms: int | None
    max_deliveries: int = DEFAULT_MAX_DELIVERIES
    undoable: bool = False


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
