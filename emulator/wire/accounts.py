"""The management API's JSON: queue accounts and search indexes, and what clients send about them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Final

from msgspec.structs import fields, replace

from emulator.core.commands import AmendAccount, CreateSearchIndex
from emulator.core.errors import InvalidInput
from emulator.core.model.resources import Account, IndexType, Plan, SearchIndex, TeamMember
from emulator.core.plans import SEARCH_REGIONS, PlanName
from emulator.core.record import AccountId
from emulator.wire.dialect import Dialect
from emulator.wire.json_reader import (
    Fields,
    Json,
    JsonObject,
    boolean,
    integer,
    joined,
    kind_of,
    one_of,
    read_choice,
    read_integer,
    read_json,
    read_number,
    read_object,
    read_text,
)
from emulator.wire.names import parse_free_text, read_field

# -- the queue account record: names and units are those of the interface document's table -----

REGIONS = ("eu-central-1", "us-east-1")
RESERVED_TYPES = ("", "queue_fixed_1m", "queue_fixed_10m", "queue_fixed_100m", "queue_fixed")
ENTERPRISE_PREFIX = "enterprise:"
_LEAST_BUDGET, _MOST_BUDGET = 20, 10_000

# All whole numbers of the record but the budget, which has a grammar of its own.
_INTEGERS: Final = tuple(field.name for field in fields(Account) if field.type is int and field.name != "budget")
# A limit of nothing at all would stop the account from ever delivering.
_AT_LEAST_ONE: Final = frozenset(("max_parallelism", "max_global_parallelism", "timeout", "max_events_size"))


def account_view(account: Account, dialect: Dialect) -> dict[str, Json]:
    """The record as the management API shows it. `modifying_state` and `enterprise` only while they apply (D-031)."""
    view: dict[str, Json] = {
        "customer_id": account.customer_id,
        "id": account.id,
        "password": account.password,
        "token": account.token,
        "read_only_token": account.read_only_token,
        "active": account.active,
        "state": account.state,
        **{name: getattr(account, name) for name in _INTEGERS},
        "type": account.type.value,
        "reserved_type": dialect.wire_name(account.reserved_type),
        "reserved_price": account.reserved_price,
        "prod_pack_enabled": account.prod_pack_enabled,
        dialect.wire_name("metrics_enabled"): account.metrics_enabled,
        "region": account.region,
        "budget": account.budget,
        "created_by": account.created_by,
    }
    if account.modifying_state:
        view["modifying_state"] = account.modifying_state
    if account.enterprise is not None:
        view["enterprise"] = {"enabled": account.enterprise}
    return view


def team_member_view(member: TeamMember) -> dict[str, Json]:
    """A person of the team, which only the control API shows (D-168)."""
    return {"name": member.name, "email": member.email, "role": member.role.value}


def read_account_changes(value: Json, account: Account, dialect: Dialect) -> Account:
    """The account with the given fields changed, under their own names or the dialect's.

    Raises: InvalidInput naming a field that is unknown, fixed (`id`), or of another type.
    """
    given = read_object(value, "", account_fields(dialect))
    return replace(account, **read_account_fields(given, "", dialect))


def account_fields(dialect: Dialect) -> tuple[str, ...]:
    """The names under which fields of the record may be given: the document's and the dialect's."""
    return tuple(_document_names(_READERS, dialect))


def read_account_fields(given: JsonObject, path: str, dialect: Dialect) -> dict[str, object]:
    """What an object says about fields of the record, by the document's names; its other keys are left alone.

    A burst limit that is given is marked as such, because it then counts on a frozen clock too (D-032).
    Raises: InvalidInput naming the field.
    """
    names = _document_names(_READERS, dialect)
    fields: dict[str, object] = {
        names[key]: _reserved_type(value, joined(path, key), dialect)
        if names[key] == "reserved_type"
        else _READERS[names[key]](value, joined(path, key))
        for key, value in given.items()
        if key in names
    }
    if "max_requests_per_second" in fields:
        fields["burst_limit_is_set"] = True
    return fields


def _document_names(names: Iterable[str], dialect: Dialect) -> dict[str, str]:
    """The document's name for each name that may be given: its own, or the dialect's for it."""
    return {dialect.wire_name(name): name for name in names} | {name: name for name in names}


# -- single values ----------------------------------------------------------------------------


def _text(value: Json, path: str) -> str:
    text = read_text(value, path)
    if len(text) > 1024:
        raise InvalidInput(path, "expected at most 1024 characters")
    return text


def _secret(value: Json, path: str) -> str:
    text = _text(value, path)
    if not text.isprintable() or not text.isascii():
        raise InvalidInput(path, "expected printable ASCII characters, at least one")
    return text


def _reserved_type(value: Json, path: str, dialect: Dialect) -> str:
    # Empty is a label too: that of an account which has no fixed plan.
    text = "" if value == "" else _text(value, path)
    if text.startswith(ENTERPRISE_PREFIX) and text != ENTERPRISE_PREFIX:
        return text
    names = _document_names(RESERVED_TYPES, dialect)
    return names[read_choice(value, path, tuple(names))]


def _price(value: Json, path: str) -> float:
    price = read_number(value, path)
    if price < 0:
        raise InvalidInput(path, f"expected a price of at least 0, got {price}")
    return price


def read_budget(value: Json, path: str) -> int:
    """A budget in dollars a month: 0 for none, or 20 to 10000. Raises: InvalidInput."""
    budget = read_integer(value, path, 0, _MOST_BUDGET)
    if 0 < budget < _LEAST_BUDGET:
        raise InvalidInput(path, f"expected 0 (no limit) or {_LEAST_BUDGET} to {_MOST_BUDGET} dollars, got {budget}")
    return budget


def _enterprise(value: Json, path: str) -> bool | None:
    if value is None:
        return None
    given = read_object(value, path, ("enabled",))
    return boolean(given.get("enabled"), f"{path}.enabled")


# `reserved_type` is read with the dialect, which renames its values.
_READERS: Final[Mapping[str, Callable[[Json, str], object]]] = {
    "customer_id": _text,
    "password": _secret,
    "token": _secret,
    "read_only_token": _secret,
    "active": boolean,
    "state": _text,
    "modifying_state": _text,
    **{name: integer(1 if name in _AT_LEAST_ONE else 0) for name in _INTEGERS},
    "type": one_of(Plan),
    "reserved_type": _text,
    "reserved_price": _price,
    "prod_pack_enabled": boolean,
    "metrics_enabled": partial(read_choice, choices=("true", "false")),
    "enterprise": _enterprise,
    "region": partial(read_choice, choices=REGIONS),
    "budget": read_budget,
    "created_by": _text,
}


# -- requests ---------------------------------------------------------------------------------
# Unknown keys are ignored, and a key may have the document's name or the dialect's (D-174).

# What can be created: the interface document says that `fixed` is not available at present (D-187).
_AVAILABLE = (IndexType.FREE, IndexType.PAYG)
# The plans as the service calls them; on `paid` one pays as one goes (D-160).
_PLANS = {
    "paid": PlanName.PAYG,
    PlanName.QUEUE_FIXED_1M.value: PlanName.QUEUE_FIXED_1M,
    PlanName.QUEUE_FIXED_10M.value: PlanName.QUEUE_FIXED_10M,
    PlanName.QUEUE_FIXED_100M.value: PlanName.QUEUE_FIXED_100M,
}


# In the order of the interface document's table. The profile is not of the service.
_INDEX_FIELDS = tuple(
    dict.fromkeys(("customer_id", *(name for name in SearchIndex.__struct_fields__ if name != "profile_number")))
)


def read_new_search_index(body: bytes, customer_id: str) -> CreateSearchIndex:
    """The body of a creation, as the interface document has it. Raises: InvalidInput naming the field."""
    given = Fields(read_json(body), "")
    name = given.need("name", _name)
    region = given.need("region", partial(read_choice, choices=SEARCH_REGIONS))
    index_type = given.need("type", one_of(IndexType))
    if index_type not in _AVAILABLE:
        raise InvalidInput("type", f"{index_type} is not available, expected {' or '.join(_AVAILABLE)}")
    return CreateSearchIndex(customer_id=customer_id, name=name, region=region, type=index_type)


def read_name(body: bytes, key: str) -> str:
    """The new name of a rename, or the account that a transfer goes to. Raises: InvalidInput."""
    return Fields(read_json(body), "").need(key, _name)


def read_plan(body: bytes, dialect: Dialect) -> PlanName:
    """The body of a change of plan. Raises: InvalidInput."""
    choices = {dialect.wire_name(name): plan for name, plan in _PLANS.items()} | _PLANS
    plan = Fields(read_json(body), "").need("plan_name", lambda value, path: value)
    if not isinstance(plan, str) or plan not in choices:
        raise InvalidInput("plan_name", f"expected one of {', '.join(map(dialect.wire_name, _PLANS))}")
    return choices[plan]


def read_new_budget(body: bytes) -> int:
    """The body of a change of budget: 0, or 20 to 10000 dollars. Raises: InvalidInput."""
    return Fields(read_json(body), "").need("budget", read_budget)


def read_team_move(body: bytes, dialect: Dialect) -> AmendAccount:
    """The body of a move to a team. Raises: InvalidInput."""
    given = Fields(read_json(body), "")
    key = dialect.wire_name("queue_id")
    account_id = AccountId(given.need(key if key in given else "queue_id", _name))
    return AmendAccount(account_id=account_id, customer_id=given.need("target_team_id", _name))


def search_index_view(index: SearchIndex, throughput: Sequence[Json], dialect: Dialect) -> dict[str, Json]:
    """The record, with the throughput that goes with it; every field is always there."""
    fields: dict[str, Json] = {
        dialect.wire_name(name) if name == "integration_email" else name: getattr(index, name) for name in _INDEX_FIELDS
    }
    return fields | {"throughput_vector": throughput}


def _name(value: Json, path: str) -> str:
    """A name or an id: 1 to 256 printable characters (D-076)."""
    if not isinstance(value, str):
        raise InvalidInput(path, f"expected a string, got {kind_of(value)}")
    return read_field(path, value, parse_free_text)
