"""Facts, checkpoints and messages as bytes: MessagePack of the records, field by field."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any, Final, TypeVar

import msgspec
from msgspec.structs import force_setattr

from emulator.core import message_facts, resource_facts, run_facts
from emulator.core.checkpoint import Checkpoint
from emulator.core.message_facts import MessageCreated
from emulator.core.model.messages import AttemptOutcome, Message
from emulator.core.model.workflows import Waiter, WorkflowRun
from emulator.core.state import Fact
from emulator.journal import schema
from emulator.queries.history import AnsweringRule, Dropped, RecordedAttempt

T = TypeVar("T")

_MOST_SHARED = 10_000
# A record as bytes.
encode: Final = msgspec.msgpack.Encoder().encode
# Every fact, by the name of its class, under which it is stored.
FACTS: Final[dict[str, type[Fact]]] = {
    name: kind
    for subject in (message_facts, resource_facts, run_facts)
    for name, kind in vars(subject).items()
    if isinstance(kind, type) and issubclass(kind, Fact) and kind is not Fact and "apply" in vars(kind)
}
_GROUP: Final = msgspec.msgpack.Decoder(list[tuple[str, msgspec.Raw]])
decode_message: Final = msgspec.msgpack.Decoder(Message).decode
decode_run: Final = msgspec.msgpack.Decoder(WorkflowRun).decode
decode_waiter: Final = msgspec.msgpack.Decoder(Waiter).decode
# A few rules answer thousands of attempts.
decode_rule: Final = lru_cache(maxsize=256)(msgspec.msgpack.Decoder(AnsweringRule).decode)
_decode_outcome: Final = msgspec.msgpack.Decoder(AttemptOutcome).decode
# Attempts of one moment that a rule answered have equal outcomes: a month of them is read with a tenth of the work.
_SMALL_OUTCOME = 1_024
_decode_small_outcome: Final = lru_cache(maxsize=256)(_decode_outcome)


class Inconsistent(ValueError):
    """What a database holds does not fit together; the text says what."""


class Decoders:
    """Decoders of record types, each built at first use: that of the whole state takes a while.

    The library keeps what it knows of a record type at the type while the first decoder is built. Another thread that
    builds one meanwhile gets half of that, and ends the process; snapshots are read in threads (D-552).
    """

    def __init__(self, build: Callable[[Any], msgspec.msgpack.Decoder[Any]] = msgspec.msgpack.Decoder) -> None:
        self._build = build
        self._built: dict[type, msgspec.msgpack.Decoder[Any]] = {}
        self._lock = threading.Lock()

    def of(self, kind: type[T]) -> msgspec.msgpack.Decoder[T]:
        decoder = self._built.get(kind)
        if decoder is None:
            with self._lock:
                decoder = self._built.get(kind) or self._build(kind)
                self._built[kind] = decoder
        return decoder


_DECODERS: Final = Decoders()


def encode_facts(facts: Sequence[Fact]) -> bytes:
    """A group of facts, each under the name of its class."""
    return encode([(type(fact).__name__, fact) for fact in facts])


class Shared:
    """Lets the messages of a state share what is equal in many of them: decoded, each has its own."""

    def __init__(self) -> None:
        self._known: dict[Any, Any] = {}

    def share(self, message: Message) -> None:
        """Give a message that was just decoded, and is not in use yet, the equal parts of one before it."""
        known = self._known
        if len(known) > _MOST_SHARED:
            known.clear()
        for name in ("url", "account_id", "headers", "policy"):
            value = getattr(message, name)
            force_setattr(message, name, known.setdefault(value, value))
        source = message.source
        if source.source_message_id is None and source.from_dead_letter is None:
            force_setattr(message, "source", known.setdefault(source, source))


def decode_facts(payload: bytes, shared: Shared | None = None) -> Iterable[Fact]:
    for name, raw in _GROUP.decode(payload):
        fact = _DECODERS.of(FACTS[name]).decode(raw)
        if shared is not None and type(fact) is MessageCreated:
            shared.share(fact.message)
        yield fact


def decode_checkpoint(payload: bytes, shared: Shared | None = None) -> Checkpoint:
    checkpoint = _DECODERS.of(Checkpoint).decode(payload)
    if shared is not None:
        for progress in checkpoint.messages:
            shared.share(progress.message)
    return checkpoint


def decode_outcome(payload: bytes) -> AttemptOutcome:
    return _decode_small_outcome(payload) if len(payload) <= _SMALL_OUTCOME else _decode_outcome(payload)


def decode_attempt(
    number: int, started_ms: int, finished_ms: int, outcome: bytes, answered_by: bytes | None
) -> RecordedAttempt:
    """An attempt from the columns of its row."""
    return RecordedAttempt(
        at_ms=finished_ms,
        started_ms=started_ms,
        number=number,
        outcome=decode_outcome(outcome),
        answered_by=None if answered_by is None else decode_rule(answered_by),
    )


# -- what must be whole for a world to start --------------------------------------------------


def decode_dropped(value: bytes) -> Dropped:
    """Raises ValueError."""
    seq, at_ms = value.split()
    return Dropped(seq=int(seq), at_ms=int(at_ms))


def check_meta(name: str, value: bytes) -> None:
    """Raises ValueError or MsgspecError for an entry of `meta` that readers of history could not read."""
    match name:
        case schema.BASE_CHECKPOINT:
            decode_checkpoint(value)
        case schema.DROPPED:
            decode_dropped(value)
        case schema.PROJECTED | schema.HISTORY_SEQ | schema.DELIVERIES_CLEARED | schema.SET_BACK_TO:
            int(value)
        case schema.GENERATION:
            value.decode("ascii")


def checkpoint_of(rows: Iterable[Sequence[Any]]) -> tuple[int, bytes]:
    """How far a checkpoint covers the facts, and the checkpoint. Raises ValueError if there is none."""
    for covers, encoded in rows:
        return covers, encoded
    raise Inconsistent("the state of the world is missing")
