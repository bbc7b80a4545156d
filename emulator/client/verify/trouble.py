"""What clients of a world asked for in vain: refused calls, publishes that made no message, mismatches."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from emulator.client.session import Session
from emulator.client.verify.expectations import counted
from emulator.wire.control.refused_calls import DeduplicatedPublish, RefusedCall

_PUBLISHES = ("/v2/publish", "/v2/enqueue", "/v2/batch")


async def mismatches_of(session: Session, *, forget: bool = False) -> str | None:
    """What strict mode found in the calls of a world, as the text of a failure; None for nothing.

    With `forget` it is not found again.
    """
    found: list[Mapping[str, Any]] = (await session.control("GET", "mismatches"))["mismatches"]
    if forget and found:
        await session.control("DELETE", "mismatches")
    if not found:
        return None
    lines = [f"  {each['operation']}: {each['mismatch']}{_times(each['count'])}" for each in found]
    return "\n".join([f"The contract does not know what was sent ({counted(len(found), 'mismatch')}):", *lines])


def _times(count: int) -> str:
    return "" if count == 1 else f" ({count} times)"


def read_refused(answer: Mapping[str, Any]) -> list[RefusedCall]:
    """The refused calls of the control API's JSON."""
    return [msgspec.convert(entry, RefusedCall) for entry in answer["refused"]]


def read_deduplicated(answer: Mapping[str, Any]) -> list[DeduplicatedPublish]:
    """The deduplicated publishes of the control API's JSON."""
    return [msgspec.convert(entry, DeduplicatedPublish) for entry in answer["deduplicated"]]


def refused_line(call: RefusedCall) -> str:
    """Why a call was refused, and what was probably meant."""
    return f"{call.error}{'' if call.hint is None else f' ({call.hint})'}"


def told(refused: Sequence[RefusedCall], cancelled: int, deduplicated: int) -> Iterable[str]:
    """Sentences about what made no delivery, of which the first tells of the last refused publish."""
    publishes = [call for call in refused if call.method == "POST" and call.path.lower().startswith(_PUBLISHES)]
    others = len(refused) - len(publishes)
    if publishes:
        text = f"{_counted_were(len(publishes), 'publish')} refused"
        yield f"{text}{', the last one' if len(publishes) > 1 else ''}: {refused_line(publishes[-1])}"
    if others:
        last = next(call for call in reversed(refused) if call not in publishes)
        text = f"{_counted_were(others, 'other call' if publishes else 'call')} refused"
        yield f"{text}{', the last one' if others > 1 else ''}: {last.method} {last.path}: {refused_line(last)}"
    if cancelled:
        yield f"{_counted_were(cancelled, 'message')} cancelled."
    if deduplicated:
        yield f"{_counted_were(deduplicated, 'publish')} deduplicated, and made no message."


def _counted_were(count: int, noun: str) -> str:
    return f"{counted(count, noun)} {'was' if count == 1 else 'were'}"
