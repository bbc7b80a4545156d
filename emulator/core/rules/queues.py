"""Queues: making, pausing and deleting them. Who may start from one is decided in `attempts.py`."""

from __future__ import annotations

from msgspec.structs import replace

from emulator.core.commands import DeleteQueue, SetQueuePaused, UpsertQueue
from emulator.core.decision import Decision, account_state
from emulator.core.errors import LimitReached, NotFound
from emulator.core.facts import QueueDeleted, QueueWritten
from emulator.core.model.names import AccountId, QueueName
from emulator.core.model.resources import Queue
from emulator.core.rules import limits
from emulator.core.rules.attempts import admit_from_queue
from emulator.core.rules.cancellation import cancel
from emulator.core.state_view import StateView


def queue(state: StateView, account_id: AccountId, name: QueueName) -> Queue:
    """Raises NotFound for a queue that the account does not have."""
    found = account_state(state, account_id).queues.get(name)
    if found is None:
        raise NotFound(f"queue {name} not found")
    return found


def new_queue(account_id: AccountId, name: QueueName, now_ms: int) -> Queue:
    """A queue as it is made, by its first message or by hand: parallelism 1, not paused (D-022)."""
    return Queue(name=name, account_id=account_id, parallelism=1, paused=False, created_ms=now_ms, updated_ms=now_ms)


def upsert_queue(state: StateView, command: UpsertQueue) -> Decision[None]:
    """Create a queue, or change what the command names of one that exists; both may let messages start."""
    owner = account_state(state, command.account_id)
    account = owner.account
    limits.check_account_is_active(account)
    if command.parallelism is not None and command.parallelism > account.max_parallelism:
        raise LimitReached(f"quota maxParallelism exceeded, current limit: {account.max_parallelism}")
    present = owner.queues.get(command.name)
    if present is None:
        limits.check_count("maxQueues", len(owner.queues), account.max_queues)
        present = new_queue(command.account_id, command.name, state.now_ms)
    changed = replace(
        present,
        parallelism=present.parallelism if command.parallelism is None else command.parallelism,
        paused=present.paused if command.paused is None else command.paused,
        updated_ms=state.now_ms,
    )
    yield QueueWritten(queue=changed)
    yield from admit_from_queue(state, command.account_id, command.name)


def set_queue_paused(state: StateView, command: SetQueuePaused) -> Decision[None]:
    """Pause or resume a queue that exists; doing it again changes nothing."""
    found = queue(state, command.account_id, command.name)
    if found.paused != command.paused:
        yield QueueWritten(queue=replace(found, paused=command.paused, updated_ms=state.now_ms))
        yield from admit_from_queue(state, command.account_id, command.name)


def delete_queue(state: StateView, command: DeleteQueue) -> Decision[None]:
    """Delete a queue and drop its messages; deleting one that is not there is no error (D-034)."""
    if command.name not in account_state(state, command.account_id).queues:
        return
    yield QueueDeleted(account_id=command.account_id, name=command.name)
    mine = [
        progress.message.message_id
        for progress in state.messages.values()
        if progress.message.queue == command.name
        and progress.message.account_id == command.account_id
        and not progress.cancel_requested
    ]
    yield from cancel(state, mine)
