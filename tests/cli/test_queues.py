"""`queues`, `flow-control` and `groups` against a real server."""

from __future__ import annotations

import pytest

from tests.cli.shell import URL, printed, publish, service
from tests.harness import emulators

pytestmark = pytest.mark.slow


def test_queues_show_who_waits(server: emulators.Server) -> None:
    assert printed(server, "queues") == "no queues\n"
    service(server, "POST", "queues", {"queueName": "billing", "parallelism": 2})
    service(server, "POST", "queues/billing/pause")
    ids = [service(server, "POST", f"enqueue/billing/{URL}")["messageId"] for _ in range(4)]
    assert printed(server, "queues").splitlines() == [
        "NAME     STATE   SLOTS  LAG  WAITING",
        f"billing  paused  0/2    4    4: {' '.join(each[-8:] for each in ids[:3])} ...",
    ]


def test_flow_control_keys_show_their_limits(server: emulators.Server) -> None:
    assert printed(server, "flow-control") == "no flow control keys\n"
    limits = "rate=1, period=1m, parallelism=5"
    ids = [publish(server, URL, Svc_Flow_Control_Key="k", Svc_Flow_Control_Value=limits) for _ in range(2)]
    service(server, "POST", "flowControl/k/pin?parallelism=3")
    assert printed(server, "flow-control").splitlines() == [
        "KEY  STATE  PARALLELISM  RATE        LAG  WAITING",
        f"k    runs   0/3 pinned   1/1 per 1m  1    1: {ids[1][-8:]}",
    ]


def test_groups_show_their_endpoints(server: emulators.Server) -> None:
    assert printed(server, "groups") == "no URL groups\n"
    service(
        server, "POST", "topics/news/endpoints", {"endpoints": [{"url": URL}, {"url": "https://b.test", "name": "b"}]}
    )
    assert printed(server, "groups").splitlines() == [
        "NAME  ENDPOINT  URL",
        f"news            {URL}",
        "      b         https://b.test",
    ]
