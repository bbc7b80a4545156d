"""How long ended messages and events are shown."""

from __future__ import annotations

import pytest

from emulator.core.rules.retention import events_since_ms, is_readable, readable_until_ms
from tests.harness.simulations import DAY, EPOCH_MS, make_account


def test_an_ended_message_is_found_for_a_minute() -> None:
    """D-009."""
    assert readable_until_ms(EPOCH_MS) == EPOCH_MS + 60_000
    assert is_readable(EPOCH_MS, EPOCH_MS)
    assert is_readable(EPOCH_MS, EPOCH_MS + 59_999)
    assert not is_readable(EPOCH_MS, EPOCH_MS + 60_000)


@pytest.mark.parametrize(("retention", "shown_days"), [(1, 1), (14, 14), (30, 14)])
def test_events_are_shown_for_the_days_of_the_account_and_at_most_fourteen(retention: int, shown_days: int) -> None:
    """D-002."""
    assert events_since_ms(make_account(retention=retention), EPOCH_MS) == EPOCH_MS - shown_days * DAY
