"""Worlds and snapshots as JSON: what is read, what is refused and by which name, and what is answered."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from emulator.core.errors import InvalidInput
from emulator.core.model.accounts import Plan
from emulator.core.model.names import AccountId
from emulator.core.world_setup import WorldSetup
from emulator.queries.reports import ClockStatus, Credentials, Snapshot
from emulator.wire.control.worlds import read_reset, read_snapshot_name, read_world, snapshot_view, world_view
from emulator.wire.json_fields import Json

DEFAULTS = WorldSetup(id="", seed=3, epoch_ms=1_767_225_600_000, rate=0.0, plan=Plan.PAID, epoch_is_given=False)


def _read_world(document: Json) -> WorldSetup:
    return read_world(document, DEFAULTS)


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        pytest.param(None, DEFAULTS, id="no-body"),
        pytest.param({"id": "w-1"}, replace(DEFAULTS, id="w-1"), id="no-epoch"),
        pytest.param(
            {"id": "w-1", "seed": 7, "epoch": "1970-01-02", "rate": 60, "fixtures": {"queues": []}, "plan": "free"},
            WorldSetup(id="w-1", seed=7, epoch_ms=86_400_000, rate=60.0, fixtures={"queues": []}, plan=Plan.FREE),
            id="everything",
        ),
    ],
)
def test_world_is_read(document: Json, expected: WorldSetup) -> None:
    assert read_world(document, DEFAULTS) == expected


def test_reset_and_snapshot_are_read() -> None:
    assert read_reset(None) is None
    assert read_reset({"fixtures": {"queues": []}}) == {"queues": []}
    assert read_snapshot_name({"name": "before-test.1"}) == "before-test.1"


@pytest.mark.parametrize(
    ("reader", "document", "field"),
    [
        pytest.param(_read_world, {"id": ""}, "id", id="world-id-empty"),
        pytest.param(_read_world, {"id": ".."}, "id", id="world-id-dots"),
        pytest.param(_read_world, {"id": "a/b"}, "id", id="world-id-slash"),
        pytest.param(_read_world, {"id": "a" * 65}, "id", id="world-id-long"),
        pytest.param(_read_world, {"seed": "7"}, "seed", id="seed"),
        pytest.param(_read_world, {"seed": 2**60}, "seed", id="seed-not-exact"),
        pytest.param(_read_world, {"epoch": {}}, "epoch", id="epoch"),
        pytest.param(_read_world, {"rate": None}, "rate", id="world-rate"),
        pytest.param(_read_world, {"fixtures": "a.yaml"}, "fixtures", id="fixtures"),
        pytest.param(_read_world, {"plan": "gold"}, "plan", id="plan"),
        pytest.param(_read_world, {"token": "a b"}, "token", id="token"),
        pytest.param(_read_world, {"clock": 0}, "clock", id="world-unknown"),
        pytest.param(read_reset, {"fixtures": []}, "fixtures", id="reset-fixtures"),
        pytest.param(read_reset, {"seed": 1}, "seed", id="reset-unknown"),
        pytest.param(read_snapshot_name, None, "body", id="snapshot-null"),
        pytest.param(read_snapshot_name, {}, "name", id="snapshot-without-name"),
        pytest.param(read_snapshot_name, {"name": "../up"}, "name", id="snapshot-name"),
    ],
)
def test_body_that_is_wrong_names_the_field(reader: object, document: Json, field: str) -> None:
    """D-127, D-128."""
    assert callable(reader)
    with pytest.raises(InvalidInput) as caught:
        reader(document)
    assert caught.value.field == field


def test_world_view_holds_credentials_and_clock() -> None:
    credentials = Credentials(
        account_id=AccountId("a"),
        token="t",
        read_only_token="r",
        current_signing_key="sig_1",
        next_signing_key="sig_2",
        username="user@example.com",
        password="p",
        search_index_ids=("s1",),
        vector_index_ids=(),
    )
    clock = ClockStatus(now_ms=1_767_225_600_000, rate=0.0, next_due_ms=None, pending=0, in_flight=0)
    assert world_view("w-1", credentials, clock, None) == {
        "id": "w-1",
        "credentials": {
            "queue": {
                "account_id": "a",
                "token": "t",
                "read_only_token": "r",
                "current_signing_key": "sig_1",
                "next_signing_key": "sig_2",
            },
            "management": {"username": "user@example.com", "password": "p"},
            "search_index_ids": ["s1"],
            "vector_index_ids": [],
        },
        "clock": {
            "now": "2026-01-01T00:00:00.000Z",
            "now_ms": 1_767_225_600_000,
            "rate": 0,
            "next_due_ms": None,
            "pending": 0,
            "in_flight": 0,
            "slipped_ms": 0,
        },
    }


def test_snapshot_is_shown_with_both_forms_of_its_instant() -> None:
    snapshot = Snapshot(name="before", now_ms=1_767_225_600_001, pending=3, size_bytes=77_824)

    expected = {
        "name": "before",
        "created": "2026-01-01T00:00:00.001Z",
        "created_ms": 1_767_225_600_001,
        "pending": 3,
        "size_bytes": 77_824,
    }
    assert snapshot_view(snapshot) == expected
