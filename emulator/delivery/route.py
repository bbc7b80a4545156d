"""Where an attempt goes: it is answered inside, or it leaves."""

from __future__ import annotations

from typing import TypeAlias

from emulator.core.model.answers import AttemptOutcome
from emulator.core.record import Record
from emulator.delivery.mounts import Mount


class Inside(Record):
    """The attempt needs no network (a rule, capture, a refusal): this is its outcome."""

    outcome: AttemptOutcome


class Leaves(Record):
    """The attempt is sent to `url`: to the application mounted at its origin, or over the network."""

    url: str
    origin: str
    mount: Mount | None = None


Route: TypeAlias = Inside | Leaves
