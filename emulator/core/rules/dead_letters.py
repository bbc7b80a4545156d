"""Cancelling messages, and deleting or publishing again the dead letters of those that failed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from urllib.parse import urlsplit

from msgspec.structs import replace

from emulator.core.commands import CancelMessage, CancelMessages, DeadLetterContent, DeleteDeadLetters, RetryDeadLetters
from emulator.core.errors import NotFound
from emulator.core.message_facts import CancelRequested, DeadLettersRemoved, MessageCanceled, MessageCreated
from emulator.core.model.messages import CreatedBy, Message, MessageFilter, Phase, Progress, PublishedMessage
from emulator.core.model.options import MessageOptions
from emulator.core.model.resources import new_queue
from emulator.core.record import AccountId, MessageId
from emulator.core.record import message_id as make_message_id
from emulator.core.resource_facts import QueueWritten
from emulator.core.rules import limits
from emulator.core.rules.attempts import admit_waiting, set_flow_limits
from emulator.core.rules.options import (
    delivered_headers,
    first_delivery_ms,
    headers_over,
    options_of,
    policy_of,
    with_callback_defaults,
)
from emulator.core.state import AccountView, Decision, StateView, account_state

# -- cancelling ---------------------------------------------------------------------------------


def cancel_message(state: StateView, command: CancelMessage) -> Decision[None]:
    """Cancel one live message. Raises NotFound once it has ended, or a cancellation is pending.

    A message of a workflow run is not canceled alone: its run would wait for ever (D-373).
    """
    progress = state.messages.get(command.message_id)
    if progress is None or not _can_be_canceled(progress, command.account_id):
        raise NotFound("message", command.message_id)
    yield from cancel(state, (command.message_id,))


def cancel_messages(state: StateView, command: CancelMessages) -> Decision[int]:
    """Cancel what the filter means, oldest first; one that is already being cancelled does not count (D-062)."""
    account_state(state, command.account_id)
    found = [
        progress.message.message_id
        for progress in state.messages.values()
        if _can_be_canceled(progress, command.account_id) and matches(progress.message, command.wanted)
    ]
    chosen = found if command.count is None else found[: command.count]
    yield from cancel(state, chosen)
    return len(chosen)


def cancel(state: StateView, message_ids: Sequence[MessageId]) -> Decision[None]:
    """Request the cancellations, and carry out at once those without an attempt under way (D-018).

    What the canceled messages held is given on only after the last of them, so that none of them
    starts in the place of another.
    """
    ended: list[Message] = []
    for message_id in message_ids:
        progress = state.messages[message_id]
        yield CancelRequested(message_id=message_id, at_ms=state.now_ms)
        if progress.phase is not Phase.ACTIVE:
            yield MessageCanceled(message_id=message_id, at_ms=state.now_ms)
            ended.append(progress.message)
    for message in ended:
        yield from admit_waiting(state, message)


def _can_be_canceled(progress: Progress, account_id: AccountId) -> bool:
    message = progress.message
    return message.account_id == account_id and message.run is None and not progress.dispatch.cancel_requested


def matches(message: Message, wanted: MessageFilter) -> bool:
    """Whether a message passes a filter; with ids given, only they count."""
    if wanted.message_ids:
        return message.message_id in wanted.message_ids
    if wanted.from_ms is not None and message.created_ms < wanted.from_ms:
        return False
    if wanted.to_ms is not None and message.created_ms > wanted.to_ms:
        return False
    if wanted.labels and not set(wanted.labels) & set(message.policy.labels):
        return False
    # A host has its port with it.
    if wanted.hosts and urlsplit(message.url).netloc.lower() not in {host.lower() for host in wanted.hosts}:
        return False
    if wanted.paths and urlsplit(message.url).path not in wanted.paths:
        return False
    return (
        _passes(wanted.url_groups, message.source.url_group)
        and _passes(wanted.queues, message.policy.queue)
        and _passes(wanted.urls, message.url)
        and _passes(wanted.flow_keys, message.policy.flow_key)
        and _passes(wanted.schedule_ids, message.source.schedule_id)
        and _passes(wanted.caller_ips, message.source.caller_ip)
    )


def _passes(wanted: tuple[str, ...], value: str | None) -> bool:
    return not wanted or (value is not None and value in wanted)


# -- dead letters -------------------------------------------------------------------------------


def delete_dead_letters(state: StateView, command: DeleteDeadLetters) -> Decision[int]:
    """Delete those that are there; how many. Raises NotFound for another one if the command is strict."""
    owner = account_state(state, command.account_id)
    # dict.fromkeys: an id named twice is deleted, and counted, once.
    present = tuple(found for found in dict.fromkeys(command.dead_letter_ids) if found in owner.dead_letters)
    missing = next((wanted for wanted in command.dead_letter_ids if wanted not in owner.dead_letters), None)
    if command.strict and missing is not None:
        raise NotFound("dlq message", missing)
    if present:
        yield DeadLettersRemoved(
            account_id=command.account_id, dead_letter_ids=present, at_ms=state.now_ms, cause="deleted"
        )
    return len(present)


def retry_dead_letters(state: StateView, command: RetryDeadLetters) -> Decision[tuple[PublishedMessage, ...]]:
    """Publish dead letters as new messages with the same body and headers; the entries leave the queue (D-046)."""
    owner = account_state(state, command.account_id)
    account = owner.account
    limits.check_account_is_active(account)
    limits.check_options(account, command.overrides, state.now_ms)
    # By id: an entry named twice is published once.
    entries = {entry.dead_letter_id: entry for entry in command.entries if entry.dead_letter_id in owner.dead_letters}
    missing = next((entry for entry in command.entries if entry.dead_letter_id not in entries), None)
    if command.strict and missing is not None:
        raise NotFound("dlq message", missing.dead_letter_id)
    limits.check_daily_quota(owner, state.now_ms, len(entries))
    _check_queues(owner, entries.values(), command.overrides)
    published: list[PublishedMessage] = []
    for entry in entries.values():
        published.append((yield from _retry(state, command.account_id, entry, command.overrides)))
    return tuple(published)


def _check_queues(owner: AccountView, entries: Iterable[DeadLetterContent], overrides: MessageOptions) -> None:
    """The queues that are made must not be more than the plan allows. Raises: LimitReached."""
    queues = {overrides.queue or entry.message.policy.queue for entry in entries}
    made = [queue for queue in queues if queue is not None and queue not in owner.queues]
    if made:
        limits.check_count("maxQueues", len(owner.queues) + len(made) - 1, owner.account.max_queues)


def _retry(
    state: StateView, account_id: AccountId, entry: DeadLetterContent, overrides: MessageOptions
) -> Decision[PublishedMessage]:
    yield DeadLettersRemoved(
        account_id=account_id, dead_letter_ids=(entry.dead_letter_id,), at_ms=state.now_ms, cause="retried"
    )
    owner = state.accounts[account_id]
    message = _made_anew(state, entry, overrides)
    if message.policy.queue is not None and message.policy.queue not in owner.queues:
        yield QueueWritten(queue=new_queue(account_id, message.policy.queue, state.now_ms))
    yield from set_flow_limits(state, account_id, message.policy.flow_control)
    yield MessageCreated(message=message)
    return PublishedMessage(message_id=message.message_id, url=message.url, deduplicated=False)


def _made_anew(state: StateView, entry: DeadLetterContent, overrides: MessageOptions) -> Message:
    """The message to publish: the original, changed where the retry call carries configuration headers."""
    original = entry.message
    now_ms = state.now_ms
    number = state.counters.messages + 1
    timeout_ms = original.policy.timeout_ms
    if overrides.timeout_ms is not None:
        timeout_ms = limits.timeout_ms(state.accounts[original.account_id].account, overrides.timeout_ms)
    options = with_callback_defaults(overrides, options_of(original.policy))
    assert options.max_retries is not None
    given = delivered_headers(replace(overrides, content_type=None))
    return replace(
        original,
        message_id=MessageId(make_message_id(state.event_key, number)),
        number=number,
        created_ms=now_ms,
        not_before_ms=first_delivery_ms(overrides, now_ms),
        method=overrides.method or original.method,
        headers=headers_over(given, original.headers),
        policy=policy_of(options, max_retries=options.max_retries, timeout_ms=timeout_ms, queue=options.queue),
        source=replace(
            original.source,
            queue_slot=None,
            created_by=CreatedBy.DEAD_LETTER,
            from_dead_letter=entry.dead_letter_id,
            not_applied=(),
            real_not_before_ms=None,
        ),
    )


def expire_dead_letters(state: StateView, account_id: AccountId) -> Decision[None]:
    """Remove the dead letters that the plan's retention time has run out for (D-045)."""
    owner = state.accounts[account_id]
    oldest_kept_ms = state.now_ms - owner.account.max_dlq_retention_time_milis
    expired = tuple(
        letter.dead_letter_id for letter in owner.dead_letters.values() if letter.failed_ms <= oldest_kept_ms
    )
    yield DeadLettersRemoved(account_id=account_id, dead_letter_ids=expired, at_ms=state.now_ms, cause="expired")
