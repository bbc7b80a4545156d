"""Accounts: their plan, tokens and signing keys."""

from __future__ import annotations

from msgspec.structs import replace

from emulator.core import facts
from emulator.core.changes import expiries
from emulator.core.contents import Contents
from emulator.core.model.messages import TimerKind


def account_changed(contents: Contents, fact: facts.AccountChanged) -> None:
    owner = contents.accounts[fact.account.id]
    owner.account = fact.account
    expiries.arm_dead_letter_expiry(contents, owner)
    if fact.settles_ms is not None:
        contents.timers.arm(TimerKind.ACCOUNT, fact.account.id, fact.settles_ms)


def account_settled(contents: Contents, fact: facts.AccountSettled) -> None:
    owner = contents.accounts[fact.account_id]
    owner.account = replace(owner.account, modifying_state="")
    contents.timers.disarm(TimerKind.ACCOUNT, fact.account_id)


def account_token_rotated(contents: Contents, fact: facts.AccountTokenRotated) -> None:
    contents.counters.account_tokens += 1
    owner = contents.accounts[fact.account_id]
    owner.account = replace(
        owner.account, password=fact.password, token=fact.token, read_only_token=fact.read_only_token
    )


def signing_keys_rotated(contents: Contents, fact: facts.SigningKeysRotated) -> None:
    contents.counters.signing_keys += 1
    owner = contents.accounts[fact.account_id]
    owner.account = replace(owner.account, signing_keys=fact.keys)
