"""What is written is read back as it was: every fact, and the state as a whole."""

from __future__ import annotations

import functools
import inspect
import re
import threading
import types
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from enum import Enum
from typing import Any, NewType, Union, get_args, get_origin, get_type_hints

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Struct
from msgspec.structs import fields as fields_of

from emulator.core.checkpoint import Checkpoint
from emulator.core.message_facts import MessageStep
from emulator.core.model.messages import AttemptOutcome, Message, Source
from emulator.core.model.options import DeliveryPolicy
from emulator.core.record import Record
from emulator.core.state import Fact, UnloggedFact
from emulator.core.timers import Timer
from emulator.journal import codec
from emulator.journal.projection import Projector
from tests.delivery.samples import attempt
from tests.harness import simulations

_DEPTH = 4
_PRIMITIVES: dict[object, st.SearchStrategy[Any]] = {
    int: st.integers(-(2**63), 2**63 - 1),
    bool: st.booleans(),
    str: st.text(max_size=8),
    bytes: st.binary(max_size=8),
    float: st.floats(allow_nan=False),
    type(None): st.none(),
}


@functools.cache
def any_of(kind: Any, depth: int = _DEPTH) -> st.SearchStrategy[Any]:
    """Any value of a type as our records use them; optional records end at some depth."""
    if isinstance(kind, NewType):
        return any_of(kind.__supertype__, depth)
    if kind in _PRIMITIVES:
        return _PRIMITIVES[kind]
    if isinstance(kind, type) and issubclass(kind, Struct):
        hints = get_type_hints(kind)
        fields = {field.name: any_of(hints[field.name], depth - 1) for field in fields_of(kind)}
        return st.builds(kind, **fields)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return st.sampled_from(list(kind))
    if get_origin(kind) in (Union, types.UnionType):
        kinds = get_args(kind)
        if depth <= 0 and type(None) in kinds:
            return st.none()
        return st.one_of([any_of(each, depth) for each in kinds])
    assert get_origin(kind) is tuple, kind
    parts = get_args(kind)
    if parts[-1] is ...:
        size = 2 if depth > 0 else 0
        return st.lists(any_of(parts[0], depth), max_size=size).map(tuple)
    return st.tuples(*[any_of(part, depth) for part in parts])


def _subclasses(kind: type[Fact]) -> Iterator[type[Fact]]:
    for each in kind.__subclasses__():
        yield each
        yield from _subclasses(each)


def test_every_fact_is_applied_and_stored_and_in_history_or_marked_as_not_shown() -> None:
    kinds = {kind for kind in _subclasses(Fact) if kind.__module__.startswith("emulator.")} - {
        MessageStep,
        UnloggedFact,
    }
    assert [kind for kind in kinds if "apply" not in vars(kind)] == []
    assert set(codec.FACTS.values()) == kinds
    branches = re.findall(r"case \w+\.(\w+)\(\)", inspect.getsource(Projector.rows_of))
    assert sorted(branches) == sorted(kind.__name__ for kind in kinds if kind.in_history)


@pytest.mark.parametrize("kind", codec.FACTS.values(), ids=lambda kind: kind.__name__)
@settings(max_examples=10, deadline=None)
@given(data=st.data())
def test_every_fact_is_read_back_as_it_was(kind: Any, data: st.DataObject) -> None:
    fact = data.draw(any_of(kind))

    (decoded,) = codec.decode_facts(codec.encode_facts([fact]))

    assert decoded == fact
    assert repr(decoded) == repr(fact)


@settings(max_examples=25, deadline=None)
@given(group=st.lists(st.one_of([any_of(kind) for kind in list(codec.FACTS.values())[:5]]), max_size=5))
def test_group_is_read_back_in_order(group: list[Fact]) -> None:
    assert list(codec.decode_facts(codec.encode_facts(group))) == group


@pytest.mark.slow
@settings(max_examples=10, deadline=None)
@given(image=any_of(Checkpoint, 3))
def test_image_is_read_back_as_it_was(image: Checkpoint) -> None:
    assert codec.decode_checkpoint(codec.encode(image)) == image


@settings(max_examples=25, deadline=None)
@given(message=any_of(Message), outcome=any_of(AttemptOutcome))
def test_message_and_outcome_are_read_back_as_they_were(message: Message, outcome: AttemptOutcome) -> None:
    assert codec.decode_message(codec.encode(message)) == message
    assert codec.decode_outcome(codec.encode(outcome)) == outcome


# As databases have them. A new field goes to the end of its record, and of this list.
STORED = {
    Message: (
        *("message_id", "number", "account_id", "created_ms", "not_before_ms", "url", "method", "headers", "body"),
        *("policy", "source", "run"),
    ),
    DeliveryPolicy: (
        *("max_retries", "timeout_ms", "retry_delay", "callback", "failure_callback", "labels", "redaction"),
        *("flow_control", "queue"),
    ),
    Source: (
        *("caller_ip", "created_by", "url_group", "endpoint_name", "schedule_id", "source_message_id", "queue_slot"),
        *("api", "from_dead_letter", "not_applied", "real_not_before_ms", "traceparent"),
    ),
    Timer: ("due_ms", "sequence", "kind", "subject"),
}


@pytest.mark.parametrize("kind", STORED)
def test_fields_that_are_stored_without_names_keep_their_places(kind: type[Record]) -> None:
    """D-403."""
    assert kind.__struct_fields__ == STORED[kind]


def test_a_message_that_was_stored_before_a_field_was_added_is_read() -> None:
    """D-403."""
    message = attempt().message
    shorter = msgspec.msgpack.decode(codec.encode(message))[:-1]
    assert codec.decode_message(msgspec.msgpack.encode(shorter)) == message


def test_restored_messages_share_what_is_equal() -> None:
    """D-403."""
    world = simulations.World(answering=None)
    for label in ("a", "a", "b"):
        world.publish("https://a.example.com/", delay_ms=5, labels=(label,))
    stored = codec.encode(world.snapshot()[0])
    one, two, other = codec.decode_checkpoint(stored, codec.Shared()).messages
    assert one.message.policy is two.message.policy
    assert one.message.policy != other.message.policy
    assert one.message.source is other.message.source
    assert one.dispatch is other.dispatch


def test_no_two_threads_build_decoders_at_once() -> None:
    """D-552: a checkpoint's and a message's share record types."""
    building = most = 0

    def build(kind: Any) -> msgspec.msgpack.Decoder[Any]:
        nonlocal building, most
        building += 1
        most = max(most, building)
        # Another thread that builds one has time to begin.
        threading.Event().wait(0.02)
        building -= 1
        return msgspec.msgpack.Decoder(kind)

    decoders = codec.Decoders(build)
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(decoders.of, (Checkpoint, Message, Checkpoint, Message)))

    assert most == 1
    assert found[0] is found[2] is decoders.of(Checkpoint)
    assert found[1] is found[3] is not found[0]
