"""Facts, checkpoints and messages as bytes: MessagePack of the records, field by field."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, get_args

import msgspec
from msgspec.structs import force_setattr

from emulator.core.checkpoint import Checkpoint
from emulator.core.facts import Fact, MessageCreated
from emulator.core.model.answers import AttemptOutcome
from emulator.core.model.messages import Message
from emulator.core.workflows import Waiter, WorkflowRun
from emulator.queries.history import Dropped
from emulator.queries.message_log import AnsweringRule, RecordedAttempt

_MOST_SHARED = 10_000
_ENCODER: Final = msgspec.msgpack.Encoder()
_TYPES: Final[dict[str, type[Fact]]] = {kind.__name__: kind for kind in get_args(Fact)}
_GROUP: Final = msgspec.msgpack.Decoder(list[tuple[str, msgspec.Raw]])
_DECODERS: Final[dict[str, msgspec.msgpack.Decoder[Fact]]] = {}
_CHECKPOINT: Final[list[msgspec.msgpack.Decoder[Checkpoint]]] = []
_MESSAGE: Final = msgspec.msgpack.Decoder(Message)
_OUTCOME: Final = msgspec.msgpack.Decoder(AttemptOutcome)
_RUN: Final = msgspec.msgpack.Decoder(WorkflowRun)
_WAITER: Final = msgspec.msgpack.Decoder(Waiter)
_RULE: Final = msgspec.msgpack.Decoder(AnsweringRule)


def encode_facts(facts: Sequence[Fact]) -> bytes:
    """A group of facts, each under the name of its class."""
    return _ENCODER.encode([(type(fact).__name__, fact) for fact in facts])


class Shared:
    """Lets the messages of a state share what is equal in many of them: decoded, each has its own."""

    def __init__(self) -> None:
        self._known: dict[Any, Any] = {}

    def share(self, message: Message) -> None:
        """Give a message that was just decoded, and that nobody has yet, the equal parts of one before it."""
        known = self._known
        url, account_id, caller_ip, headers = message.url, message.account_id, message.caller_ip, message.headers
        if url in known:
            force_setattr(message, "url", known[url])
        else:
            if len(known) > _MOST_SHARED:
                known.clear()
            known[url] = url
        force_setattr(message, "account_id", known.setdefault(account_id, account_id))
        force_setattr(message, "caller_ip", known.setdefault(caller_ip, caller_ip))
        if headers:
            force_setattr(message, "headers", known.setdefault(headers, headers))


def decode_facts(payload: bytes, shared: Shared | None = None) -> Iterable[Fact]:
    for name, raw in _GROUP.decode(payload):
        decoder = _DECODERS.get(name)
        if decoder is None:
            decoder = _DECODERS[name] = msgspec.msgpack.Decoder(_TYPES[name])
        fact = decoder.decode(raw)
        if shared is not None and type(fact) is MessageCreated:
            shared.share(fact.message)
        yield fact


def encode_checkpoint(checkpoint: Checkpoint) -> bytes:
    return _ENCODER.encode(checkpoint)


def decode_checkpoint(payload: bytes, shared: Shared | None = None) -> Checkpoint:
    if not _CHECKPOINT:
        # Made at first use: a decoder for the whole state takes a while to build.
        _CHECKPOINT.append(msgspec.msgpack.Decoder(Checkpoint))
    checkpoint = _CHECKPOINT[0].decode(payload)
    if shared is not None:
        for progress in checkpoint.messages:
            shared.share(progress.message)
    return checkpoint


def encode_message(message: Message) -> bytes:
    return _ENCODER.encode(message)


def decode_message(payload: bytes) -> Message:
    return _MESSAGE.decode(payload)


def encode_outcome(outcome: AttemptOutcome) -> bytes:
    return _ENCODER.encode(outcome)


def encode_run(run: WorkflowRun) -> bytes:
    return _ENCODER.encode(run)


def decode_run(payload: bytes) -> WorkflowRun:
    return _RUN.decode(payload)


def encode_waiter(waiter: Waiter) -> bytes:
    return _ENCODER.encode(waiter)


def decode_waiter(payload: bytes) -> Waiter:
    return _WAITER.decode(payload)


def encode_row(row: Sequence[object]) -> bytes:
    """Any row of the database, in a form that tells any two apart."""
    return _ENCODER.encode(row)


def decode_outcome(payload: bytes) -> AttemptOutcome:
    return _OUTCOME.decode(payload)


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


def encode_rule(rule: AnsweringRule) -> bytes:
    return _ENCODER.encode(rule)


def decode_rule(payload: bytes) -> AnsweringRule:
    return _RULE.decode(payload)


# -- what must be whole for a world to start --------------------------------------------------


def encode_dropped(dropped: Dropped) -> bytes:
    return b"%d %d" % (dropped.seq, dropped.at_ms)


def decode_dropped(value: bytes | None) -> Dropped:
    """Nothing was dropped where nothing is recorded. Raises ValueError."""
    if value is None:
        return Dropped()
    seq, at_ms = value.split()
    return Dropped(seq=int(seq), at_ms=int(at_ms))


def whole_meta(rows: Iterable[Sequence[Any]]) -> dict[str, bytes]:
    """What a database says of itself. Raises ValueError for an entry that is not what was written."""
    meta = {}
    for name, value, is_whole in rows:
        if is_whole != 1:
            raise ValueError(f"the entry {name!r} of the table meta is not what was written")
        meta[name] = value
    return meta


def whole_checkpoint(rows: Iterable[Sequence[Any]]) -> tuple[int, bytes]:
    """How far a checkpoint covers the facts, and the checkpoint. Raises ValueError for none, or a damaged one."""
    for covers, encoded, is_whole in rows:
        if is_whole == 1:
            return covers, encoded
    raise ValueError("the state of the world is missing, or not what was written")


def whole_counts(rows: Iterable[Sequence[Any]]) -> list[list[Any]]:
    """Rows of counts, to go on with. Raises ValueError for one that is not what was written."""
    counts = []
    for *row, _, is_whole in rows:
        if is_whole != 1:
            raise ValueError(f"what passed through the account {row[0]} is not what was written")
        counts.append(row)
    return counts
