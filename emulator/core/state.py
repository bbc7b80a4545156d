"""The only function that changes a world's state.

`State.apply` decides nothing: it records what a fact says and arms the timers that follow from
it. Decisions see the same object through `state_view.StateView`, which has no `apply`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from emulator.core import facts
from emulator.core.changes import accounts, expiries, flow_control, messages, resources, schedules, workflows
from emulator.core.contents import Contents


def _clock_moved(contents: Contents, fact: facts.ClockMoved) -> None:
    contents.now_ms = fact.now_ms


# What changes the contents of a world for each type of fact. A test proves that every fact has an entry.
CHANGES: Mapping[type[Any], Callable[[Contents, Any], None]] = {
    facts.ClockMoved: _clock_moved,
    facts.MessageCreated: messages.message_created,
    facts.PublishDeduplicated: messages.publish_deduplicated,
    facts.MessageHeld: messages.message_held,
    facts.QueueSlotTaken: messages.queue_slot_taken,
    facts.QueueSlotReleased: messages.queue_slot_released,
    facts.AttemptStarted: messages.attempt_started,
    facts.DeliveryPostponed: messages.delivery_postponed,
    facts.DuplicateScheduled: messages.duplicate_scheduled,
    facts.DuplicateStarted: messages.duplicate_started,
    facts.DuplicateFinished: messages.duplicate_finished,
    facts.ResponseDelayed: messages.response_delayed,
    facts.AttemptFinished: messages.attempt_finished,
    facts.RetryScheduled: messages.retry_scheduled,
    facts.MessageDelivered: messages.message_delivered,
    facts.MessageFailed: messages.message_failed,
    facts.MessageGivenUp: messages.message_given_up,
    facts.CancelRequested: messages.cancel_requested,
    facts.MessageCanceled: messages.message_canceled,
    facts.DeduplicationsExpired: expiries.deduplications_expired,
    facts.DeadLettersRemoved: expiries.dead_letters_removed,
    facts.ScheduleWritten: schedules.schedule_written,
    facts.ScheduleFired: schedules.schedule_fired,
    facts.SchedulePaused: schedules.schedule_paused,
    facts.ScheduleResumed: schedules.schedule_resumed,
    facts.ScheduleDeleted: schedules.schedule_deleted,
    facts.UrlGroupWritten: resources.url_group_written,
    facts.UrlGroupDeleted: resources.url_group_deleted,
    facts.QueueWritten: resources.queue_written,
    facts.QueueDeleted: resources.queue_deleted,
    facts.RuleAdded: resources.rule_added,
    facts.RulesRemoved: resources.rules_removed,
    facts.RulesOrdered: resources.rules_ordered,
    facts.SearchIndexCreated: resources.search_index_created,
    facts.SearchIndexChanged: resources.search_index_changed,
    facts.SearchIndexDeleted: resources.search_index_deleted,
    facts.FlowKeyChanged: flow_control.flow_key_changed,
    facts.FlowCountersReset: flow_control.flow_counters_reset,
    facts.RateWindowOpened: flow_control.rate_window_opened,
    facts.RunStarted: workflows.run_started,
    facts.RunRewritten: workflows.run_rewritten,
    facts.StepAccepted: workflows.step_accepted,
    facts.RunEnded: workflows.run_ended,
    facts.WaitBegan: workflows.wait_began,
    facts.WaitEnded: workflows.wait_ended,
    facts.EventSaved: workflows.event_saved,
    facts.SavedEventTaken: workflows.saved_event_taken,
    facts.AccountChanged: accounts.account_changed,
    facts.AccountSettled: accounts.account_settled,
    facts.AccountTokenRotated: accounts.account_token_rotated,
    facts.SigningKeysRotated: accounts.signing_keys_rotated,
}


class State(Contents):
    """One world: its contents, and how facts change them."""

    def apply(self, fact: facts.Fact) -> None:
        """Record one fact. Raises WorldBroken for one that cannot follow on the present state."""
        CHANGES[type(fact)](self, fact)
