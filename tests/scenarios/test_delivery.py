"""The main job over real sockets: a server, a client, and receivers that verify what arrives."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.harness.emulators import EPOCH_MS, Received, Receiver, Server, control, receiver, server, service, verify
from tests.harness.loops import PATIENCE_S
from tests.scenarios.raw_http import exchange, head

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def emulator(http_server: str) -> Iterator[Server]:
    with server(server=http_server) as running:
        yield running


@pytest.fixture(autouse=True)
def _fresh(emulator: Server) -> None:
    control(emulator, "POST", "/reset")


def answer(received: Received) -> int:
    """200, except where the path asks for a failure."""
    if received.path.startswith("/down"):
        return 500
    return 503 if received.path == "/once-down" and received.headers["svc-retried"] == "0" else 200


@pytest.fixture
def hooks(emulator: Server) -> Iterator[Receiver]:
    """A receiver whose requests are verified when the test has ended."""
    with receiver(answer) as running:
        yield running
        for received in running.requests:
            verify(received, f"{running.url}{received.path}", emulator.current_signing_key)
            assert received.headers["user-agent"] == "Svc-Queue"
            assert received.headers["svc-message-id"].startswith("msg_")


def post(emulator: Server, path: str, headers: dict[str, str] | None = None, body: object = b"") -> Any:
    return service(emulator, "POST", f"/v2/{path}", headers or {}, body)


def advance(emulator: Server, by: str) -> Any:
    return control(emulator, "POST", "/clock/advance", {"by": by})


def test_a_message_without_delay_has_arrived_when_the_publish_returns(emulator: Server, hooks: Receiver) -> None:
    body = bytes(range(256))
    sent = post(
        emulator, f"publish/{hooks.url}/a?x=1", {"Content-Type": "application/x-bytes", "Svc-Forward-Team": "t"}, body
    )
    (received,) = hooks.requests
    assert (received.method, received.path, received.body) == ("POST", "/a?x=1", body)
    assert received.headers["svc-message-id"] == sent["messageId"]
    assert received.headers["content-type"] == "application/x-bytes"
    assert received.headers["team"] == "t"
    assert received.headers["svc-caller-ip"] == "127.0.0.1"
    (delivery,) = control(emulator, "GET", "/deliveries")["deliveries"]
    # What the journal shows is what the receiver saw.
    assert {name.lower(): values[0] for name, values in delivery["headers"].items()} == received.headers
    assert base64.b64decode(delivery["body_base64"]) == body
    assert (delivery["via"], delivery["response"]["status"], delivery["response"]["body"]) == ("network", 200, "seen")


def test_retries_callbacks_and_the_dead_letter(emulator: Server, hooks: Receiver) -> None:
    headers = {"Svc-Retries": "2", "Svc-Callback": f"{hooks.url}/told", "Svc-Failure-Callback": f"{hooks.url}/failed"}
    sent = post(emulator, f"publish/{hooks.url}/down", headers, b"payload")
    report = advance(emulator, "1h")
    assert (report["succeeded"], report["failed"]) == (3, 2)
    assert [received.headers["svc-retried"] for received in hooks.at("/down")] == ["0", "1", "2"]
    told = [received.json for received in hooks.at("/told")]
    assert [(each["status"], each["retried"], each["maxRetries"]) for each in told] == [
        (500, 0, 2),
        (500, 1, 2),
        (500, 2, 2),
    ]
    assert all(base64.b64decode(each["body"]) == b"seen" for each in told)
    (failed,) = [received.json for received in hooks.at("/failed")]
    assert failed["sourceMessageId"] == sent["messageId"]
    assert base64.b64decode(failed["sourceBody"]) == b"payload"
    assert service(emulator, "GET", f"/v2/dlq/{failed['dlqId']}")["messageId"] == sent["messageId"]
    times = [
        each["at_ms"] - EPOCH_MS
        for each in control(emulator, "GET", "/deliveries", url=f"{hooks.url}/down")["deliveries"]
    ]
    assert times == [0, 12_000, 160_000]


def test_a_schedule_fires_at_local_time(emulator: Server, hooks: Receiver) -> None:
    headers = {
        "Svc-Cron": "CRON_TZ=Europe/Berlin 0 9 * * *",
        "Svc-Schedule-Id": "morning",
        "Content-Type": "text/plain",
    }
    assert post(emulator, f"schedules/{hooks.url}/cron", headers, b"wake") == {"scheduleId": "morning"}
    assert advance(emulator, "7d")["schedules_fired"] == 7
    assert {received.headers["svc-schedule-id"] for received in hooks.wait_for(7)} == {"morning"}
    at = [each["at"] for each in control(emulator, "GET", "/deliveries")["deliveries"]]
    assert at == [f"2026-01-0{day}T08:00:00.000Z" for day in range(1, 8)]


def test_a_group_fans_out(emulator: Server, hooks: Receiver) -> None:
    endpoints = [{"name": name, "url": f"{hooks.url}/{name}"} for name in ("one", "two", "three")]
    post(emulator, "topics/g/endpoints", body={"endpoints": endpoints})
    sent = post(emulator, "publish/g", {}, b"all")
    assert [item["url"] for item in sent] == [endpoint["url"] for endpoint in endpoints]
    # They leave at once, beside each other (D-538).
    assert sorted(received.path for received in hooks.requests) == ["/one", "/three", "/two"]
    assert {received.headers["svc-topic-name"] for received in hooks.requests} == {"g"}


def test_a_destination_that_nobody_listens_at_is_a_failed_attempt(emulator: Server) -> None:
    """D-086."""
    with receiver() as gone:
        url = gone.url
    post(emulator, f"publish/{url}/x", {"Svc-Retries": "0"})
    (delivery,) = control(emulator, "GET", "/deliveries")["deliveries"]
    assert delivery["response"] is None
    assert delivery["error"]


def test_a_raw_destination_reaches_the_emulator_untouched(emulator: Server) -> None:
    """Two slashes, dot segments and percent forms; a fragment is refused rather than dropped."""

    def raw(target: str) -> int:
        (answer,) = exchange(emulator, head(emulator, f"POST /v2/publish/{target}", "Content-Length: 0"))
        return answer.status

    assert raw("https://x.test//a/../b%2F%41?q=%20&svc-delay=1h") == 200
    (message,) = service(emulator, "GET", "/v2/events")["events"]
    assert message["url"] == "https://x.test//a/../b%2F%41?q=%20"
    assert raw("https://x.test/a#b") == 400


def test_an_empty_query_of_a_destination_is_kept(emulator: Server, hooks: Receiver) -> None:
    """D-797: on every way to publish; that the signature is for it is checked by the receiver."""
    token, json_type = emulator.token, {"Content-Type": "application/json"}
    for target in ("publish/{}/a?", "enqueue/mail/{}/b?", "publish/{}/c?&", "publish/{}/d?&queue_token=" + token):
        post(emulator, target.format(hooks.url))
    post(emulator, f"publish/{hooks.url}/e?queue_token={token}")
    post(emulator, "batch", json_type, [{"destination": f"{hooks.url}/f?"}])
    post(emulator, "topics/team/endpoints", json_type, {"endpoints": [{"url": f"{hooks.url}/g?"}]})
    post(emulator, "publish/team")
    post(emulator, f"schedules/{hooks.url}/h?", {"Svc-Cron": "0 0 2 1 *"})
    advance(emulator, "2d")
    post(emulator, f"publish/{hooks.url}/i", {"Svc-Callback": f"{hooks.url}/j?"})
    targets = ["/a?", "/b?", "/c?&", "/d?", "/e", "/f?", "/g?", "/h?", "/i", "/j?"]
    assert [received.path for received in hooks.wait_for(len(targets))] == targets
    deliveries = control(emulator, "GET", "/deliveries")["deliveries"]
    assert [each["url"] for each in deliveries] == [f"{hooks.url}{target}" for target in targets]
    assert [each["url"] for each in service(emulator, "GET", "/v2/events?state=CREATED")["events"]][::-1] == [
        each["url"] for each in deliveries
    ]


def test_a_rule_matches_a_url_with_an_empty_query(emulator: Server) -> None:
    """D-797."""
    for url, status in (("https://x.test/a?", 201), ("https://x.test/a", 202), ("https://x.test/*", 203)):
        control(emulator, "POST", "/destinations", {"match": {"url": url}, "respond": {"status": status}})
    for url in ("https://x.test/a?", "https://x.test/a", "https://x.test/b?", "https://x.test/a?&"):
        post(emulator, f"publish/{url}")
    control(emulator, "DELETE", "/destinations/rule_1")
    post(emulator, "publish/https://x.test/a?")
    deliveries = control(emulator, "GET", "/deliveries")["deliveries"]
    assert [each["response"]["status"] for each in deliveries] == [201, 202, 203, 203, 202]


def test_a_receiver_that_moves_the_clock_from_its_handler_is_refused_before_the_publish_returns(
    emulator: Server,
) -> None:
    """D-293."""
    refusals: list[Any] = []

    def advance_inside(_: Received) -> int:
        refusals.append(client.post("/_emulator/clock/advance", json={"by": "1h"}))
        return 200

    # Made before: the publish waits for a second at most, and making a client takes much of that beside other load.
    with (
        httpx.Client(base_url=emulator.url, timeout=PATIENCE_S, trust_env=False, verify=False) as client,
        receiver(advance_inside) as hook,
    ):
        post(emulator, f"publish/{hook.url}/a")
        deliveries = control(emulator, "GET", "/deliveries")["deliveries"]

    assert [each["response"]["status"] for each in deliveries] == [200]
    [refusal] = refusals
    assert refusal.status_code == 409
    assert refusal.json()["error"].endswith("a receiver cannot move the clock from its handler")
