"""The twelve tools, in the order in which a client lists them."""

from __future__ import annotations

from emulator.agents.checking import Act, CheckReceiver, Rule, Verify
from emulator.agents.moving import Advance, ManageWorld, Publish, Status, Undo
from emulator.agents.reading import Docs, Find, Why
from emulator.agents.tool import Tool

TOOLS: tuple[type[Tool], ...] = (
    Status,
    ManageWorld,
    Publish,
    Advance,
    Undo,
    Find,
    Why,
    Verify,
    Rule,
    Act,
    CheckReceiver,
    Docs,
)
