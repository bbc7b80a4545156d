"""Queue accounts: credentials, signing keys, plan, budget, and changes of the record as a whole."""

from __future__ import annotations

from msgspec.structs import replace

from emulator.core.commands import (
    ChangeAccount,
    MoveToTeam,
    RotateSigningKeys,
    RotateToken,
    SetBudget,
    SetPlan,
    SetProductionPack,
)
from emulator.core.decision import Decision, account_state
from emulator.core.facts import AccountChanged, AccountTokenRotated, SigningKeysRotated
from emulator.core.identifiers import queue_token, signing_key, token_text
from emulator.core.model.accounts import Account, SigningKeys
from emulator.core.plans import on_plan
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


def rotate_token(state: StateView, command: RotateToken) -> Decision[Account]:
    """New credentials, the read-only ones too; the reply is the record that holds them (D-162)."""
    owner = account_state(state, command.account_id)
    number = state.counters.account_tokens + 1
    password = token_text(state.key, f"password of {command.account_id}", number, 40)
    read_only = token_text(state.key, f"read-only token of {command.account_id}", number, 40)
    yield AccountTokenRotated(
        account_id=command.account_id,
        password=password,
        token=queue_token(command.account_id, password),
        read_only_token=queue_token(command.account_id, read_only),
    )
    return owner.account


def set_plan(state: StateView, command: SetPlan) -> Decision[None]:
    """The plan's limits hold from this instant on; what exists beyond them stays (D-163)."""
    account = on_plan(account_state(state, command.account_id).account, command.plan)
    yield AccountChanged(account=replace(account, last_plan_upgrade_time=state.now_ms // 1000))
    yield from admit_globally(state, command.account_id)


def set_budget(state: StateView, command: SetBudget) -> Decision[None]:
    """Record a budget, which limits nothing here. Raises NotFound for an account of none."""
    account = account_state(state, command.account_id).account
    yield AccountChanged(account=replace(account, budget=command.budget))


def set_production_pack(state: StateView, command: SetProductionPack) -> Decision[None]:
    """Record whether the account has the pack, which changes nothing else. Raises NotFound."""
    account = account_state(state, command.account_id).account
    yield AccountChanged(account=replace(account, prod_pack_enabled=command.enabled))


def move_to_team(state: StateView, command: MoveToTeam) -> Decision[None]:
    """The team becomes the account's customer; nothing else depends on it (D-164)."""
    account = account_state(state, command.account_id).account
    yield AccountChanged(account=replace(account, customer_id=command.team_id))
