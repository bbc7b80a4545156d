"""Queue accounts and search indexes: credentials, signing keys, plan, budget; making, moving and deleting indexes."""

from __future__ import annotations

from base64 import b64encode
from hashlib import blake2b

from msgspec.structs import asdict, replace

from emulator.core.commands import (
    AmendAccount,
    ChangeAccount,
    ChangeSearchIndex,
    CreateSearchIndex,
    DeleteSearchIndex,
    ResetSearchIndexPassword,
    RotateSigningKeys,
    RotateToken,
    SetPlan,
)
from emulator.core.model.resources import Account, IndexType, SearchIndex, SigningKeys
from emulator.core.plans import INDEX_CAPS, on_plan
from emulator.core.record import IndexId, Record, queue_token, signing_key, token_text, uuid
from emulator.core.resource_facts import (
    AccountChanged,
    AccountTokenRotated,
    SearchIndexChanged,
    SearchIndexCreated,
    SearchIndexDeleted,
    SigningKeysRotated,
)
from emulator.core.rules.attempts import admit_globally
from emulator.core.state import Decision, StateView, account_state, found

# -- accounts -----------------------------------------------------------------------------------

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


def amend_account(state: StateView, command: AmendAccount) -> Decision[None]:
    """Record what limits nothing here. Raises NotFound for an account of another world, or of none."""
    account = account_state(state, command.account_id).account
    yield AccountChanged(account=replace(account, **_given(command, "budget", "prod_pack_enabled", "customer_id")))


def _given(command: Record, *names: str) -> dict[str, object]:
    """Those fields of a command that say something."""
    return {name: value for name in names if (value := getattr(command, name)) is not None}


# -- search indexes -----------------------------------------------------------------------------
# Identifiers and tokens made here are unique across the worlds of a server, although worlds of one
# seed share everything else: an account's id, which no two worlds have in common, goes into them.


def create_search_index(state: StateView, command: CreateSearchIndex) -> Decision[SearchIndex]:
    """Make an index, with tokens that follow from the seed and its number."""
    index = new_search_index(
        state.key,
        scope=next(iter(state.accounts)),
        number=state.counters.indexes + 1,
        customer_id=command.customer_id,
        name=command.name,
        region=command.region,
        type_=command.type,
        creation_time=state.now_ms // 1000,
    )
    yield SearchIndexCreated(index=index)
    return index


def change_search_index(state: StateView, command: ChangeSearchIndex) -> Decision[None]:
    """Raises NotFound for an index of another world, or of none."""
    index = search_index(state, command.index_id)
    yield SearchIndexChanged(index=replace(index, **_given(command, "name", "customer_id")))


def reset_search_index_password(state: StateView, command: ResetSearchIndexPassword) -> Decision[SearchIndex]:
    """Give an index new tokens; the index with them. Raises NotFound."""
    index = search_index(state, command.index_id)
    tokens = _index_tokens(state.key, index.id, state.counters.index_tokens + 1)
    yield SearchIndexChanged(index=replace(index, token=tokens[0], read_only_token=tokens[1]))
    return search_index(state, command.index_id)


def delete_search_index(state: StateView, command: DeleteSearchIndex) -> Decision[None]:
    """Raises NotFound for an index of another world, or of none."""
    yield SearchIndexDeleted(index_id=search_index(state, command.index_id).id)


def search_index(state: StateView, index_id: IndexId) -> SearchIndex:
    """Raises NotFound for an index this world does not have."""
    return found(state.search_indexes, index_id, "search index")


def new_search_index(
    key: bytes,
    *,
    scope: str,
    number: int,
    customer_id: str,
    name: str,
    region: str,
    type_: IndexType,
    creation_time: int,
) -> SearchIndex:
    """Index `number` of a world, with the caps of its type. `scope` tells worlds of one key apart."""
    index_id = IndexId(uuid(key, f"search index of {scope}", number))
    token, read_only_token = _index_tokens(key, index_id, 0)
    return SearchIndex(
        id=index_id,
        profile_number=number,
        customer_id=customer_id,
        name=name,
        endpoint=host_label(index_id, region),
        type=type_,
        region=region,
        integration_email="",
        token=token,
        read_only_token=read_only_token,
        **asdict(INDEX_CAPS[type_]),
        max_writes_per_second=1_000,
        max_query_per_second=1_000,
        max_reads_per_request=100,
        max_writes_per_request=100,
        creation_time=creation_time,
        input_enrichment_enabled=True,
    )


def host_label(index_id: str, region: str) -> str:
    """What the service calls an index's host: `glowing-baboon-15797-us1` (D-165)."""
    number = int.from_bytes(blake2b(index_id.encode(), digest_size=8, person=b"host").digest(), "big")
    number, adjective = divmod(number, len(_ADJECTIVES))
    number, animal = divmod(number, len(_ANIMALS))
    return f"{_ADJECTIVES[adjective]}-{_ANIMALS[animal]}-{10_000 + number % 90_000}-{region[:2]}1"


_ADJECTIVES = ("amusing", "brave", "calm", "eager", "fresh", "glowing", "honest", "keen", "lucky", "mighty", "sunny")
_ANIMALS = ("badger", "baboon", "crane", "dolphin", "falcon", "gecko", "heron", "lynx", "marmot", "otter", "panda")


def _index_tokens(key: bytes, index_id: str, number: int) -> tuple[str, str]:
    """The token and the read-only token of an index, base64 as the service's are (D-189)."""
    texts = (token_text(key, f"{kind} of {index_id}", number, 40) for kind in ("token", "read-only token"))
    token, read_only_token = (b64encode(f"{index_id}:{text}".encode()).decode() for text in texts)
    return token, read_only_token
