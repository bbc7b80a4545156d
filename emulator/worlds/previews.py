"""What will happen and why things are as they are: answers from the live state and the journal together."""

from __future__ import annotations

from collections.abc import Sequence

from emulator.core.errors import NotFound
from emulator.core.model.names import MessageId, ScheduleId
from emulator.core.rules.retention import READABLE_AFTER_END_MS
from emulator.core.state_view import StateView
from emulator.journal.message_logs import MessageLogs
from emulator.journal.store import Store
from emulator.queries import explanations, upcoming
from emulator.queries.explanations import Explanation
from emulator.queries.history import EndedMessage
from emulator.queries.schedule_explanations import ScheduleExplanation, explain_schedule
from emulator.queries.upcoming import LAST_MS, Upcoming, UpcomingQuery
from emulator.wire.instants import iso


class Previews:
    """Previews and explanations of one world. They change nothing."""

    def __init__(self, state: StateView, store: Store) -> None:
        self._state = state
        self._store = store
        self._logs = MessageLogs(store)

    async def upcoming(self, query: UpcomingQuery) -> Upcoming:
        """The due work to come, without doing it."""
        ended: Sequence[EndedMessage] = ()
        if query.expiries:
            ended = await self._logs.ended_after(self._state.now_ms - READABLE_AFTER_END_MS, query.limit + 1)
        found = upcoming.preview(self._state, query, last_ms=LAST_MS, ended=ended)
        failures = await self._logs.last_failures(upcoming.retrying(found))
        return upcoming.with_delays(found, failures)

    async def explain(self, message_id: MessageId) -> Explanation:
        """The reason chain of a message, live or ended. Raises NotFound for an id that no message has had."""
        while True:
            before = self._state.messages.get(message_id)
            log = await self._logs.find(message_id)
            # State and log must be of the same moment: the message may have changed while the log was read.
            if self._state.messages.get(message_id) is before:
                break
        if log is None:
            dropped = self._store.dropped.at_ms
            hint = f"; history up to {iso(dropped)} is not kept any more (--keep-history)" if dropped else ""
            raise NotFound(f"message {message_id} not found{hint}")
        return explanations.explain(self._state, log)

    def explain_schedule(self, schedule_id: ScheduleId) -> ScheduleExplanation:
        """Where a schedule stands; of the first account that has one of this id. Raises NotFound."""
        for owner in self._state.accounts.values():
            progress = owner.schedules.get(schedule_id)
            if progress is not None:
                return explain_schedule(self._state, progress)
        raise NotFound(f"schedule {schedule_id} not found")
