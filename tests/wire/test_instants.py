"""Instants as text: what a virtual clock can be set to."""

from __future__ import annotations

import pytest

from emulator.core.errors import Malformed
from emulator.wire.instants import read_clock_instant_ms


def test_a_clock_instant_is_read_as_text_and_as_a_number() -> None:
    assert read_clock_instant_ms("1970-01-01T00:00:00.001Z") == 1
    assert read_clock_instant_ms(253_402_300_799_999) == 253_402_300_799_999


@pytest.mark.parametrize("value", ["1970-01-01T00:00:00Z", "1969-12-31", 0, 253_402_300_800_000])
def test_an_instant_that_no_clock_shows_is_refused(value: str | int) -> None:
    with pytest.raises(Malformed):
        read_clock_instant_ms(value)
