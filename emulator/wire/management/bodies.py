"""The management API's JSON: search indexes, what clients send about them and about queue accounts.

Unknown keys are ignored, and a key may have the document's name or the dialect's (D-174).
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from emulator.core.commands import CreateSearchIndex, MoveToTeam
from emulator.core.errors import InvalidInput
from emulator.core.model.accounts import IndexType, SearchIndex
from emulator.core.model.names import AccountId
from emulator.core.plans import SEARCH_REGIONS, PlanName
from emulator.wire import names
from emulator.wire.dialect import Dialect
from emulator.wire.fields import read_field
from emulator.wire.json_fields import WHOLE, Json, JsonObject, kind_of, read_choice
from emulator.wire.management import accounts as account_json

# What can be created: the interface document says that `fixed` is not available at present (D-187).
_AVAILABLE = (IndexType.FREE.value, IndexType.PAYG.value)
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
    given = _read_body(body)
    name = _name(given, "name")
    region = read_choice(_required(given, "region"), "region", SEARCH_REGIONS)
    index_type = read_choice(_required(given, "type"), "type", tuple(IndexType))
    if index_type not in _AVAILABLE:
        raise InvalidInput("type", f"{index_type} is not available, expected {' or '.join(_AVAILABLE)}")
    return CreateSearchIndex(customer_id=customer_id, name=name, region=region, type=IndexType(index_type))


def read_new_name(body: bytes) -> str:
    """The body of a rename. Raises: InvalidInput."""
    return _name(_read_body(body), "name")


def read_target_account(body: bytes) -> str:
    """The body of a transfer. Raises: InvalidInput."""
    return _name(_read_body(body), "target_account")


def read_plan(body: bytes, dialect: Dialect) -> PlanName:
    """The body of a change of plan. Raises: InvalidInput."""
    given = _read_body(body)
    choices = {dialect.wire_name(name): plan for name, plan in _PLANS.items()} | _PLANS
    plan = _required(given, "plan_name")
    if not isinstance(plan, str) or plan not in choices:
        raise InvalidInput("plan_name", f"expected one of {', '.join(map(dialect.wire_name, _PLANS))}")
    return choices[plan]


def read_budget(body: bytes) -> int:
    """The body of a change of budget: 0, or 20 to 10000 dollars. Raises: InvalidInput."""
    return account_json.read_budget(_required(_read_body(body), "budget"), "budget")


def read_team_move(body: bytes, dialect: Dialect) -> MoveToTeam:
    """The body of a move to a team. Raises: InvalidInput."""
    given = _read_body(body)
    key = dialect.wire_name("queue_id")
    return MoveToTeam(
        account_id=AccountId(_name(given, key if key in given else "queue_id")),
        team_id=_name(given, "target_team_id"),
    )


def search_index_view(index: SearchIndex, throughput: Sequence[Json], dialect: Dialect) -> dict[str, Json]:
    """The record, with the throughput that goes with it; every field is always there."""
    fields: dict[str, Json] = {
        dialect.wire_name(name) if name == "integration_email" else name: getattr(index, name) for name in _INDEX_FIELDS
    }
    return fields | {"throughput_vector": throughput}


def _name(given: JsonObject, key: str) -> str:
    """A name or an id: 1 to 256 printable characters (D-076)."""
    value = _required(given, key)
    if not isinstance(value, str):
        raise InvalidInput(key, f"expected a text, got {kind_of(value)}")
    return read_field(key, value, names.parse_free_text)


def _required(given: JsonObject, key: str) -> Json:
    if key not in given:
        raise InvalidInput(key, "is missing")
    return given[key]


def _read_body(body: bytes) -> JsonObject:
    if not body.strip():
        raise InvalidInput(WHOLE, "expected JSON, got an empty body")
    try:
        content: Json = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidInput(WHOLE, f"expected JSON: {error}") from None
    except RecursionError:
        raise InvalidInput(WHOLE, "expected JSON: too many nested values") from None
    if not isinstance(content, dict):
        raise InvalidInput(WHOLE, f"expected an object, got {kind_of(content)}")
    return content
