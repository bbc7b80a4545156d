"""What opens a world: the tokens of its accounts, and the login of the management API."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from emulator.core.identifiers import queue_token, token_text
from emulator.core.model.accounts import Account
from emulator.core.state import State
from emulator.core.state_view import StateView
from emulator.core.world_setup import WorldSetup
from emulator.queries.reports import Credentials


def login_of(setup: WorldSetup) -> tuple[str, str]:
    """User name and password of the management API."""
    return setup.owner, token_text(setup.secret_key, "management", 1, 40)


def credentials_of(state: StateView, login: tuple[str, str]) -> Credentials:
    """All a client needs to use a world, as its first account."""
    account = next(iter(state.accounts.values())).account
    username, password = login
    return Credentials(
        account_id=account.id,
        token=account.token,
        read_only_token=account.read_only_token,
        current_signing_key=account.signing_keys.current,
        next_signing_key=account.signing_keys.next,
        username=username,
        password=password,
        search_index_ids=tuple(state.search_indexes),
        vector_index_ids=tuple(state.vector_indexes),
    )


def put_credentials(state: State, accounts: Iterable[Account]) -> None:
    """Give the accounts of a state the credentials and signing keys of others, in order."""
    for owner, account in zip(state.accounts.values(), accounts, strict=False):
        owner.account = replace(
            owner.account,
            password=account.password,
            token=account.token,
            read_only_token=account.read_only_token,
            signing_keys=account.signing_keys,
        )


def give_credentials(state: State, setup: WorldSetup) -> None:
    """Give the accounts of a copied state tokens and passwords of another world; the signing keys stay (D-434)."""
    for number, owner in enumerate(state.accounts.values(), start=1):
        is_chosen = number == 1 and setup.token
        key = setup.account_key if is_chosen else setup.secret_key
        account_id, password = owner.account.id, token_text(key, "password", number, 40)
        owner.account = replace(
            owner.account,
            password=password,
            token=setup.token if is_chosen else queue_token(account_id, password),
            read_only_token=queue_token(account_id, token_text(key, "read-only", number, 40)),
        )


def tokens_of(*accounts: Account) -> set[str]:
    return {token for account in accounts for token in (account.token, account.read_only_token)}


def accounts_of(state: StateView) -> tuple[Account, ...]:
    return tuple(owner.account for owner in state.accounts.values())


def identifiers_of(state: StateView) -> set[str]:
    """All ids and tokens by which a call finds a world or what is in it."""
    return {*state.accounts, *tokens_of(*accounts_of(state)), *state.search_indexes, *state.vector_indexes}
