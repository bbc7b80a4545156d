"""Chaos: the destination rules that one number stands for."""

from __future__ import annotations

from emulator.core.model.answers import DestinationRule, Fault, ScriptedResponse
from emulator.core.model.names import RuleId
from emulator.core.record import Record

# The longest latency that is added, virtual time.
_LATEST_MS = 5_000


class Chaos(Record):
    """How much goes wrong in a world: `level` from 0 to 1, and the attempts that are spared (`3.1`)."""

    level: float = 0.0
    spared: tuple[str, ...] = ()


def rules_of(chaos: Chaos) -> tuple[DestinationRule, ...]:
    """The rules for all destinations that a level of chaos stands for, none for 0 (D-423).

    Each attempt fails with about the chance of the level: half of these are answered 503, the others
    are refused or time out. With the level's chance each, an attempt leaves behind others of
    its instant, its answer takes up to five seconds, and a delivery is made twice.
    """
    if not chaos.level:
        return ()
    level = chaos.level
    return (
        _rule(chaos, level, duplicate_ms=0),
        _rule(chaos, level, reorder_ms=0),
        _rule(chaos, level, latest_ms=_LATEST_MS),
        _rule(chaos, level / 2, responses=(ScriptedResponse(status=503),)),
        _rule(chaos, level / 4, fault=Fault.REFUSED),
        _rule(chaos, level / 4, fault=Fault.TIMEOUT),
    )


def _rule(
    chaos: Chaos,
    chance: float,
    *,
    duplicate_ms: int | None = None,
    reorder_ms: int | None = None,
    latest_ms: int | None = None,
    responses: tuple[ScriptedResponse, ...] = (),
    fault: Fault | None = None,
) -> DestinationRule:
    return DestinationRule(
        rule_id=RuleId(""),
        url="*",
        method=None,
        chance=chance,
        spared=chaos.spared,
        duplicate_ms=duplicate_ms,
        reorder_ms=reorder_ms,
        latest_ms=latest_ms,
        responses=responses,
        fault=fault,
    )
