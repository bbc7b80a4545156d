"""Dead letters: deleting, publishing again, and their end by age."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from emulator.core.commands import DeadLetterContent, DeleteDeadLetters, RetryDeadLetters
from emulator.core.decision import Decision, account_state
from emulator.core.errors import NotFound
from emulator.core.facts import DeadLettersRemoved, MessageCreated, QueueWritten
from emulator.core.identifiers import message_id as make_message_id
from emulator.core.model.messages import CreatedBy, Message
from emulator.core.model.names import AccountId, MessageId
from emulator.core.model.options import MessageOptions
from emulator.core.record import whole
from emulator.core.replies import Published
from emulator.core.rules import limits
from emulator.core.rules.attempts import bring_limits
from emulator.core.rules.options import delivered_headers, first_delivery_ms, headers_over, with_defaults
from emulator.core.rules.queues import new_queue
from emulator.core.state_view import AccountView, StateView


def delete_dead_letters(state: StateView, command: DeleteDeadLetters) -> Decision[int]:
    """Delete those that are there; how many. Raises NotFound for another one if the command is strict."""
    owner = account_state(state, command.account_id)
    # dict.fromkeys: an id named twice is deleted, and counted, once.
    present = tuple(found for found in dict.fromkeys(command.dead_letter_ids) if found in owner.dead_letters)
    missing = next((wanted for wanted in command.dead_letter_ids if wanted not in owner.dead_letters), None)
    if command.strict and missing is not None:
        raise NotFound(f"dlq message {missing} not found")
    if present:
        yield DeadLettersRemoved(
            account_id=command.account_id, dead_letter_ids=present, at_ms=state.now_ms, cause="deleted"
        )
    return len(present)


def retry_dead_letters(state: StateView, command: RetryDeadLetters) -> Decision[tuple[Published, ...]]:
    """Publish dead letters as new messages with the same body and headers; the entries leave the queue (D-046)."""
    owner = account_state(state, command.account_id)
    account = owner.account
    limits.check_account_is_active(account)
    limits.check_options(account, command.overrides, state.now_ms)
    # By id: an entry named twice is published once.
    entries = {entry.dead_letter_id: entry for entry in command.entries if entry.dead_letter_id in owner.dead_letters}
    missing = next((entry for entry in command.entries if entry.dead_letter_id not in entries), None)
    if command.strict and missing is not None:
        raise NotFound(f"dlq message {missing.dead_letter_id} not found")
    limits.check_daily_quota(owner, state.now_ms, len(entries))
    _check_queues(owner, entries.values(), command.overrides)
    published: list[Published] = []
    for entry in entries.values():
        published.append((yield from _retry(state, command.account_id, entry, command.overrides)))
    return tuple(published)


def _check_queues(owner: AccountView, entries: Iterable[DeadLetterContent], overrides: MessageOptions) -> None:
    """The queues that are made must not be more than the plan allows. Raises: LimitReached."""
    queues = {overrides.queue or whole(entry.message).queue for entry in entries}
    made = [queue for queue in queues if queue is not None and queue not in owner.queues]
    if made:
        limits.check_count("maxQueues", len(owner.queues) + len(made) - 1, owner.account.max_queues)


def _retry(
    state: StateView, account_id: AccountId, entry: DeadLetterContent, overrides: MessageOptions
) -> Decision[Published]:
    yield DeadLettersRemoved(
        account_id=account_id, dead_letter_ids=(entry.dead_letter_id,), at_ms=state.now_ms, cause="retried"
    )
    owner = state.accounts[account_id]
    message = _made_anew(state, entry, overrides)
    if message.queue is not None and message.queue not in owner.queues:
        yield QueueWritten(queue=new_queue(account_id, message.queue, state.now_ms))
    yield from bring_limits(state, account_id, message.flow_control)
    yield MessageCreated(message=message)
    return Published(message_id=message.message_id, url=message.url, deduplicated=False)


def _made_anew(state: StateView, entry: DeadLetterContent, overrides: MessageOptions) -> Message:
    """The message to publish: the original, changed where the retry call carries configuration headers."""
    original = whole(entry.message)
    now_ms = state.now_ms
    number = state.counters.messages + 1
    timeout_ms = original.timeout_ms
    if overrides.timeout_ms is not None:
        timeout_ms = limits.timeout_ms(state.accounts[original.account_id].account, overrides.timeout_ms)
    callbacks = with_defaults(
        overrides, MessageOptions(callback=original.callback, failure_callback=original.failure_callback)
    )
    given = delivered_headers(replace(overrides, content_type=None))
    return replace(
        original,
        message_id=MessageId(make_message_id(state.event_key, number)),
        number=number,
        created_ms=now_ms,
        not_before_ms=first_delivery_ms(overrides, now_ms),
        method=overrides.method or original.method,
        headers=headers_over(given, original.headers),
        max_retries=original.max_retries if overrides.max_retries is None else overrides.max_retries,
        retry_delay=overrides.retry_delay or original.retry_delay,
        timeout_ms=timeout_ms,
        callback=callbacks.callback,
        failure_callback=callbacks.failure_callback,
        labels=overrides.labels or original.labels,
        redaction=overrides.redaction or original.redaction,
        flow_control=overrides.flow_control or original.flow_control,
        queue=overrides.queue or original.queue,
        queue_slot=None,
        created_by=CreatedBy.DEAD_LETTER,
        from_dead_letter=entry.dead_letter_id,
        not_applied=(),
    )


def expire_dead_letters(state: StateView, account_id: AccountId) -> Decision[None]:
    """Remove the dead letters that the plan's retention time has run out for (D-045)."""
    owner = state.accounts[account_id]
    oldest_kept_ms = state.now_ms - owner.account.max_dlq_retention_time_milis
    expired = tuple(
        letter.dead_letter_id for letter in owner.dead_letters.values() if letter.failed_ms <= oldest_kept_ms
    )
    yield DeadLettersRemoved(account_id=account_id, dead_letter_ids=expired, at_ms=state.now_ms, cause="expired")
