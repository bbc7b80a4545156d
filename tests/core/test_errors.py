"""What errors carry besides their text."""

from __future__ import annotations

from emulator.core.errors import Damaged, Forbidden, WorldBroken


def test_damage_names_the_file_and_the_command_that_says_more() -> None:
    error = Damaged("a.db", "a row is gone")
    assert str(error) == "a.db is damaged: a row is gone; `svc-emulator db check a.db` tells all that is"
    assert error.what == "a row is gone"


def test_a_remedy_and_a_full_disk_are_named_where_there_is_one() -> None:
    assert (Forbidden("no").remedy, Forbidden("no", "ask").remedy) == ("", "ask")
    assert (WorldBroken("x").is_disk_full, WorldBroken("x", is_disk_full=True).is_disk_full) == (False, True)
