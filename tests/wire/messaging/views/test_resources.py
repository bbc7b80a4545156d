"""URL groups, queues, flow control keys and signing keys in the JSON of the messaging API."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from qstash import flow_control_api, queue, signing_key, url_group

from emulator.core.model.accounts import SigningKeys
from emulator.core.model.names import FlowKey, GroupName, QueueName
from emulator.core.model.options import MessageOptions
from emulator.core.model.resources import Endpoint, FlowState, Queue, UrlGroup
from emulator.wire.json_fields import Json
from emulator.wire.messaging import views
from tests.wire.messaging.views.records import ACCOUNT, MARKED_SECRET, as_read, redacting

GROUP = UrlGroup(
    name=GroupName("receivers"),
    account_id=ACCOUNT,
    endpoints=(
        Endpoint(url="https://a.example.com", name="first one"),
        Endpoint(url="https://b.example.com", name=None),
    ),
    headers=(),
    defaults=MessageOptions(),
    created_ms=1,
    updated_ms=2,
)
GROUP_RECORD = {
    "name": "receivers",
    "createdAt": 1,
    "updatedAt": 2,
    "endpoints": [{"name": "first one", "url": "https://a.example.com"}, {"url": "https://b.example.com"}],
}


def test_url_group_shows_default_headers_only_if_it_has_some() -> None:
    """D-124."""
    assert views.url_group(GROUP) == GROUP_RECORD
    with_headers = replace(GROUP, headers=(("Svc-Retries", ("2",)), ("Svc-Forward-X-Key", ("s3cret", "s3cret"))))
    assert views.url_group(with_headers) == {
        **GROUP_RECORD,
        "headers": {"Svc-Retries": ["2"], "Svc-Forward-X-Key": ["s3cret", "s3cret"]},
    }
    hiding = replace(with_headers, defaults=MessageOptions(redaction=redacting(names=("x-key",))))
    assert views.url_group(hiding) == {
        **GROUP_RECORD,
        "headers": {"Svc-Retries": ["2"], "Svc-Forward-X-Key": [MARKED_SECRET, MARKED_SECRET]},
    }


def test_client_reads_url_groups_and_queues() -> None:
    """D-133."""
    read = url_group.parse_url_group_response(as_read(views.url_group(GROUP)))
    assert [(endpoint.name, endpoint.url) for endpoint in read.endpoints] == [
        ("first one", "https://a.example.com"),
        (None, "https://b.example.com"),
    ]
    record = Queue(
        name=QueueName("orders"), account_id=ACCOUNT, parallelism=1, paused=False, created_ms=1, updated_ms=2
    )
    view = views.queue(record, 0)
    assert view == {"name": "orders", "parallelism": 1, "createdAt": 1, "updatedAt": 2, "lag": 0, "paused": False}
    assert queue.parse_queue_response(as_read(view)) == queue.Queue(
        name="orders", parallelism=1, created_at=1, updated_at=2, lag=0, paused=False
    )


UNSET_FLOW = FlowState(
    key=FlowKey("k"),
    account_id=ACCOUNT,
    parallelism=None,
    rate=None,
    period_ms=1000,
    active=0,
    rate_count=0,
    window_start_ms=0,
    paused=False,
    pinned_parallelism=False,
    pinned_rate=False,
)
LIMITED_FLOW = replace(
    UNSET_FLOW,
    parallelism=10,
    rate=100,
    period_ms=60_000,
    active=3,
    rate_count=42,
    window_start_ms=1_708_000_000_000,
    paused=True,
    pinned_parallelism=True,
    pinned_rate=True,
)


def flow_view(*numbers: int, yes: bool) -> dict[str, Json]:
    names = ("waitListSize", "parallelismMax", "parallelismCount", "rateMax", "rateCount", "ratePeriod")
    view: dict[str, Json] = {"flowControlKey": "k"}
    view |= dict(zip((*names, "ratePeriodStart"), numbers, strict=True))
    return {**view, "isPaused": yes, "isPinnedParallelism": yes, "isPinnedRate": yes}


@pytest.mark.parametrize(
    ("flow", "now_ms", "expected"),
    [
        pytest.param(UNSET_FLOW, 5, flow_view(5, 0, 0, 0, 0, 0, 0, yes=False), id="nothing-set"),
        pytest.param(
            LIMITED_FLOW,
            1_708_000_059_999,
            flow_view(5, 10, 3, 100, 42, 60, 1_708_000_000, yes=True),
            id="within-the-period",
        ),
        pytest.param(
            LIMITED_FLOW,
            1_708_000_060_000,
            flow_view(5, 10, 3, 100, 0, 60, 1_708_000_000, yes=True),
            id="period-over",
        ),
    ],
)
def test_flow_key_always_has_all_its_fields(flow: FlowState, now_ms: int, expected: dict[str, Json]) -> None:
    """D-125."""
    view = views.flow_key(flow, 5, now_ms)
    assert view == expected
    assert flow_control_api.parse_flow_control_info(as_read(view)).rate_count == expected["rateCount"]


def test_keys_and_global_parallelism() -> None:
    view = views.signing_keys(SigningKeys(current="sig_a", next="sig_b"))
    assert view == {"current": "sig_a", "next": "sig_b"}
    assert signing_key.parse_signing_key_response(as_read(view)).next == "sig_b"
    assert views.global_parallelism(200, 0) == {"parallelismMax": 200, "parallelismCount": 0}
