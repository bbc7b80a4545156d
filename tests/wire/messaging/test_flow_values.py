"""The limits a message brings for its flow control key (D-083)."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.core.errors import Malformed
from emulator.wire.messaging.flow_values import FlowControlValue, parse_flow_control_value


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("parallelism=5", FlowControlValue(parallelism=5, rate=None, period_s=1), id="parallelism"),
        pytest.param("rate=10", FlowControlValue(parallelism=None, rate=10, period_s=1), id="rate-per-second"),
        pytest.param(
            "rate=3, period=1d", FlowControlValue(parallelism=None, rate=3, period_s=86_400), id="rate-per-day"
        ),
        pytest.param(
            "parallelism=1, rate=2, period=60s", FlowControlValue(parallelism=1, rate=2, period_s=60), id="all-three"
        ),
        pytest.param(
            "period=1h30m3s,rate=2,parallelism=1",
            FlowControlValue(parallelism=1, rate=2, period_s=5_403),
            id="any-order-without-spaces",
        ),
        pytest.param("rate=2 ,  period=30", FlowControlValue(parallelism=None, rate=2, period_s=30), id="bare-period"),
        pytest.param(
            "parallelism=4,period=10s",
            FlowControlValue(parallelism=4, rate=None, period_s=10),
            id="period-without-rate",
        ),
        pytest.param("RATE=2, Period=1m", FlowControlValue(parallelism=None, rate=2, period_s=60), id="any-case"),
        pytest.param("  rate=2  ", FlowControlValue(parallelism=None, rate=2, period_s=1), id="blanks-around"),
        pytest.param(
            "rate=1000000000", FlowControlValue(parallelism=None, rate=1_000_000_000, period_s=1), id="largest"
        ),
        pytest.param("rate=7,period=7d", FlowControlValue(parallelism=None, rate=7, period_s=604_800), id="a-week"),
    ],
)
def test_value_names_its_limits(text: str, expected: FlowControlValue) -> None:
    assert parse_flow_control_value(text) == expected


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        pytest.param("", "expected parallelism=N", id="empty"),
        pytest.param("period=10s", "expected at least one of parallelism and rate", id="only-a-period"),
        pytest.param("rate", "got 'rate'", id="no-value"),
        pytest.param("rate=", "got 'rate='", id="empty-value"),
        pytest.param("=5", "got '=5'", id="no-name"),
        pytest.param("burst=5", "got 'burst=5'", id="unknown-name"),
        pytest.param("rate=5,", "got ''", id="trailing-comma"),
        pytest.param("rate=5,,period=1s", "got ''", id="empty-item"),
        pytest.param("rate=5 period=1s", "expected parallelism=N", id="blank-for-comma"),
        pytest.param("rate=5;period=1s", "expected rate from 1", id="semicolon-for-comma"),
        pytest.param("rate = 5", "expected parallelism=N", id="blanks-around-equals"),
        pytest.param("rate=5, rate=6", "expected rate only once", id="repeated"),
        pytest.param("rate=5, RATE=5", "expected rate only once", id="repeated-in-another-case"),
        pytest.param("rate=0", "expected rate from 1 to 1000000000, got '0'", id="zero"),
        pytest.param("parallelism=0", "expected parallelism from 1", id="zero-parallelism"),
        pytest.param("rate=-1", "expected rate from 1", id="negative"),
        pytest.param("rate=1.5", "expected rate from 1", id="decimal"),
        pytest.param("rate=٣", "expected rate from 1", id="digits-of-other-scripts"),
        pytest.param("rate=1000000001", "expected rate from 1", id="too-large"),
        pytest.param("rate=" + "9" * 5000, "expected rate from 1", id="5000-digits"),
        pytest.param("rate=5, period=0", "expected a period from 1 second to 1 week", id="no-period"),
        pytest.param("rate=5, period=8d", "expected a period from 1 second to 1 week", id="period-over-a-week"),
        pytest.param("rate=5, period=soon", "expected a duration", id="period-unreadable"),
    ],
)
def test_anything_else_is_malformed(text: str, reason: str) -> None:
    with pytest.raises(Malformed, match=reason):
        parse_flow_control_value(text)


_ITEMS = st.sampled_from(["rate=", "Parallelism=", "period=", "=", "0", "5", "99999", "8d", "1h", ",", ", ", " "])


@pytest.mark.slow
@given(text=st.text(max_size=20) | st.lists(_ITEMS, max_size=8).map("".join))
def test_any_text_is_a_value_or_malformed(text: str) -> None:
    with suppress(Malformed):
        value = parse_flow_control_value(text)
        assert value.parallelism is not None or value.rate is not None
        assert 1 <= (value.parallelism or 1) <= 10**9
        assert 1 <= (value.rate or 1) <= 10**9
        assert 1 <= value.period_s <= 604_800
