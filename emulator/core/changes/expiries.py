"""What expires: deduplication keys and dead letters."""

from __future__ import annotations

from emulator.core import facts
from emulator.core.contents import Contents
from emulator.core.model.messages import TimerKind
from emulator.core.state_view import AccountState


def deduplications_expired(contents: Contents, fact: facts.DeduplicationsExpired) -> None:
    owner = contents.accounts[fact.account_id]
    for key in fact.keys:
        owner.deduplications.pop(key, None)
    arm_deduplication_expiry(contents, owner)


def dead_letters_removed(contents: Contents, fact: facts.DeadLettersRemoved) -> None:
    owner = contents.accounts[fact.account_id]
    for dead_letter_id in fact.dead_letter_ids:
        del owner.dead_letters[dead_letter_id]
    arm_dead_letter_expiry(contents, owner)


def arm_deduplication_expiry(contents: Contents, owner: AccountState) -> None:
    first = next(iter(owner.deduplications.values()), None)
    due_ms = None if first is None else first[1]
    contents.timers.set(TimerKind.DEDUPLICATION_EXPIRY, owner.account.id, due_ms)


def arm_dead_letter_expiry(contents: Contents, owner: AccountState) -> None:
    first = next(iter(owner.dead_letters.values()), None)
    due_ms = None if first is None else first.failed_ms + owner.account.max_dlq_retention_time_milis
    contents.timers.set(TimerKind.DEAD_LETTER_EXPIRY, owner.account.id, due_ms)
