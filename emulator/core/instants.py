"""Which instants the calendar and a virtual clock can show, in milliseconds since the Unix epoch."""

from __future__ import annotations

from typing import Final

from emulator.core.errors import Malformed

# The years 1 to 9999.
MIN_INSTANT_MS: Final = -62_135_596_800_000
MAX_INSTANT_MS: Final = 253_402_300_799_999
# A virtual clock stands after the Unix epoch: cursors and periods count from there.
EARLIEST_VIRTUAL_MS: Final = 1


def check_virtual(instant_ms: int) -> int:
    """The instant, which a virtual clock can show. Raises: Malformed for any other."""
    if instant_ms < EARLIEST_VIRTUAL_MS:
        raise Malformed("expected an instant after 1970-01-01T00:00:00Z")
    if instant_ms > MAX_INSTANT_MS:
        raise Malformed("expected a time in the years 1 to 9999")
    return instant_ms
