"""The records of history, the queries that ask for them, and the messages of a world as a list, live and ended.

History is a view of facts. The journal stores and finds it; the wire layer shows it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Generic, TypeVar

from emulator.core.message_facts import FINAL
from emulator.core.model.messages import (
    Attempt,
    AttemptOutcome,
    EventState,
    HoldKind,
    HoldReason,
    Message,
    MessageConditions,
    Phase,
    Progress,
    Response,
)
from emulator.core.model.options import Method
from emulator.core.model.resources import DestinationRule, Disturbance, Fault
from emulator.core.record import AccountId, DeadLetterId, MessageId, Record, RuleId
from emulator.core.rules.attempts import reason_to_hold
from emulator.core.state import StateView, subject_of

# -- the log of one message ---------------------------------------------------------------------
# Everything that is recorded of one message, in order. Explanations are made of it.
#
# The event log and the delivery journal show what a client of the service sees. What only an
# explanation needs is recorded beside them: annotations, and which rule answered an attempt.


class AnsweringRule(Record, omit_defaults=True):
    """The destination rule that decided an attempt, without what it answered: that is in the outcome.

    With a `disturbance` it may have decided nothing about the answer.
    """

    rule_id: RuleId
    url: str
    method: Method | None
    forward_to: str | None
    fault: Fault | None
    disturbance: Disturbance | None = None


class AnnotationKind(StrEnum):
    """What an annotation is about, and in brackets what its name says."""

    DEDUPLICATION = "deduplication"  # later publishes may be answered with it (the key)
    DEDUPLICATED = "deduplicated"  # a later publish was answered with it
    QUEUE_HOLD = "queue_hold"  # it waits for a queue (its name)
    KEY_HOLD = "key_hold"  # it waits for a flow control key (the key)
    GLOBAL_HOLD = "global_hold"  # it waits for the account's parallelism
    DESTINATION_HOLD = "destination_hold"  # its destination is held (the origin of that)
    CALLBACK = "callback"  # it caused a callback (the callback's message id)
    FAILURE_CALLBACK = "failure_callback"  # and a failure callback (its message id)
    DEAD_LETTER = "dead_letter"  # it became a dead letter (its id)
    DEAD_LETTER_REMOVED = "dead_letter_removed"  # the dead letter left the queue (the cause)
    REDELIVERY = "redelivery"  # a call had an attempt sent again (the attempt's number and how that went)
    DUPLICATE = "duplicate"  # an attempt was delivered again (the attempt's number and how that went)
    PUBLISHED_AGAIN = "published_again"  # the dead letter was retried (the new message's id)


HOLDS = {
    HoldKind.QUEUE: AnnotationKind.QUEUE_HOLD,
    HoldKind.FLOW_CONTROL: AnnotationKind.KEY_HOLD,
    HoldKind.GLOBAL: AnnotationKind.GLOBAL_HOLD,
    HoldKind.DESTINATION: AnnotationKind.DESTINATION_HOLD,
}


class Annotation(Record):
    """Something that neither the event log nor the delivery journal shows. `reason` is a hold's."""

    at_ms: int
    kind: AnnotationKind
    name: str = ""
    reason: HoldReason | None = None


class LoggedEvent(Record):
    """An entry of the event log. `next_delivery_ms` is set on retries."""

    at_ms: int
    state: EventState
    next_delivery_ms: int | None = None


class RecordedAttempt(Record):
    """An attempt that has come back, at its end. `answered_by` is the rule that decided it, if one did."""

    at_ms: int
    started_ms: int
    number: int
    outcome: AttemptOutcome
    answered_by: AnsweringRule | None = None


Entry = LoggedEvent | RecordedAttempt | Annotation


class MessageLog(Record):
    """A message and its entries, in the order in which things happened."""

    message: Message
    entries: tuple[Entry, ...]


class Failure(Record):
    """The last failed attempt of a message: what the delay of its retry follows from."""

    number: int
    at_ms: int
    outcome: AttemptOutcome


def answering(rule: DestinationRule) -> AnsweringRule:
    """What is recorded of a rule with the attempts that it decides."""
    return AnsweringRule(
        rule_id=rule.rule_id, url=rule.url, method=rule.method, forward_to=rule.forward_to, fault=rule.fault
    )


# -- history ------------------------------------------------------------------------------------

T = TypeVar("T")


class Page(Record, Generic[T]):
    """One page of a listing; `cursor` continues it, None is the last page."""

    items: tuple[T, ...]
    cursor: str | None


class Event(Record):
    """One entry of the event log (D-013). `response` and `error` belong to ERROR and FAILED entries."""

    seq: int
    at_ms: int
    state: EventState
    message: Message
    error: str | None
    response: Response | None
    next_delivery_ms: int | None


class MessageEvents(Record):
    """A message with the entries of the event log that are about it."""

    message: Message
    events: tuple[Event, ...]


class EventQuery(MessageConditions, kw_only=True):
    """A page of the event log.

    `in_progress` is one more value of `states`: the entries of messages that have not ended.
    `since_ms` is the end of the retention, `newest` the number of entries the plan keeps.
    """

    account_id: AccountId
    count: int
    cursor: str | None = None
    latest_first: bool = True
    states: tuple[EventState, ...] = ()
    in_progress: bool = False
    hosts: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    since_ms: int = 0
    newest: int | None = None


class HistoryFilter(Record):
    """What a listing of the control API asks of messages; all that is given holds together.

    `url` is exact or a glob. `id` is an id or its end, `text` a part of the id, the URL or a label in any case, also of
    the run of a message. `run` is the id of the run.
    """

    url: str | None = None
    label: str | None = None
    schedule_id: str | None = None
    queue: str | None = None
    id: str | None = None
    text: str | None = None
    run: str | None = None


ANY_MESSAGE = HistoryFilter()


class CallbackState(StrEnum):
    """Where the call of a run's failure function stands."""

    IN_PROGRESS = "CALLBACK_INPROGRESS"
    SUCCESS = "CALLBACK_SUCCESS"
    FAIL = "CALLBACK_FAIL"
    CANCELED = "CALLBACK_CANCELED"


class DeadLetterEntry(Record):
    """A dead letter with its message and the last attempt's outcome, which a rule may have decided.

    That of a workflow run has the run's number and labels, and how the call of its failure function went, if any.
    """

    dead_letter_id: DeadLetterId
    failed_ms: int
    message: Message
    outcome: AttemptOutcome
    run_number: int | None = None
    answered_by: AnsweringRule | None = None
    run_labels: tuple[str, ...] = ()
    callback_state: CallbackState | None = None


class WorkflowDeadLetters(Record):
    """Which dead letters of workflow runs are meant: values of one field are OR-ed, fields AND-ed."""

    urls: tuple[str, ...] = ()
    run_ids: tuple[str, ...] = ()
    created_ms: int | None = None
    callback_states: tuple[CallbackState, ...] = ()


class DeadLetterQuery(MessageConditions, kw_only=True):
    """A page of the dead letter queue, or of that of workflow runs.

    Without an account of all accounts; with `both` of both queues. A bulk operation that changes the queue gives its
    name as `operation`: what comes after its first page is in none of the others (D-781).
    """

    account_id: AccountId | None
    count: int
    cursor: str | None = None
    operation: str | None = None
    latest_first: bool = False
    dead_letter_ids: tuple[str, ...] = ()
    response_statuses: tuple[int, ...] = ()
    workflow: WorkflowDeadLetters | None = None
    both: bool = False
    wanted: HistoryFilter = ANY_MESSAGE


class RecordedDelivery(Record):
    """One attempt in the delivery journal: what was sent, what came back, on the virtual clock.

    `answered_by` is the rule that decided or disturbed it.
    """

    seq: int
    at_ms: int
    finished_ms: int
    message: Message
    attempt: int
    outcome: AttemptOutcome
    answered_by: AnsweringRule | None = None


class DeliveryQuery(Record):
    """A page of the delivery journal. `wanted` says of which messages; `outcome` as in the control API.

    Attempts began at `since_ms` or later; `seq` is the number of a single one.
    """

    limit: int = 100
    cursor: str | None = None
    message_id: str | None = None
    wanted: HistoryFilter = ANY_MESSAGE
    outcome: str | None = None
    since_ms: int | None = None
    latest_first: bool = False
    seq: int | None = None


class DeliveryCount(Record):
    """How many attempts fit a query, on whichever page, and of how many messages they are."""

    attempts: int
    messages: int


class HistoryPosition(Record):
    """A position in history: after the entry `seq`, 0 for the beginning.

    `generation` names the history itself: a reset or a restore begins another, which counts from 1.
    """

    generation: str
    seq: int


class Dropped(Record):
    """How much of the oldest history was dropped: up to the entry `seq`, which is of the instant `at_ms`."""

    seq: int = 0
    at_ms: int = 0


class EndedMessage(Record):
    """A message that is no longer live, and when it ended."""

    message_id: MessageId
    message: Message
    ended_ms: int


# -- messages as a list: live and ended (D-340) -----------------------------------------------

LIVE = frozenset(Phase) - FINAL


class MessageQuery(Record):
    """A page of the messages of all accounts, the newest first. Without `phases` those of any."""

    limit: int = 100
    cursor: str | None = None
    wanted: HistoryFilter = ANY_MESSAGE
    phases: frozenset[Phase] = frozenset()


class MessageProgress(Record):
    """How far a message has come, as history tells it: attempts begun, the last that came back, and its end."""

    message: Message
    attempts: int
    last: RecordedAttempt | None
    ended: Phase | None
    ended_ms: int | None


class AsOf(Record):
    """What is live at a moment. `last_number` is that of the newest message."""

    last_number: int
    live: Mapping[MessageId, Progress]

    def numbers_in(self, phases: frozenset[Phase]) -> list[int]:
        """The messages in some phases, by their numbers."""
        return [progress.message.number for progress in self.live.values() if progress.phase in phases]


def as_of(state: StateView) -> AsOf:
    """Take it before history is read: every message up to its number is live in it, or has an end in history."""
    return AsOf(last_number=state.counters.messages, live=dict(state.messages))


# -- messages that wait ---------------------------------------------------------------------------


def waiting_to_leave(state: StateView, attempts: Iterable[Attempt]) -> Counter[str]:
    """How many of the attempts that have started and not left count, by account id and by `subject_of` a key.

    The state counts an attempt as active when it starts; its users count those that have left.
    """
    counts: Counter[str] = Counter()
    for attempt in attempts:
        progress = state.messages.get(attempt.message.message_id)
        if progress is None or attempt.is_duplicate or attempt.redelivery:
            continue
        message = progress.message
        counts[message.account_id] += 1
        if progress.dispatch.holds_key_slot and message.policy.flow_control is not None:
            counts[subject_of(message.account_id, message.policy.flow_control.key)] += 1
    return counts


def waiting_for_slots(state: StateView) -> int:
    """How many due messages start as soon as others end; not those that wait for a rate, or for somebody to resume."""
    count = 0
    for owner in state.accounts.values():
        count += len(owner.global_wait_list)
        for name, wait_list in owner.queue_wait_lists.items():
            if wait_list and not ((queue := owner.queues.get(name)) is not None and queue.paused):
                count += len(wait_list)
        for key, wait_list in owner.flow_wait_lists.items():
            if wait_list:
                reason = reason_to_hold(owner.flow_keys[key], state.now_ms)
                count += len(wait_list) if reason is HoldReason.PARALLELISM else 0
    return count
