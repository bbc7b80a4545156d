"""The shape of a decision: a generator of facts that ends with the reply."""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar

from emulator.core.errors import NotFound
from emulator.core.facts import Fact
from emulator.core.model.names import AccountId
from emulator.core.state_view import AccountView, StateView

R = TypeVar("R")

# Each fact is applied before the generator goes on, so a decision sees what it has just caused.
Decision = Generator[Fact, None, R]


def account_state(state: StateView, account_id: AccountId) -> AccountView:
    """An account's state. Raises NotFound for an account this world does not have."""
    owner = state.accounts.get(account_id)
    if owner is None:
        raise NotFound(f"account {account_id} not found")
    return owner
