"""The records of history, and the queries that ask for them.

History is a view of facts. The journal stores and finds it; the wire layer shows it.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Generic, TypeVar

from emulator.core.model.answers import AttemptOutcome, Response
from emulator.core.model.messages import EventState, Message
from emulator.core.model.names import AccountId, DeadLetterId, MessageId
from emulator.core.record import Record
from emulator.queries.message_log import AnsweringRule

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


class EventQuery(Record):
    """A page of the event log; values of one field are OR-ed, fields AND-ed.

    `in_progress` is one more value of `states`: the entries of messages that have not ended.
    `since_ms` is the end of the retention, `newest` the number of entries the plan keeps.
    """

    account_id: AccountId
    count: int
    cursor: str | None = None
    latest_first: bool = True
    message_ids: tuple[str, ...] = ()
    states: tuple[EventState, ...] = ()
    in_progress: bool = False
    urls: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    url_groups: tuple[str, ...] = ()
    schedule_ids: tuple[str, ...] = ()
    queues: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    flow_keys: tuple[str, ...] = ()
    caller_ips: tuple[str, ...] = ()
    from_ms: int | None = None
    to_ms: int | None = None
    since_ms: int = 0
    newest: int | None = None


class MessageFilter(Record):
    """What a listing of the control API asks of messages; all that is given holds together.

    `url` is exact or a glob. `id` is an id or its end, `text` a part of the id, the URL or a label in any case.
    """

    url: str | None = None
    label: str | None = None
    schedule_id: str | None = None
    queue: str | None = None
    id: str | None = None
    text: str | None = None


ANY_MESSAGE = MessageFilter()


class DeadLetterEntry(Record):
    """A dead letter with its message and the last attempt's outcome; that of a workflow run has the run's number."""

    dead_letter_id: DeadLetterId
    failed_ms: int
    message: Message
    outcome: AttemptOutcome
    run_number: int | None = None


class CallbackState(StrEnum):
    """Where the call of a run's failure function stands."""

    IN_PROGRESS = "CALLBACK_INPROGRESS"
    SUCCESS = "CALLBACK_SUCCESS"
    FAIL = "CALLBACK_FAIL"
    CANCELED = "CALLBACK_CANCELED"


class WorkflowDeadLetters(Record):
    """Which dead letters of workflow runs are meant: values of one field are OR-ed, fields AND-ed."""

    urls: tuple[str, ...] = ()
    run_ids: tuple[str, ...] = ()
    created_ms: int | None = None
    callback_states: tuple[CallbackState, ...] = ()


class DeadLetterQuery(Record):
    """A page of the dead letter queue, or of that of workflow runs; values of one field are OR-ed, fields AND-ed.

    Without an account of all accounts.
    """

    account_id: AccountId | None
    count: int
    cursor: str | None = None
    latest_first: bool = False
    dead_letter_ids: tuple[str, ...] = ()
    message_ids: tuple[str, ...] = ()
    urls: tuple[str, ...] = ()
    url_groups: tuple[str, ...] = ()
    schedule_ids: tuple[str, ...] = ()
    queues: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    flow_keys: tuple[str, ...] = ()
    caller_ips: tuple[str, ...] = ()
    response_statuses: tuple[int, ...] = ()
    from_ms: int | None = None
    to_ms: int | None = None
    workflow: WorkflowDeadLetters | None = None
    wanted: MessageFilter = ANY_MESSAGE


class Delivery(Record):
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
    """A page of the delivery journal. `url` is exact or a glob; `outcome` as in the control API."""

    limit: int = 100
    cursor: str | None = None
    url: str | None = None
    message_id: str | None = None
    outcome: str | None = None
    latest_first: bool = False


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
