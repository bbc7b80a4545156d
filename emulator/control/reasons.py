"""The reasons why a message is where it is: one record a kind, whose encoding is the JSON.

`explain.py` makes the chain of them. A field that a kind of reason does not have is left out; one that has no
value is null.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

from msgspec import Meta

from emulator.control.records import TWIN, Instant, InstantMs, PositiveNumber, Status, Text, View, WholeNumber
from emulator.control.waiting import MAX_HOLDERS, WaitListKind
from emulator.core.model.messages import CreatedBy, HoldReason, Phase, Via
from emulator.core.record import AccountId, DeadLetterId, MessageId, RuleId
from emulator.core.rules.retries import RetryReason


class Cause(StrEnum):
    """Why there was no further attempt, or why a dead letter left its queue."""

    RETRIES_EXHAUSTED = "retries_exhausted"
    NON_RETRYABLE = "non_retryable"
    RETRIED = "retried"
    DELETED = "deleted"
    EXPIRED = "expired"
    SIZE = "size"


class Reason(View):
    """One link of a reason chain. Which fields it has depends on its kind."""

    at: Instant = TWIN  #: When it came about.
    at_ms: InstantMs
    kind: str  #: What the reason is about.
    text: Text  #: The reason in one line.


class Created(Reason):
    """The message was accepted."""

    kind: Literal["created"] = "created"
    by: CreatedBy  #: What made the message.
    url_group: str | None  #: The URL group it was published to.
    queue: str | None  #: The queue it was enqueued to.
    schedule_id: str | None  #: The schedule that published it, or whose message this is a retry of.
    source_message_id: MessageId | None  #: The message whose callback it is.
    #: The dead letter that it became, or that it was published again from.
    dead_letter_id: DeadLetterId | None


class Deduplicated(Reason):
    """Later publishes with the same key are answered with this message."""

    kind: Literal["deduplication"] = "deduplication"
    until: Instant = TWIN
    until_ms: InstantMs
    key: Text  #: The deduplication key.
    repeats: WholeNumber  #: How many publishes were answered with this message instead of a new one.
    last_repeat: Instant | None = TWIN  #: When the last of them was.
    last_repeat_ms: InstantMs | None


class NotApplied(Reason):
    """What was given and does not apply to a queued message."""

    kind: Literal["not_applied"] = "not_applied"
    #: Configuration headers that were given and do not apply to a queued message (D-021).
    headers: Annotated[tuple[str, ...], Meta(min_length=1)]


class OfRealTime(Reason):
    """The not-before given was near real time, and far from the virtual clock (D-507)."""

    kind: Literal["real_time"] = "real_time"
    not_before: Instant = TWIN  #: The not-before given, near real time and far from the virtual clock.
    not_before_ms: InstantMs


class Delayed(Reason):
    """The first attempt was not to come before an instant."""

    kind: Literal["delayed"] = "delayed"
    until: Instant = TWIN
    until_ms: InstantMs
    delay_ms: WholeNumber  #: The delay in milliseconds.


class HeldBack(Reason):
    """The message was due and waited, or still does."""

    kind: Literal["held"] = "held"
    line: WaitListKind  #: What held the message.
    #: The name of the queue, the key, or the destination's scheme, host and port; null for the global parallelism.
    name: str | None
    reason: HoldReason  #: Why: a pause, parallelism or a rate that is used up, or a loop of the destination.
    until: Instant | None = TWIN  #: When the reason ended, or will end; null while it has no end.
    until_ms: InstantMs | None
    position: PositiveNumber | None = None  #: Its place in the wait list, from 1; null if it has left it.
    length: PositiveNumber | None = None  #: How long the wait list is; null if it has left it.
    #: The first messages that have what it waits for.
    holders: Annotated[tuple[MessageId, ...], Meta(max_length=MAX_HOLDERS)] = ()
    earliest: Instant | None = TWIN  #: The first instant at which a rate can let it through; null where none is known.
    earliest_ms: InstantMs | None = None


class Attempted(Reason):
    """An attempt, back or under way."""

    kind: Literal["attempt"] = "attempt"
    attempt: PositiveNumber  #: Which attempt it was, from 1.
    finished: Instant | None = TWIN  #: When it came back; null while it is under way.
    finished_ms: InstantMs | None = None
    due: Instant | None = TWIN  #: When the retry is due, or when a rule's latency lets the answer through.
    due_ms: InstantMs | None = None
    via: Via | None = None  #: What answered; null while it is under way.
    status: Status | None = None  #: The status of the answer, if there was one.
    error: str | None = None  #: Why there was no answer.
    rule_id: RuleId | None  #: The destination rule that decided the attempt.
    rule_url: str | None  #: What that rule matches.
    forward_to: str | None  #: Where that rule forwards to.


class BackedOff(Reason):
    """A retry was set."""

    kind: Literal["backoff"] = "backoff"
    retry: PositiveNumber  #: Which retry was set, from 1.
    retries: PositiveNumber  #: How many retries the message has at most.
    due: Instant = TWIN
    due_ms: InstantMs
    delay_ms: WholeNumber
    set_by: RetryReason
    arithmetic: Text  #: How the delay came about, in one line.
    header: str | None  #: The value of the hint in the answer, obeyed or not.
    expression: str | None  #: The message's expression, if it was asked.


class CalledBack(Reason):
    """An outcome was sent to a callback, which is a message of its own."""

    kind: Literal["callback"] = "callback"
    message_id: MessageId
    failure: bool  #: Whether it is the failure callback.


class DeliveredAgain(Reason):
    """A rule had an attempt made again (D-421)."""

    kind: Literal["duplicate"] = "duplicate"
    attempt: PositiveNumber


class SentAgain(Reason):
    """A call had an attempt sent again (D-705)."""

    kind: Literal["redelivery"] = "redelivery"
    attempt: PositiveNumber


class CancelAsked(Reason):
    """Somebody asked for the message's cancellation."""

    kind: Literal["cancel_requested"] = "cancel_requested"


class Delivered(Reason):
    """The last attempt was answered with 2xx."""

    kind: Literal["delivered"] = "delivered"
    attempts: WholeNumber  #: How many attempts there were.


class Failed(Reason):
    """No further attempt: the message became a dead letter."""

    kind: Literal["failed"] = "failed"
    attempts: WholeNumber
    cause: Cause  #: Why it failed, or why the dead letter left its queue.
    dead_letter_id: DeadLetterId | None


class Canceled(Reason):
    """It was cancelled."""

    kind: Literal["canceled"] = "canceled"
    attempts: WholeNumber


class DeadLetterRemoved(Reason):
    """The dead letter left its queue."""

    kind: Literal["dead_letter_removed"] = "dead_letter_removed"
    cause: Cause
    message_id: MessageId | None  #: The message that was published again from it.


class Explanation(View):
    """The state of a message, and why it is in it."""

    message_id: MessageId  #: The message.
    account_id: AccountId  #: The queue account it belongs to.
    url: Text  #: The destination of the message.
    state: Phase  #: Its state.
    summary: Text  #: One sentence about that.
    #: The reasons, in the order in which they came about.
    reasons: Annotated[tuple[Reason, ...], Meta(min_length=1)]
