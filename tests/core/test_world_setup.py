"""What a world is made from, and what it may be called."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from emulator.core.errors import Malformed
from emulator.core.model.accounts import Plan
from emulator.core.world_setup import WorldSetup, parse_world_name

SETUP = WorldSetup(id="w", seed=7, epoch_ms=1, rate=0.0, plan=Plan.PAID)


@pytest.mark.parametrize("name", ["a", "A-1_b.c", "0", "a" * 64])
def test_names_of_worlds_and_snapshots(name: str) -> None:
    """D-128."""
    assert parse_world_name(name) == name


@pytest.mark.parametrize("name", ["", ".", "..", "../a", "a/b", ".hidden", "-a", "a" * 65, "ä", "a b", "a\n"])
def test_names_that_could_not_stand_in_a_path_or_name_a_file_are_malformed(name: str) -> None:
    """D-128."""
    with pytest.raises(Malformed, match="expected at most 64"):
        parse_world_name(name)


def test_the_secret_key_differs_by_seed_and_by_id() -> None:
    keys = {each.secret_key for each in (SETUP, replace(SETUP, id="x"), replace(SETUP, seed=8))}
    assert len(keys) == 3
    assert SETUP.secret_key == replace(SETUP, epoch_ms=2, rate=1.0, plan=Plan.FREE).secret_key


def test_the_event_key_differs_by_seed_and_by_epoch_and_not_by_id() -> None:
    """D-060."""
    keys = {each.event_key for each in (SETUP, replace(SETUP, epoch_ms=2), replace(SETUP, seed=8))}
    assert len(keys) == 3
    assert SETUP.event_key == replace(SETUP, id="x", rate=1.0, plan=Plan.FREE).event_key


def test_a_world_without_a_given_epoch_begins_at_the_wall_clock_and_never_twice_at_one_instant() -> None:
    """D-261."""
    assert SETUP.beginning(5) is SETUP
    open_setup = replace(SETUP, epoch_is_given=False)
    assert [open_setup.beginning(now_ms).epoch_ms for now_ms in (5, 1, 0)] == [5, 2, 0]
