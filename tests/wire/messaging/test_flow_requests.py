"""Parameters of the flow control endpoints (D-084)."""

from __future__ import annotations

import pytest

from emulator.core.commands import PinFlow, UnpinFlow
from emulator.core.errors import InvalidInput
from emulator.core.model.names import AccountId, FlowKey
from emulator.wire import dialect
from emulator.wire.messaging import flow_requests
from tests.wire.request_parts import request

SVC = dialect.load("svc")
ACCOUNT = AccountId("a")
KEY = FlowKey("k")


def _pin(*, parallelism: int | None, rate: int | None, period_ms: int | None) -> PinFlow:
    return PinFlow(account_id=ACCOUNT, key=KEY, parallelism=parallelism, rate=rate, period_ms=period_ms)


def test_search() -> None:
    assert flow_requests.read_search(request(query="search=Us%20er")) == "Us er"
    assert flow_requests.read_search(request(query="search=")) == ""
    assert flow_requests.read_search(request()) == ""
    with pytest.raises(InvalidInput) as caught:
        flow_requests.read_search(request(query="search=a&search=b"))
    assert caught.value.field == "search"


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
    assert flow_requests.read_pin(request(query=query), SVC, ACCOUNT, KEY) == pin


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
    with pytest.raises(InvalidInput) as caught:
        flow_requests.read_pin(request(query=query), SVC, ACCOUNT, KEY)
    assert caught.value.field == field


def test_unpin() -> None:
    assert flow_requests.read_unpin(request(), SVC, ACCOUNT, KEY) == UnpinFlow(
        account_id=ACCOUNT, key=KEY, parallelism=False, rate=False
    )
    assert flow_requests.read_unpin(request(query="rate=True"), SVC, ACCOUNT, KEY) == UnpinFlow(
        account_id=ACCOUNT, key=KEY, parallelism=False, rate=True
    )
    with pytest.raises(InvalidInput) as caught:
        flow_requests.read_unpin(request(query="parallelism=yes"), SVC, ACCOUNT, KEY)
    assert caught.value.field == "parallelism"
    with pytest.raises(InvalidInput) as caught:
        flow_requests.read_unpin(request(query="rat=true"), SVC, ACCOUNT, KEY)
    assert caught.value.field == "rat"
