"""What `serve` prints when it is ready."""

from __future__ import annotations

from emulator.cli.clock import status_text
from emulator.cli.variables import Format, variables_of, written
from emulator.journal.store import MEMORY
from emulator.server.bootstrap import Emulation
from emulator.version import VERSION
from emulator.wire.control.clock import clock_view
from emulator.worlds.setup import DEFAULT


async def banner(emulation: Emulation, url: str) -> str:
    """Where the server is, the variables to copy, and where the clock stands."""
    world = emulation.worlds.get(DEFAULT)
    username, password = world.login
    clock = clock_view(await world.clock.status())
    db = emulation.settings.db
    state = "in memory, gone at the end (keep it with --db FILE)" if db == MEMORY else db
    return "\n".join(
        (
            f"svc-emulator {VERSION} listens on {url}",
            "",
            written(variables_of(emulation, url), Format.DOTENV),
            "",
            f"management login: {username} {password}",
            f"control API: {url}/_emulator",
            f"clock: {status_text(clock)}",
            f"state: {state}",
            "",
        )
    )
