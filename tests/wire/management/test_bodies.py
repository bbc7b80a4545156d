"""The bodies of the management API, and the record of a search index."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial

import pytest

from emulator.core.commands import AmendAccount, CreateSearchIndex
from emulator.core.errors import InvalidInput
from emulator.core.model.resources import IndexType, SearchIndex
from emulator.core.plans import PlanName
from emulator.core.record import AccountId, IndexId
from emulator.wire import accounts, dialect
from emulator.wire.json_reader import Json
from tests.wire.request_parts import refused

UPSTASH = dialect.load("upstash")
GOOD = {"name": "mySearchIndex", "region": "eu-west-1", "type": "payg"}
NO_TEXTS: tuple[object, ...] = (None, 7, True, [], {}, "")
INDEX = SearchIndex(
    id=IndexId("i"),
    profile_number=1,
    customer_id="c",
    name="n",
    endpoint="e",
    type=IndexType.FIXED,
    region="us-central1",
    integration_email="p@example.com",
    token="t",
    read_only_token="r",
    max_vector_count=1,
    max_monthly_reranks=2,
    max_daily_updates=3,
    max_daily_queries=4,
    max_monthly_bandwidth=-1,
    max_writes_per_second=6,
    max_query_per_second=7,
    max_reads_per_request=8,
    max_writes_per_request=9,
    creation_time=1_761_200_000,
    input_enrichment_enabled=False,
)


def body(**changes: object) -> bytes:
    return json.dumps({**GOOD, **changes}).encode()


@pytest.mark.parametrize("name", ["x", "x" * 256, "Größe 7 / ✓"])
@pytest.mark.parametrize(("region", "type_"), [("eu-west-1", IndexType.FREE), ("us-central1", IndexType.PAYG)])
def test_a_creation_is_read(region: str, type_: IndexType, name: str) -> None:
    expected = CreateSearchIndex(customer_id="me", name=name, region=region, type=type_)
    content = body(name=name, region=region, type=type_.value, color="red")
    assert accounts.read_new_search_index(content, "me") == expected


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *((name, value) for name in GOOD for value in NO_TEXTS),
        ("name", "x" * 257),
        ("name", "two\nlines"),
        ("region", "us-east-1"),
        ("region", "EU-WEST-1"),
        ("type", "paid"),
        ("type", "FREE"),
        ("type", "fixed"),
    ],
)
def test_a_wrong_field_of_a_creation_is_named(field: str, value: object) -> None:
    with refused(field):
        accounts.read_new_search_index(body(**{field: value}), "me")


@pytest.mark.parametrize("field", GOOD)
def test_a_missing_field_of_a_creation_is_named(field: str) -> None:
    with pytest.raises(InvalidInput, match=f"^{field}: is missing$"):
        accounts.read_new_search_index(json.dumps({name: GOOD[name] for name in GOOD if name != field}).encode(), "me")


def test_a_fixed_index_is_not_available() -> None:
    """D-187."""
    with pytest.raises(InvalidInput, match="fixed is not available, expected free or payg"):
        accounts.read_new_search_index(body(type="fixed"), "me")


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"null"],
)
@pytest.mark.parametrize(
    "read",
    [
        lambda content: accounts.read_new_search_index(content, "me"),
        partial(accounts.read_name, key="name"),
        accounts.read_new_budget,
        lambda content: accounts.read_plan(content, dialect.SVC),
        lambda content: accounts.read_team_move(content, dialect.SVC),
    ],
)
def test_what_is_no_json_object_is_the_body_s_fault(read: Callable[[bytes], object], content: bytes) -> None:
    with refused("body"):
        read(content)


@pytest.mark.parametrize(
    ("name", "plan"),
    [
        ("paid", PlanName.PAYG),
        ("queue_fixed_1m", PlanName.QUEUE_FIXED_1M),
        ("queue_fixed_10m", PlanName.QUEUE_FIXED_10M),
        ("queue_fixed_100m", PlanName.QUEUE_FIXED_100M),
    ],
)
def test_plans_have_the_dialect_s_names_and_the_document_s(name: str, plan: PlanName) -> None:
    """D-160, D-174."""
    content = json.dumps({"plan_name": name}).encode()
    assert accounts.read_plan(content, dialect.SVC) is plan
    assert accounts.read_plan(content, UPSTASH) is plan
    assert accounts.read_plan(content.replace(b"queue_", b"qstash_"), UPSTASH) is plan


@pytest.mark.parametrize("plan", [None, 1, "", "free", "queue_fixed", "qstash_fixed_1m", "PAID", ["paid"]])
def test_an_unknown_plan_is_named(plan: object) -> None:
    with pytest.raises(InvalidInput, match="queue_fixed_100m") as refused:
        accounts.read_plan(json.dumps({"plan_name": plan}).encode(), dialect.SVC)
    assert refused.value.field == "plan_name"


@pytest.mark.parametrize("budget", [0, 20, 10_000])
def test_a_budget_is_none_or_20_to_10000(budget: int) -> None:
    assert accounts.read_new_budget(json.dumps({"budget": budget}).encode()) == budget


@pytest.mark.parametrize("budget", [-1, 1, 19, 10_001, 20.5, "20", None, True])
def test_a_wrong_budget_is_named(budget: object) -> None:
    with refused("budget"):
        accounts.read_new_budget(json.dumps({"budget": budget}).encode())


def test_a_move_to_a_team_has_the_dialect_s_name_for_the_account() -> None:
    """D-174."""
    move = AmendAccount(account_id=AccountId("a"), customer_id="t")
    assert accounts.read_team_move(b'{"queue_id": "a", "target_team_id": "t"}', dialect.SVC) == move
    assert accounts.read_team_move(b'{"qstash_id": "a", "target_team_id": "t"}', UPSTASH) == move
    assert accounts.read_team_move(b'{"queue_id": "a", "target_team_id": "t"}', UPSTASH) == move
    with refused("target_team_id"):
        accounts.read_team_move(b'{"queue_id": "a"}', dialect.SVC)
    with refused("queue_id"):
        accounts.read_team_move(b'{"target_team_id": "t"}', dialect.SVC)


def test_the_record_has_every_field_of_the_document() -> None:
    throughput: list[Json] = [{"x": "2025-10-23 20:54:00.000 +0000 UTC", "y": 0}]
    assert accounts.search_index_view(INDEX, throughput, dialect.SVC) == {
        "customer_id": "c",
        "id": "i",
        "name": "n",
        "endpoint": "e",
        "type": "fixed",
        "region": "us-central1",
        "integration_email": "p@example.com",
        "token": "t",
        "read_only_token": "r",
        "max_vector_count": 1,
        "max_monthly_reranks": 2,
        "max_daily_updates": 3,
        "max_daily_queries": 4,
        "max_monthly_bandwidth": -1,
        "max_writes_per_second": 6,
        "max_query_per_second": 7,
        "max_reads_per_request": 8,
        "max_writes_per_request": 9,
        "creation_time": 1_761_200_000,
        "input_enrichment_enabled": False,
        "throughput_vector": throughput,
    }


def test_the_upstash_dialect_renames_the_integration_email() -> None:
    view = accounts.search_index_view(INDEX, [], UPSTASH)
    assert view["vercel_email"] == "p@example.com"
    assert "integration_email" not in view
