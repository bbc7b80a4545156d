"""Flow control: its values and its requests."""

from __future__ import annotations

import pytest

from emulator.core.commands import PinFlow, UnpinFlow
from emulator.core.errors import InvalidInput, Malformed
from emulator.core.model.options import FlowControl
from emulator.core.record import AccountId, FlowKey
from emulator.wire import dialect
from emulator.wire.messaging import flow_control
from emulator.wire.messaging.flow_control import parse_flow_control_value
from tests.wire.request_parts import refused, request

# -- the limits a message sets for its flow control key (D-083) ------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("parallelism=5", (5, None, 1), id="parallelism"),
        pytest.param("rate=10", (None, 10, 1), id="rate-per-second"),
        pytest.param("period=1h30m3s,rate=2,parallelism=1", (1, 2, 5_403), id="any-order-without-spaces"),
        pytest.param("rate=2 ,  period=30", (None, 2, 30), id="bare-period"),
        pytest.param("parallelism=4,period=10s", (4, None, 10), id="period-without-rate"),
        pytest.param("RATE=2, Period=1m", (None, 2, 60), id="any-case"),
        pytest.param("rate=1000000000", (None, 1_000_000_000, 1), id="largest"),
    ],
)
def test_value_names_its_limits(text: str, expected: tuple[int | None, int | None, int]) -> None:
    parallelism, rate, period_s = expected
    expected_value = FlowControl(key=FlowKey(""), parallelism=parallelism, rate=rate, period_ms=period_s * 1000)
    assert parse_flow_control_value(text) == expected_value


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        pytest.param("", "expected parallelism=N", id="empty"),
        pytest.param("period=10s", "expected at least one of parallelism and rate", id="only-a-period"),
        pytest.param("rate=", "got 'rate='", id="empty-value"),
        pytest.param("=5", "got '=5'", id="no-name"),
        pytest.param("burst=5", "got 'burst=5'", id="unknown-name"),
        pytest.param("rate=5,", "got ''", id="trailing-comma"),
        pytest.param("rate=5;period=1s", "expected rate from 1", id="semicolon-for-comma"),
        pytest.param("rate=5, RATE=5", "expected rate only once", id="repeated-in-another-case"),
        pytest.param("rate=0", "expected rate from 1 to 1000000000, got '0'", id="zero"),
        pytest.param("rate=٣", "expected rate from 1", id="digits-of-other-scripts"),
        pytest.param("rate=1000000001", "expected rate from 1", id="too-large"),
        pytest.param("rate=5, period=0", "expected a period from 1 second to 1 week", id="no-period"),
        pytest.param("rate=5, period=8d", "expected a period from 1 second to 1 week", id="period-over-a-week"),
        pytest.param("rate=5, period=soon", "expected a duration", id="period-unreadable"),
    ],
)
def test_anything_else_is_malformed(text: str, reason: str) -> None:
    with pytest.raises(Malformed, match=reason):
        parse_flow_control_value(text)


# -- parameters of the flow control endpoints (D-084) ----------------------------------------------


SVC = dialect.load("svc")
ACCOUNT = AccountId("a")
KEY = FlowKey("k")


def _pin(*, parallelism: int | None, rate: int | None, period_ms: int | None) -> PinFlow:
    return PinFlow(account_id=ACCOUNT, key=KEY, parallelism=parallelism, rate=rate, period_ms=period_ms)


def test_search() -> None:
    assert flow_control.read_search(request(query="search=Us%20er")) == "Us er"
    assert flow_control.read_search(request(query="search=")) == ""
    assert flow_control.read_search(request()) == ""
    with refused("search"):
        flow_control.read_search(request(query="search=a&search=b"))


@pytest.mark.parametrize(
    ("query", "pin"),
    [
        ("parallelism=3", _pin(parallelism=3, rate=None, period_ms=None)),
        ("rate=5&period=60", _pin(parallelism=None, rate=5, period_ms=60_000)),
        ("parallelism=3&rate=&queue_token=t&svc-telemetry-sdk=x", _pin(parallelism=3, rate=None, period_ms=None)),
        ("parallelism=1&rate=2&period=1d", _pin(parallelism=1, rate=2, period_ms=86_400_000)),
    ],
)
def test_pin(query: str, pin: PinFlow) -> None:
    assert flow_control.read_pin(request(query=query), SVC, ACCOUNT, KEY) == pin


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("", "parallelism"),
        ("parallelism=0", "parallelism"),
        ("parallelism=-1", "parallelism"),
        ("rate=x", "rate"),
        ("rate=99999999999", "rate"),
        ("rate=1&period=0", "period"),
        ("rate=1&period=604801", "period"),
        ("rate=1&rate=2", "rate"),
        ("parallelism=1&rat=2", "rat"),
        ("parallelism=1&RATE=2", "RATE"),
    ],
)
def test_pin_with_bad_numbers_names_the_parameter(query: str, field: str) -> None:
    with refused(field):
        flow_control.read_pin(request(query=query), SVC, ACCOUNT, KEY)


def test_pin_with_bad_numbers_says_what_is_expected() -> None:
    with pytest.raises(InvalidInput) as refusal:
        flow_control.read_pin(request(query="rate=0"), SVC, ACCOUNT, KEY)
    assert refusal.value.reason == "expected a number from 1 to 1000000000, got '0'"


def test_unpin() -> None:
    assert flow_control.read_unpin(request(), SVC, ACCOUNT, KEY) == UnpinFlow(
        account_id=ACCOUNT, key=KEY, parallelism=False, rate=False
    )
    assert flow_control.read_unpin(request(query="rate=True"), SVC, ACCOUNT, KEY) == UnpinFlow(
        account_id=ACCOUNT, key=KEY, parallelism=False, rate=True
    )
    with refused("parallelism"):
        flow_control.read_unpin(request(query="parallelism=yes"), SVC, ACCOUNT, KEY)
    with refused("rat"):
        flow_control.read_unpin(request(query="rat=true"), SVC, ACCOUNT, KEY)
