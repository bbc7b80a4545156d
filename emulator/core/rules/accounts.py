"""Accounts: signing keys and changes of the record; and destination rules, which belong to the world."""

from __future__ import annotations

from msgspec.structs import replace

from emulator.core.commands import AddRule, ChangeAccount, RemoveRules, RotateSigningKeys
from emulator.core.decision import Decision, account_state
from emulator.core.errors import NotFound
from emulator.core.facts import AccountChanged, RuleAdded, RulesRemoved, SigningKeysRotated
from emulator.core.identifiers import signing_key
from emulator.core.model import RuleId, SigningKeys
from emulator.core.rules.attempts import admit_globally
from emulator.core.state_view import StateView

# How long a change of an account's state shows in `modifying_state`, on the virtual clock (D-166).
TRANSITION_MS = 60_000


def rotate_signing_keys(state: StateView, command: RotateSigningKeys) -> Decision[SigningKeys]:
    """The next key becomes the current one, and a fresh one the next."""
    account = account_state(state, command.account_id).account
    fresh = signing_key(state.key, state.counters.signing_keys + 1)
    keys = SigningKeys(current=account.signing_keys.next, next=fresh)
    yield SigningKeysRotated(account_id=command.account_id, keys=keys)
    return keys


def change_account(state: StateView, command: ChangeAccount) -> Decision[None]:
    """Put a changed record in place; its limits hold from this instant on.

    A change of its state holds at once too, and shows as a transition for a minute (D-166).
    """
    old, account = account_state(state, command.account.id).account, command.account
    settles_ms: int | None = None
    if account.state != old.state:
        settles_ms = state.now_ms + TRANSITION_MS
        if account.modifying_state == old.modifying_state:
            account = replace(account, modifying_state=account.state)
    yield AccountChanged(account=account, settles_ms=settles_ms)
    yield from admit_globally(state, account.id)


def add_rule(state: StateView, command: AddRule) -> Decision[RuleId]:
    rule_id = RuleId(f"rule_{state.counters.rules + 1}")
    yield RuleAdded(rule=replace(command.rule, rule_id=rule_id))
    return rule_id


def remove_rules(state: StateView, command: RemoveRules) -> Decision[None]:
    if command.rule_id is not None and command.rule_id not in state.rules:
        raise NotFound(f"destination rule {command.rule_id} not found")
    chosen = tuple(state.rules) if command.rule_id is None else (command.rule_id,)
    if chosen:
        yield RulesRemoved(rule_ids=chosen)
