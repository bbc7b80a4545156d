"""The queue account record as JSON."""

from __future__ import annotations

import pytest

from emulator.wire import dialect
from emulator.wire.accounts import account_view, read_account_changes
from tests.harness.simulations import make_account
from tests.wire.request_parts import refused


def test_the_empty_reserved_type_of_a_record_can_be_written_again() -> None:
    """The interface document lets the label be empty, and a record shows it so; found by fuzzing."""
    fixed = make_account(reserved_type="queue_fixed_1m")
    changed = read_account_changes({"reserved_type": ""}, fixed, dialect.SVC)
    assert account_view(changed, dialect.SVC)["reserved_type"] == ""


@pytest.mark.parametrize("value", [None, 0, " ", "enterprise:", "queue_fixed_2m"])
def test_no_other_text_is_a_reserved_type(value: str | int | None) -> None:
    with refused("reserved_type"):
        read_account_changes({"reserved_type": value}, make_account(), dialect.SVC)
