"""Which instants a virtual clock can show."""

from __future__ import annotations

import pytest

from emulator.core.errors import Malformed
from emulator.core.instants import check_virtual


@pytest.mark.parametrize("instant_ms", [1, 1_767_225_600_000, 253_402_300_799_999])
def test_instants_after_the_unix_epoch_and_before_the_year_10000_are_shown(instant_ms: int) -> None:
    assert check_virtual(instant_ms) == instant_ms


@pytest.mark.parametrize("instant_ms", [-62_135_596_800_000, -1, 0, 253_402_300_800_000])
def test_instants_outside_are_malformed(instant_ms: int) -> None:
    with pytest.raises(Malformed, match="expected"):
        check_virtual(instant_ms)
