"""What a world is made from."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from msgspec.structs import replace

from emulator.core.errors import Malformed
from emulator.core.model.resources import Plan
from emulator.core.record import Record, event_key, token_key, world_key
from emulator.core.rules.destination_rules import Chaos

# The world that a server always has.
DEFAULT: Final = "default"

# Windows takes a file of these names for a device, whatever its suffix, and drops a dot at the end of a folder's.
_DEVICES = frozenset(
    ("con", "prn", "aux", "nul", *(f"{port}{number}" for port in ("com", "lpt") for number in "123456789"))
)
_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]{8,256}={0,2}")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


class Keep(Record):
    """How much of history is kept: so many of its newest entries, and what is not older than so long.

    Entries are events and attempts, about four a delivery; a group more of them may be there. None is
    without a limit. The age is counted in virtual time, from the newest entry.
    """

    entries: int | None = None
    age_ms: int | None = None


KEEP_ALL: Final = Keep()


class WorldSetup(Record):
    """Everything that distinguishes one new world from another; a reset makes the same world again.

    `fixtures` is a fixtures document that has not been read yet; None stands for those of the
    server. It is not kept with the world: the base checkpoint holds what was made of it. An epoch that
    was not given was the wall clock when the world was made, and will be so again at a reset (D-261).
    """

    id: str
    seed: int
    epoch_ms: int
    rate: float
    plan: Plan
    fixtures: Mapping[str, object] | None = None
    # Databases of before this field keep the epoch they have.
    epoch_is_given: bool = True
    # The first account's, if it was chosen when the world was made; empty otherwise (D-432).
    token: str = ""
    chaos: Chaos = Chaos()
    # The first account's; empty is that of its plan.
    region: str = ""
    # None is what the server's settings say (D-480).
    keep_history: Keep | None = None

    def beginning(self, now_ms: int) -> WorldSetup:
        """The setup of the world if it begins now; `now_ms` is the wall clock, and is another epoch than before."""
        if self.epoch_is_given:
            return self
        return replace(self, epoch_ms=now_ms + 1 if now_ms == self.epoch_ms else now_ms)

    @property
    def event_key(self) -> bytes:
        """The key of identifiers of what happens (D-260)."""
        return event_key(self.seed, self.epoch_ms)

    @property
    def secret_key(self) -> bytes:
        """The key of tokens and account ids. They differ from world to world, so that a call finds its world."""
        return world_key(self.seed, self.id)

    @property
    def account_key(self) -> bytes:
        """The key of the first account: of the token that was chosen, or else the secret key."""
        return token_key(self.token) if self.token else self.secret_key

    @property
    def owner(self) -> str:
        """Whose resources these are: the user name of the management API."""
        return f"{self.id}@emulator.example"


def parse_name_in_files(text: str) -> str:
    """A world's or snapshot's name that files can have on every system (D-305). Raises: Malformed."""
    if text.partition(".")[0].lower() in _DEVICES or text.endswith("."):
        raise Malformed(f"expected a name that a file can have on every system, and Windows reserves {text!r}")
    return text


def parse_token(text: str) -> str:
    """A token that a caller chooses for a world: what HTTP calls a bearer token (D-432). Raises: Malformed."""
    if not _TOKEN.fullmatch(text):
        raise Malformed("expected 8 to 256 letters, digits and -._~+/ with nothing but = at the end")
    return text


def parse_world_name(text: str) -> str:
    """The name of a world or a snapshot: it can stand in a URL path and name a file (D-128). Raises: Malformed."""
    if not _NAME.fullmatch(text):
        raise Malformed("expected at most 64 letters, digits, dots, hyphens and underscores, a letter or digit first")
    return text
