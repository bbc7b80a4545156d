"""Everything that is recorded of one message, in order. Explanations are made of it.

The event log and the delivery journal show what a client of the service sees. What only an
explanation needs is recorded beside them: annotations, and which rule answered an attempt.
"""

from __future__ import annotations

from enum import StrEnum

from emulator.core.model.answers import AttemptOutcome, DestinationRule, Disturbance, Fault
from emulator.core.model.messages import EventState, HoldKind, HoldReason, Message
from emulator.core.model.names import RuleId
from emulator.core.model.options import Method
from emulator.core.record import Record


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
    CALLBACK = "callback"  # it caused a callback (the callback's message id)
    FAILURE_CALLBACK = "failure_callback"  # and a failure callback (its message id)
    DEAD_LETTER = "dead_letter"  # it became a dead letter (its id)
    DEAD_LETTER_REMOVED = "dead_letter_removed"  # the dead letter left the queue (the cause)
    DUPLICATE = "duplicate"  # an attempt was delivered again (the attempt's number and how that went)
    PUBLISHED_AGAIN = "published_again"  # the dead letter was retried (the new message's id)


HOLDS = {
    HoldKind.QUEUE: AnnotationKind.QUEUE_HOLD,
    HoldKind.FLOW_CONTROL: AnnotationKind.KEY_HOLD,
    HoldKind.GLOBAL: AnnotationKind.GLOBAL_HOLD,
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
