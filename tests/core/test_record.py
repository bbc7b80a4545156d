"""Records of a brief type are what records of the whole type are, without a place for what has its default."""

from __future__ import annotations

import msgspec
import pytest
from msgspec.structs import replace

from emulator.core.model.messages import BriefMessage, Message
from emulator.core.record import Record, brief, whole
from tests.harness.simulations import World


class Parcel(Record, array_like=True):
    to: str
    weight: int = 1
    labels: tuple[str, ...] = ()
    note: str | None = None


BriefParcel = brief(Parcel, "to", "weight")


def test_a_brief_record_reads_and_compares_as_a_whole_one() -> None:
    one, other = BriefParcel(to="a", weight=2), Parcel(to="a", weight=2)
    assert (one.to, one.weight, one.labels, one.note) == ("a", 2, (), None)
    assert BriefParcel(to="a").weight == 1
    assert one == other
    assert other == one
    assert hash(one) == hash(other)
    assert one != BriefParcel(to="a")
    assert other != BriefParcel(to="a")
    assert one != Parcel(to="a", weight=2, note="fragile")
    assert one != object()
    assert type(whole(one)) is Parcel
    assert repr(one) == repr(whole(one))
    assert whole(other) is other
    assert replace(whole(one), note="fragile") == Parcel(to="a", weight=2, note="fragile")


def test_a_brief_record_is_stored_as_a_whole_one_and_takes_less_room() -> None:
    one, other = BriefParcel(to="a", weight=2), Parcel(to="a", weight=2)
    stored = msgspec.msgpack.encode(one)
    assert msgspec.msgpack.decode(stored, type=Parcel) == other
    assert len(stored) < len(msgspec.msgpack.encode(other))
    assert one.__sizeof__() < other.__sizeof__()


def test_a_field_without_a_default_has_a_place() -> None:
    with pytest.raises(AssertionError):
        brief(Parcel, "weight")


def test_a_message_is_brief_unless_it_has_something_rare() -> None:
    world = World(answering=None)
    plain, labeled = (world.publish("https://a.example.com/", labels=labels, delay_ms=5) for labels in ((), ("x",)))
    assert type(world.messages[plain]) is BriefMessage
    assert type(world.messages[labeled]) is Message
    # Nothing but what it is missing tells it from one with all fields.
    message = whole(world.messages[plain])
    assert message == world.messages[plain]
    assert {name for name in Message.__struct_fields__ if getattr(message, name)} >= {"message_id", "url", "method"}
    assert not any(getattr(message, name) for name in Message.__struct_fields__[len(BriefMessage.__struct_fields__) :])
