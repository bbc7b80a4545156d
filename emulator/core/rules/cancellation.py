"""Cancelling messages, one by one or in bulk, and which messages a bulk filter means."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlsplit

from emulator.core.commands import CancelMessage, CancelMessages
from emulator.core.decision import Decision, account_state
from emulator.core.errors import NotFound
from emulator.core.facts import CancelRequested, MessageCanceled
from emulator.core.model.messages import Message, MessageFilter, Phase, Progress
from emulator.core.model.names import AccountId, MessageId
from emulator.core.rules.attempts import admit_waiting
from emulator.core.state_view import StateView


def cancel_message(state: StateView, command: CancelMessage) -> Decision[None]:
    """Cancel one live message. Raises NotFound once it has ended, or a cancellation is pending.

    A message of a workflow run is not canceled alone: its run would wait for ever (D-373).
    """
    progress = state.messages.get(command.message_id)
    if progress is None or not _can_be_canceled(progress, command.account_id):
        raise NotFound(f"message {command.message_id} not found")
    yield from cancel(state, (command.message_id,))


def cancel_messages(state: StateView, command: CancelMessages) -> Decision[int]:
    """Cancel what the filter means, oldest first; one that is already being cancelled does not count (D-062)."""
    account_state(state, command.account_id)
    found = [
        progress.message.message_id
        for progress in state.messages.values()
        if _is_wanted(progress, command.account_id, command.wanted)
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


def _is_wanted(progress: Progress, account_id: AccountId, wanted: MessageFilter) -> bool:
    return _can_be_canceled(progress, account_id) and matches(progress.message, wanted)


def _can_be_canceled(progress: Progress, account_id: AccountId) -> bool:
    message = progress.message
    return message.account_id == account_id and message.run is None and not progress.cancel_requested


def matches(message: Message, wanted: MessageFilter) -> bool:
    """Whether a message passes a filter; with ids given, only they count."""
    if wanted.message_ids:
        return message.message_id in wanted.message_ids
    if wanted.from_ms is not None and message.created_ms < wanted.from_ms:
        return False
    if wanted.to_ms is not None and message.created_ms > wanted.to_ms:
        return False
    if wanted.labels and not set(wanted.labels) & set(message.labels):
        return False
    if wanted.hosts and url_host(message.url) not in wanted.hosts:
        return False
    if wanted.paths and url_path(message.url) not in wanted.paths:
        return False
    flow_key = None if message.flow_control is None else message.flow_control.key
    return (
        _passes(wanted.url_groups, message.url_group)
        and _passes(wanted.queues, message.queue)
        and _passes(wanted.urls, message.url)
        and _passes(wanted.flow_keys, flow_key)
        and _passes(wanted.schedule_ids, message.schedule_id)
        and _passes(wanted.caller_ips, message.caller_ip)
    )


def _passes(wanted: tuple[str, ...], value: str | None) -> bool:
    return not wanted or (value is not None and value in wanted)


def url_host(url: str) -> str:
    """The host of a destination, with its port if it names one."""
    return urlsplit(url).netloc


def url_path(url: str) -> str:
    """The path of a URL, as the filter `path` compares it."""
    return urlsplit(url).path
