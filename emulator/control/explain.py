"""`/_emulator/messages/{id}/explain`: why a message is where it is, and the one sentence that sums it up.

The chain of reasons is made of the message's log and of what waits now. A message is explained as long as its
world lasts (D-212). Nothing here decides anything again: the delay of a retry comes from the function that set it,
asked with what was recorded; who answered an attempt and what held a message is recorded as it happened.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, assert_never

from emulator.control import waiting
from emulator.control.call import OWN_QUERY, ControlCall, ControlRoute, read_shown
from emulator.control.reasons import (
    Attempted,
    BackedOff,
    CalledBack,
    CancelAsked,
    Canceled,
    Cause,
    Created,
    DeadLetterRemoved,
    Deduplicated,
    Delayed,
    Delivered,
    DeliveredAgain,
    Explanation,
    Failed,
    HeldBack,
    NotApplied,
    OfRealTime,
    Reason,
    SentAgain,
)
from emulator.core.errors import NotFound
from emulator.core.model.messages import NOT_SENT, OUTCOME_UNKNOWN, CreatedBy, EventState, Message, Phase, Progress
from emulator.core.record import DeadLetterId, MessageId
from emulator.core.rules import retries
from emulator.core.rules.publishing import DEDUPLICATION_MS
from emulator.core.state import StateView
from emulator.queries.history import (
    HOLDS,
    Annotation,
    AnnotationKind,
    AnsweringRule,
    Entry,
    LoggedEvent,
    MessageLog,
    RecordedAttempt,
    answering,
)
from emulator.queries.workflow_runs import step_of
from emulator.wire.dialect import Dialect
from emulator.wire.reasons import (
    answered,
    arithmetic,
    capitalized,
    disturbed,
    held_by,
    not_applied,
    of_real_time,
    signature_hint,
)
from emulator.wire.redaction import surface_of, visibility_of
from emulator.wire.times import format_duration, iso

_HOLD_KINDS = {annotation: hold for hold, annotation in HOLDS.items()}
_ENDS = {
    EventState.DELIVERED: Phase.DELIVERED,
    EventState.FAILED: Phase.FAILED,
    EventState.CANCELED: Phase.CANCELED,
}
_REMOVALS = {
    Cause.DELETED: "the dead letter was deleted",
    Cause.EXPIRED: "the dead letter was removed at the end of its retention",
    Cause.SIZE: "the dead letter was removed to make room for newer ones",
}


async def explain_message(call: ControlCall) -> Explanation:
    """The reason chain of a message, live or ended. Raises NotFound for an id that no message has had."""
    world, message_id = call.world, MessageId(call.name)
    await world.current_state()
    redact = read_shown(call.parts.query)
    state = world.state
    while True:
        before = state.messages.get(message_id)
        log = await world.logs.find(message_id)
        # State and log must be of the same moment: the message may have changed while the log was read.
        if state.messages.get(message_id) is before:
            break
    if log is None:
        dropped = world.history.dropped.at_ms
        hint = f"; history up to {iso(dropped)} is not kept any more (--keep-history)" if dropped else ""
        raise NotFound("message", message_id, hint)
    has_left = message_id not in waiting.not_left(world)
    return Chain(state, log, call.dialect, redact=redact, has_left=has_left).explanation()


class Chain:
    """Makes the reasons of one message, and on the way what sums each of its phases up."""

    def __init__(
        self, state: StateView, log: MessageLog, dialect: Dialect, *, redact: bool, has_left: bool = True
    ) -> None:
        """`has_left` is False while an attempt that has started waits for others to its origin, or to be durable."""
        self._state = state
        self._log = log
        self._message = log.message
        self._progress: Progress | None = state.messages.get(log.message.message_id)
        self._dialect = dialect
        self._visibility = visibility_of(log.message, surface_of(redact=redact))
        self._has_left = has_left
        self._recorded = {each.number: each for each in log.entries if isinstance(each, RecordedAttempt)}
        self._last_attempt = "its attempt is not recorded"
        # Of the last attempt that came back.
        self._signature_hint: str | None = None
        # The summary of each phase; a reason may replace it.
        delay = format_duration(self._message.not_before_ms - self._message.created_ms)
        self._summaries = {
            Phase.PENDING: (
                f"Waits for its first attempt at {iso(self._message.not_before_ms)}, {delay} after it was made."
            ),
            Phase.HELD: "Is due and waits in a line.",
            Phase.ACTIVE: "Its attempt is under way.",
            Phase.RETRYING: "Waits for a retry.",
        }

    def explanation(self) -> Explanation:
        """The message, its phase now, the reasons in the order in which they came about, and a summary."""
        message, source = self._message, self._message.source
        reasons = (*self._beginnings(), *self._course())
        if self._progress is not None:
            phase = self._progress.phase
        else:
            events = (each.state for each in self._log.entries if isinstance(each, LoggedEvent))
            phase = next(_ENDS[state] for state in events if state in _ENDS)
        summary = self._summaries[phase]
        if source.real_not_before_ms is not None:
            suspicion = of_real_time(source.real_not_before_ms, now_ms=message.created_ms)
            summary += f" {capitalized(suspicion)}"
        if self._signature_hint is not None and phase is not Phase.DELIVERED:
            summary += f" {capitalized(self._signature_hint)}."
        return Explanation(
            message_id=message.message_id,
            account_id=message.account_id,
            url=message.url,
            state=phase,
            summary=summary,
            reasons=reasons,
        )

    # -- what the message was given -----------------------------------------------------------

    def _beginnings(self) -> Iterator[Reason]:
        message, source, at_ms = self._message, self._message.source, self._message.created_ms
        yield _created(message)
        annotations = [each for each in self._log.entries if isinstance(each, Annotation)]
        repeats = [each.at_ms for each in annotations if each.kind is AnnotationKind.DEDUPLICATED]
        for annotation in annotations:
            if annotation.kind is AnnotationKind.DEDUPLICATION:
                yield _deduplicated(at_ms, annotation.name, repeats)
        if source.not_applied:
            headers = tuple(self._dialect.rename_field_at_fault(name) for name in source.not_applied)
            yield NotApplied(at_ms=at_ms, text=not_applied(headers), headers=headers)
        if source.real_not_before_ms is not None:
            text = of_real_time(source.real_not_before_ms, now_ms=at_ms)
            yield OfRealTime(at_ms=at_ms, text=text, not_before_ms=source.real_not_before_ms)
        if message.not_before_ms > at_ms:
            until_ms, delay_ms = message.not_before_ms, message.not_before_ms - at_ms
            text = f"no attempt before {iso(until_ms)}, a delay of {format_duration(delay_ms)}"
            yield Delayed(at_ms=at_ms, text=text, until_ms=until_ms, delay_ms=delay_ms)

    # -- what happened to it ------------------------------------------------------------------

    def _course(self) -> Iterator[Reason]:
        started = 0
        for index, entry in enumerate(self._log.entries):
            match entry:
                case LoggedEvent(state=EventState.ACTIVE) if self._is_withdrawn(index):
                    pass  # The hold that follows says why.
                case LoggedEvent(state=EventState.ACTIVE):
                    started += 1
                    if started in self._recorded:
                        yield self._attempted(self._recorded[started])
                    elif self._progress is not None and self._progress.phase is Phase.ACTIVE:
                        yield self._under_way(self._progress)
                case LoggedEvent():
                    yield from self._logged(entry, self._log.entries[index:], self._recorded.get(started))
                case Annotation():
                    yield from self._annotated(entry, self._log.entries[index + 1 :])
                case RecordedAttempt():
                    pass  # Part of the reason at its start.
                case unknown:
                    assert_never(unknown)

    def _is_withdrawn(self, index: int) -> bool:
        """Whether the attempt that started there never left, because its destination was held."""
        entry = self._log.entries[index + 1] if index + 1 < len(self._log.entries) else None
        return isinstance(entry, Annotation) and entry.kind is AnnotationKind.DESTINATION_HOLD

    def _attempted(self, recorded: RecordedAttempt) -> Attempted:
        rule = recorded.answered_by
        outcome = self._visibility.outcome(recorded.outcome)
        self._last_attempt = text = f"attempt {recorded.number} {answered(outcome, rule)}"
        did = disturbed(outcome, rule, recorded.number)
        text += f" (chaos: {did})" if did is not None else ""
        if recorded.at_ms > recorded.started_ms and not outcome.abandoned:
            text += f", after {format_duration(recorded.at_ms - recorded.started_ms)}"
        self._signature_hint = signature_hint(recorded.outcome, rule, self._dialect)
        return Attempted(
            at_ms=recorded.started_ms,
            text=text if self._signature_hint is None else f"{text}; {self._signature_hint}",
            attempt=recorded.number,
            finished_ms=recorded.at_ms,
            via=outcome.via,
            status=None if outcome.response is None else outcome.response.status,
            error=outcome.error,
            **_rule_fields(rule),
        )

    def _under_way(self, progress: Progress) -> Attempted:
        """An attempt without an outcome. One that a rule answers has that already, and its latency passes."""
        dispatch, at = progress.dispatch, iso(progress.dispatch.started_ms)
        found = None if dispatch.answer is None else self._state.rules.get(dispatch.answer.rule_id)
        rule = None if found is None else answering(found)
        number = dispatch.retried + 1
        if dispatch.outcome is not None:
            who = "a rule that is gone" if rule is None else rule.rule_id
            holds_back = f"{who} holds its answer back until {iso(progress.due_ms)}"
            text, summary = f"is under way; {holds_back}", f"is under way, and {holds_back}"
        elif self._has_left:
            text, summary = "is under way", f"is under way since {at}"
        else:
            text, summary = "waits to leave", f"has started and waits to leave since {at}"
        if dispatch.cancel_requested:
            # D-018, D-780
            summary += "; it is the last one, because the cancellation of the message was asked for"
        self._summaries[Phase.ACTIVE] = f"Attempt {number} {summary}."
        return Attempted(
            at_ms=dispatch.started_ms,
            text=f"attempt {number} {text}",
            attempt=number,
            due_ms=None if dispatch.outcome is None else progress.due_ms,
            **_rule_fields(rule),
        )

    def _logged(self, entry: LoggedEvent, entries: tuple[Entry, ...], last: RecordedAttempt | None) -> Iterator[Reason]:
        """`entries` are this one and those after it, `last` is the attempt before it."""
        at_ms, at, attempts = entry.at_ms, iso(entry.at_ms), 0 if last is None else last.number
        match entry.state:
            case EventState.RETRY if last is not None and entry.next_delivery_ms is not None:
                yield self._backed_off(at_ms, entry.next_delivery_ms, last)
            case EventState.DELIVERED:
                self._summaries[Phase.DELIVERED] = f"Delivered at {at}: {self._last_attempt}."
                yield Delivered(at_ms=at_ms, text=f"delivered by attempt {attempts}", attempts=attempts)
            case EventState.FAILED:
                is_final = last is not None and last.outcome.non_retryable
                why = "the answer asked for no further attempt" if is_final else self._no_retries_left()
                annotations = (each for each in entries if isinstance(each, Annotation))
                letter = next((each.name for each in annotations if each.kind is AnnotationKind.DEAD_LETTER), None)
                it_is = "" if letter is None else f"; it is dead letter {letter}"
                self._summaries[Phase.FAILED] = f"Failed at {at}: {self._last_attempt}; {why}."
                yield Failed(
                    at_ms=at_ms,
                    text=f"failed {_after(attempts)}: {why}{it_is}",
                    attempts=attempts,
                    cause=Cause.NON_RETRYABLE if is_final else Cause.RETRIES_EXHAUSTED,
                    dead_letter_id=None if letter is None else DeadLetterId(letter),
                )
            case EventState.CANCEL_REQUESTED:
                yield CancelAsked(at_ms=at_ms, text="its cancellation was asked for")
            case EventState.CANCELED:
                is_abandoned = last is not None and last.outcome.abandoned
                how = f": {self._last_attempt}" if is_abandoned else f" {_after(attempts)}"
                self._summaries[Phase.CANCELED] = f"Canceled at {at}{how}."
                yield Canceled(at_ms=at_ms, text=f"canceled {_after(attempts)}", attempts=attempts)
            case _:
                pass  # CREATED is a reason already, and an ERROR belongs to its attempt.

    def _backed_off(self, at_ms: int, due_ms: int, last: RecordedAttempt) -> BackedOff:
        most = self._message.policy.max_retries
        delay = retries.delay_after(self._message, last.outcome, retried=last.number - 1, now_ms=at_ms)
        how, retry = arithmetic(delay), f"retry {last.number} of {most} at {iso(due_ms)}"
        self._summaries[Phase.RETRYING] = f"Waits for {retry}: {self._last_attempt}; {how}."
        return BackedOff(
            at_ms=at_ms,
            text=f"{retry}: {how}",
            retry=last.number,
            retries=most,
            due_ms=due_ms,
            delay_ms=due_ms - at_ms,
            set_by=delay.reason,
            arithmetic=how,
            header=None if delay.hint is None else delay.hint.value,
            expression=delay.expression,
        )

    def _no_retries_left(self) -> str:
        match self._message.policy.max_retries:
            case 0:
                return "it has no retries"
            case 1:
                return "its only retry was made"
            case most:
                return f"all {most} retries were made"

    def _annotated(self, annotation: Annotation, following: tuple[Entry, ...]) -> Iterator[Reason]:
        at_ms, name = annotation.at_ms, annotation.name
        match annotation.kind:
            case (
                AnnotationKind.QUEUE_HOLD
                | AnnotationKind.KEY_HOLD
                | AnnotationKind.GLOBAL_HOLD
                | AnnotationKind.DESTINATION_HOLD
            ):
                until_ms = _end_of_hold(following)
                if until_ms is not None:
                    yield _held(annotation, until_ms)
                elif self._progress is not None and self._progress.dispatch.hold is not None:
                    yield self._still_held(annotation)
            case AnnotationKind.CALLBACK | AnnotationKind.FAILURE_CALLBACK:
                is_failure = annotation.kind is AnnotationKind.FAILURE_CALLBACK
                text = f"{'the failure callback' if is_failure else 'the callback'} was published as {name}"
                yield CalledBack(at_ms=at_ms, text=text, message_id=MessageId(name), failure=is_failure)
            case AnnotationKind.DUPLICATE | AnnotationKind.REDELIVERY:
                # The status of the answer, or why there was none (D-421).
                number, _, said = name.partition(" ")
                how = f"was answered {said}" if said.isdecimal() else f"failed: {said}"
                if said in (OUTCOME_UNKNOWN, NOT_SENT):
                    how = f"was abandoned: {said}"
                if annotation.kind is AnnotationKind.REDELIVERY:
                    text = f"attempt {number} was sent again by a call and {how}, which changes nothing"
                    yield SentAgain(at_ms=at_ms, text=text, attempt=int(number))
                else:
                    text = f"chaos: attempt {number} was made again and {how}, which changes nothing"
                    yield DeliveredAgain(at_ms=at_ms, text=text, attempt=int(number))
            case AnnotationKind.PUBLISHED_AGAIN:
                text = f"the dead letter was published again as {name}"
                yield DeadLetterRemoved(at_ms=at_ms, text=text, cause=Cause.RETRIED, message_id=MessageId(name))
            case AnnotationKind.DEAD_LETTER_REMOVED:
                cause = Cause(name)
                yield DeadLetterRemoved(at_ms=at_ms, text=_REMOVALS[cause], cause=cause, message_id=None)
            case AnnotationKind.DEDUPLICATION | AnnotationKind.DEDUPLICATED | AnnotationKind.DEAD_LETTER:
                pass  # Part of the first reasons, and of the failure.
            case unknown:
                assert_never(unknown)

    def _still_held(self, annotation: Annotation) -> HeldBack:
        now = next(
            each
            for each in waiting.waits(self._state)
            if isinstance(each, waiting.Held) and each.message_id == self._message.message_id
        )
        self._summaries[Phase.HELD] = f"Is due and waits since {iso(annotation.at_ms)}: {now.why}."
        return HeldBack(
            at_ms=annotation.at_ms,
            text=f"waits since then: {now.why}",
            line=waiting.WAIT_LISTS[_HOLD_KINDS[annotation.kind]],
            name=annotation.name or None,
            reason=now.reason,
            until_ms=None,
            position=now.position,
            length=now.length,
            holders=now.holders,
            earliest_ms=now.earliest_ms,
        )


# -- single reasons ---------------------------------------------------------------------------


def _created(message: Message) -> Created:
    source, queue = message.source, message.policy.queue
    to = message.url if source.url_group is None else f"URL group {source.url_group}, for its endpoint {message.url}"
    through = "" if queue is None else f", through queue {queue}"
    return Created(
        at_ms=message.created_ms,
        text=f"{_maker(message)} to {to}{through}",
        by=source.created_by,
        url_group=source.url_group,
        queue=queue,
        schedule_id=source.schedule_id,
        source_message_id=source.source_message_id,
        dead_letter_id=source.from_dead_letter,
    )


def _rule_fields(rule: AnsweringRule | None) -> dict[str, Any]:
    """The fields of an attempt that say which rule decided it."""
    if rule is None:
        return {"rule_id": None, "rule_url": None, "forward_to": None}
    return {"rule_id": rule.rule_id, "rule_url": rule.url, "forward_to": rule.forward_to}


def _maker(message: Message) -> str:
    match message.source.created_by:
        case CreatedBy.PUBLISH | CreatedBy.BATCH if message.run is not None:
            step = step_of(message)
            into = "for" if step is None else f'for step "{step.step_name}" of'
            into = "to begin" if message.run.is_init else into
            return f"published by {message.source.caller_ip} {into} workflow run {message.run.run_id}"
        case CreatedBy.PUBLISH:
            return f"published by {message.source.caller_ip}"
        case CreatedBy.BATCH:
            return f"published in a batch by {message.source.caller_ip}"
        case CreatedBy.CHAT:
            return f"asked of the service's language model by {message.source.caller_ip}"
        case CreatedBy.SCHEDULE:
            return f"published by schedule {message.source.schedule_id}"
        case CreatedBy.CALLBACK:
            return f"published as the callback of {message.source.source_message_id}"
        case CreatedBy.FAILURE_CALLBACK:
            return f"published as the failure callback of {message.source.source_message_id}"
        case CreatedBy.DEAD_LETTER:
            return f"published again from dead letter {message.source.from_dead_letter}"
        case CreatedBy.WORKFLOW:
            return "published by the service for a workflow run"
        case unknown:
            assert_never(unknown)


def _deduplicated(at_ms: int, key: str, repeats: list[int]) -> Deduplicated:
    """`repeats` are the instants of the publishes that were answered with the message so far."""
    until_ms, count = at_ms + DEDUPLICATION_MS, len(repeats)
    text = f"publishes with the key {key} are answered with this message until {iso(until_ms)}"
    if repeats:
        text += f"; {count} {'was' if count == 1 else 'were'} so far, last at {iso(repeats[-1])}"
    last_ms = repeats[-1] if repeats else None
    return Deduplicated(at_ms=at_ms, text=text, until_ms=until_ms, key=key, repeats=count, last_repeat_ms=last_ms)


def _held(annotation: Annotation, until_ms: int) -> HeldBack:
    """The message was due and waited until then."""
    assert annotation.reason is not None
    kind = _HOLD_KINDS[annotation.kind]
    waited = f" until {iso(until_ms)}, for {format_duration(until_ms - annotation.at_ms)}"
    return HeldBack(
        at_ms=annotation.at_ms,
        text=held_by(kind, annotation.name, annotation.reason) + waited,
        line=waiting.WAIT_LISTS[kind],
        name=annotation.name or None,
        reason=annotation.reason,
        until_ms=until_ms,
    )


def _end_of_hold(following: tuple[Entry, ...]) -> int | None:
    """When a message left its wait list: for another one, an attempt, or for good. None: it has not."""
    for entry in following:
        if isinstance(entry, Annotation):
            if entry.kind in _HOLD_KINDS:
                return entry.at_ms
        elif isinstance(entry, LoggedEvent) and entry.state in (EventState.ACTIVE, EventState.CANCELED):
            return entry.at_ms
    return None


def _after(attempts: int) -> str:
    if attempts == 0:
        return "before its first attempt"
    return "after 1 attempt" if attempts == 1 else f"after {attempts} attempts"


ROUTES: tuple[ControlRoute, ...] = (
    ControlRoute("GET", "/_emulator/messages/{name}/explain", explain_message, OWN_QUERY),
)
