"""The message state table. No other module names a next phase.

| fact              | from                     | to        |
|-------------------|--------------------------|-----------|
| MessageHeld       | PENDING, HELD, RETRYING  | HELD      |
| DeliveryPostponed | PENDING, RETRYING        | unchanged |
| AttemptStarted    | PENDING, HELD, RETRYING  | ACTIVE    |
| ResponseDelayed   | ACTIVE                   | ACTIVE    |
| AttemptFinished   | ACTIVE                   | ACTIVE    |
| RetryScheduled    | ACTIVE                   | RETRYING  |
| MessageDelivered  | ACTIVE                   | DELIVERED |
| MessageFailed     | ACTIVE                   | FAILED    |
| MessageGivenUp    | ACTIVE                   | FAILED    |
| CancelRequested   | any live phase           | unchanged |
| MessageCanceled   | any live phase           | CANCELED  |

MessageCreated makes a message PENDING. DELIVERED, FAILED and CANCELED are final: the
message leaves the live state, and its history is what remains of it.
"""

from __future__ import annotations

from emulator.core import facts
from emulator.core.errors import WorldBroken
from emulator.core.model.messages import Phase

FINAL = frozenset((Phase.DELIVERED, Phase.FAILED, Phase.CANCELED))

_STARTABLE = (Phase.PENDING, Phase.HELD, Phase.RETRYING)
_LIVE = (*_STARTABLE, Phase.ACTIVE)

TRANSITIONS: dict[tuple[Phase, type[object]], Phase] = {
    **{(phase, facts.MessageHeld): Phase.HELD for phase in _STARTABLE},
    **{(phase, facts.DeliveryPostponed): phase for phase in (Phase.PENDING, Phase.RETRYING)},
    **{(phase, facts.AttemptStarted): Phase.ACTIVE for phase in _STARTABLE},
    (Phase.ACTIVE, facts.ResponseDelayed): Phase.ACTIVE,
    (Phase.ACTIVE, facts.AttemptFinished): Phase.ACTIVE,
    (Phase.ACTIVE, facts.RetryScheduled): Phase.RETRYING,
    (Phase.ACTIVE, facts.MessageDelivered): Phase.DELIVERED,
    (Phase.ACTIVE, facts.MessageFailed): Phase.FAILED,
    (Phase.ACTIVE, facts.MessageGivenUp): Phase.FAILED,
    **{(phase, facts.CancelRequested): phase for phase in _LIVE},
    **{(phase, facts.MessageCanceled): Phase.CANCELED for phase in _LIVE},
}


def next_phase(phase: Phase, fact: type[object]) -> Phase:
    """The phase a fact leads to. Raises WorldBroken for a step the table does not have."""
    try:
        return TRANSITIONS[phase, fact]
    except KeyError:
        raise WorldBroken(f"a message that is {phase} cannot take {fact.__name__}") from None
