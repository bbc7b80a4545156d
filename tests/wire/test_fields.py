"""A malformed value is refused by the name of its field."""

from __future__ import annotations

import pytest

from emulator.core.errors import InvalidInput
from emulator.wire.durations import parse_period_s
from emulator.wire.fields import read_field


def test_a_value_is_parsed() -> None:
    assert read_field("period", "1m", parse_period_s) == 60


def test_the_refusal_names_the_field_and_keeps_the_reason() -> None:
    with pytest.raises(InvalidInput) as caught:
        read_field("period", "0s", parse_period_s)
    assert caught.value.field == "period"
    assert caught.value.reason == "expected a period from 1 second to 1 week, got '0s'"
