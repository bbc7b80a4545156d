"""The preview of due work as JSON: each item with its instant, what it is about, and why it is due then.

A field that a kind of item does not have is left out; one that has no value is null.
"""

from __future__ import annotations

from typing import assert_never

from emulator.core.model.messages import Message
from emulator.core.model.options import DestinationKind
from emulator.core.rules.retention import READABLE_AFTER_END_MS
from emulator.queries import upcoming
from emulator.queries.published_steps import read_step, step_of
from emulator.queries.upcoming import DEFAULT_LIMIT, MAX_LIMIT, Upcoming, UpcomingQuery
from emulator.queries.waiting import Held, UnderWay, Waiting
from emulator.wire.control.deliveries import chaos_view
from emulator.wire.control.instants import instant_fields
from emulator.wire.control.parameters import Pairs, read_flag, read_limit, read_parameters
from emulator.wire.control.workflow_names import run_fields
from emulator.wire.durations import format_duration
from emulator.wire.instants import iso, local_iso, number_or_text
from emulator.wire.json_fields import Json, read_clock_instant
from emulator.wire.reasons import WAIT_LISTS, arithmetic, waits_for


def read_upcoming(pairs: Pairs) -> UpcomingQuery:
    """The query of a listing of due work: `until` (ISO 8601 or ms), `limit`, `expiries`. Raises: InvalidInput."""
    given = read_parameters(pairs, ("until", "limit", "expiries"))
    until, limit = given.get("until"), given.get("limit")
    return UpcomingQuery(
        until_ms=None if until is None else _read_until(until),
        limit=DEFAULT_LIMIT if limit is None else read_limit(limit, MAX_LIMIT),
        expiries=read_flag(given.get("expiries", "true"), "expiries"),
    )


def _read_until(text: str) -> int:
    return read_clock_instant(number_or_text(text), "until")


def upcoming_view(found: Upcoming) -> dict[str, Json]:
    """The whole preview."""
    return {
        **instant_fields("now", found.now_ms),
        **instant_fields("until", found.until_ms),
        "items": [item_view(item) for item in found.items],
        "waiting": [waiting_view(waiting) for waiting in found.waiting],
        "truncated": found.is_truncated,
    }


def item_view(item: upcoming.Item) -> dict[str, Json]:
    """One thing that is due at an instant."""
    match item:
        case upcoming.ScheduleFiring():
            return _firing(item)
        case upcoming.FirstAttempt():
            return _first_attempt(item)
        case upcoming.Retry():
            return _retry(item)
        case upcoming.Answer():
            return _answer(item)
        case upcoming.Redelivery():
            return _redelivery(item)
        case upcoming.WaitDeadline():
            return _wait_deadline(item)
        case upcoming.RateWindowEnd():
            return _rate_window(item)
        case upcoming.DeduplicationExpiry():
            why = f"publishes with the key {item.key} are answered with {item.message_id} until then"
            subject: dict[str, Json] = {"account_id": item.account_id, "message_id": item.message_id, "key": item.key}
            return _at("deduplication_expiry", item.at_ms, why) | subject
        case upcoming.MessageExpiry():
            readable = format_duration(READABLE_AFTER_END_MS)
            why = f"a message is found by its id for {readable} after its end at {iso(item.ended.ended_ms)}"
            return _at("message_expiry", item.at_ms, why) | _of(item.ended.message)
        case upcoming.DeadLetterExpiry():
            return _dead_letter_expiry(item)
        case upcoming.AccountTransition():
            why = f"the account's change to {item.state} is through"
            return _at("account", item.at_ms, why) | {"account_id": item.account_id}
        case unknown:
            assert_never(unknown)


def _firing(item: upcoming.ScheduleFiring) -> dict[str, Json]:
    local = local_iso(item.at_ms, item.offset_minutes)
    is_group = item.destination.kind is DestinationKind.GROUP
    target = f"URL group {item.destination.text}" if is_group else item.destination.text
    why = f"the schedule fires at {local} in {item.time_zone} ({item.cron}), to {target}"
    return _at("schedule", item.at_ms, why) | {
        "account_id": item.account_id,
        "schedule_id": item.schedule_id,
        "destination": item.destination.text,
        "cron": item.cron,
        "time_zone": item.time_zone,
        "local": local,
    }


def _first_attempt(item: upcoming.FirstAttempt) -> dict[str, Json]:
    message = item.message
    delay_ms = item.at_ms - message.created_ms
    why = _sleep(message) or f"the first attempt, {format_duration(delay_ms)} after the message was made"
    return (
        _at("delivery", item.at_ms, why)
        | _of(message)
        | instant_fields("created", message.created_ms)
        | _chaos(message, 1, item.is_postponed, "put back")
    )


def _retry(item: upcoming.Retry) -> dict[str, Json]:
    message, delay = item.message, item.delay
    count = f"retry {item.number} of {message.max_retries}"
    return (
        _at("retry", item.at_ms, count if delay is None else f"{count}: {arithmetic(delay)}")
        | _of(message)
        | {
            "retry": item.number,
            "retries": message.max_retries,
            "delay_ms": None if delay is None else delay.delay_ms,
            "set_by": None if delay is None else delay.reason.value,
            "arithmetic": None if delay is None else arithmetic(delay),
        }
        | _chaos(message, item.number + 1, item.is_postponed, "put back")
    )


def _answer(item: upcoming.Answer) -> dict[str, Json]:
    duration = format_duration(item.at_ms - item.started_ms)
    rule = _rule(item.rule_id)
    if item.has_timed_out:
        kind, why = "timeout", f"attempt {item.attempt} times out after {duration}: {rule} keeps it waiting longer"
    else:
        kind, why = "answer", f"attempt {item.attempt} is answered after {duration}, the latency of {rule}"
    return (
        _at(kind, item.at_ms, why)
        | _of(item.message)
        | {"attempt": item.attempt, "rule_id": item.rule_id}
        | _chaos(item.message, item.attempt, item.is_disturbed, "answer held back")
    )


def _redelivery(item: upcoming.Redelivery) -> dict[str, Json]:
    return (
        _at("duplicate", item.at_ms, f"{_rule(item.rule_id)} has attempt {item.number} made again")
        | _of(item.message)
        | {"attempt": item.number, "rule_id": item.rule_id}
        | _chaos(item.message, item.number, True, f"duplicate of attempt {item.number}")
    )


def _rule(rule_id: str | None) -> str:
    return "a rule that is gone" if rule_id is None else rule_id


def _wait_deadline(item: upcoming.WaitDeadline) -> dict[str, Json]:
    run, event_id, step = item.run, item.waiter.event_id, read_step(item.waiter.step).step_name
    why = f'step "{step}" of workflow run {run.run_id} waits for the event {event_id} until then'
    return _at("wait", item.at_ms, why) | {
        "account_id": run.account_id,
        "workflow_run_id": run.run_id,
        "step": step,
        "url": run.url,
        "event_id": event_id,
    }


def _dead_letter_expiry(item: upcoming.DeadLetterExpiry) -> dict[str, Json]:
    letter = item.letter
    why = f"a dead letter is kept for {format_duration(item.at_ms - letter.failed_ms)}"
    return _at("dead_letter_expiry", item.at_ms, why) | {
        "account_id": letter.account_id,
        "message_id": letter.message_id,
        "dead_letter_id": letter.dead_letter_id,
    }


def _rate_window(item: upcoming.RateWindowEnd) -> dict[str, Json]:
    flow = item.flow
    period = format_duration(flow.period_ms)
    who = "1 message waits" if item.waiting == 1 else f"{item.waiting} messages wait"
    why = f"flow control key {flow.key} lets {flow.rate} start per {period}, and a new period begins; {who}"
    return _at("rate_window", item.at_ms, why) | {
        "account_id": flow.account_id,
        "key": flow.key,
        "rate": flow.rate,
        "period_ms": flow.period_ms,
        "waiting": item.waiting,
    }


def waiting_view(waiting: Waiting) -> dict[str, Json]:
    """One thing that waits without an instant. `earliest` is null unless a rate limit determines it."""
    match waiting:
        case Held():
            return (
                {"kind": WAIT_LISTS[waiting.kind], "why": waits_for(waiting)}
                | instant_fields("since", waiting.since_ms)
                | _of(waiting.message)
                | {
                    "name": waiting.name or None,
                    "reason": waiting.reason.value,
                    "position": waiting.position,
                    "length": waiting.length,
                    "holders": list(waiting.holders),
                }
                | instant_fields("earliest", waiting.earliest_ms)
            )
        case UnderWay():
            timeout = format_duration(waiting.message.timeout_ms)
            why = f"attempt {waiting.attempt} is under way, for at most {timeout}"
            return (
                {"kind": "attempt", "why": why}
                | instant_fields("since", waiting.since_ms)
                | _of(waiting.message)
                | {"attempt": waiting.attempt}
            )
        case unknown:
            assert_never(unknown)


def _at(kind: str, at_ms: int, why: str) -> dict[str, Json]:
    return {"kind": kind, **instant_fields("at", at_ms), "why": why}


def _chaos(message: Message, attempt: int, is_disturbed: bool, did: str) -> dict[str, Json]:
    return {"chaos": chaos_view(message, attempt, did)} if is_disturbed else {}


def _of(message: Message) -> dict[str, Json]:
    subject: dict[str, Json] = {
        "account_id": message.account_id,
        "message_id": message.message_id,
        "url": message.url,
    }
    return subject | run_fields(message)


def _sleep(message: Message) -> str | None:
    """Of a message whose delay is a sleep: who sleeps."""
    step = step_of(message)
    if message.run is None or step is None or not step.is_sleep:
        return None
    return f'step "{step.step_name}" of workflow run {message.run.run_id} sleeps until then'
