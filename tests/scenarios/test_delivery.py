"""The main job over real sockets: a server, a client, and receivers that verify what arrives."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.harness.emulators import EPOCH_MS, Received, Receiver, Server, control, receiver, server, verify
from tests.harness.loops import PATIENCE_S

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


def post(emulator: Server, path: str, headers: dict[str, str] | None = None, body: bytes = b"") -> Any:
    given = {"Authorization": f"Bearer {emulator.token}", **(headers or {})}
    response = httpx.post(
        f"{emulator.url}/v2/{path}", headers=given, content=body, timeout=PATIENCE_S, trust_env=False, verify=False
    )
    assert response.is_success, response.text
    return response.json()


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


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE"])
def test_every_method_is_delivered_with_its_body(emulator: Server, hooks: Receiver, method: str) -> None:
    post(emulator, f"publish/{hooks.url}/m", {"Svc-Method": method}, b"body")
    (received,) = hooks.requests
    assert (received.method, received.body) == (method, b"body")


def test_a_delayed_message_waits_for_the_clock(emulator: Server, hooks: Receiver) -> None:
    post(emulator, f"publish/{hooks.url}/later", {"Svc-Delay": "1d"})
    assert advance(emulator, "23h59m59s")["deliveries"] == 0
    assert hooks.requests == []
    report = advance(emulator, "1s")
    assert (report["deliveries"], report["succeeded"]) == (1, 1)
    assert [received.path for received in hooks.requests] == ["/later"]


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
    dead = httpx.get(
        f"{emulator.url}/v2/dlq/{failed['dlqId']}",
        headers={"Authorization": f"Bearer {emulator.token}"},
        timeout=PATIENCE_S,
        trust_env=False,
        verify=False,
    )
    assert dead.json()["messageId"] == sent["messageId"]
    times = [
        each["at_ms"] - EPOCH_MS
        for each in control(emulator, "GET", "/deliveries", url=f"{hooks.url}/down")["deliveries"]
    ]
    assert times == [0, 12_000, 160_000]


def test_a_failed_attempt_is_made_again_and_succeeds(emulator: Server, hooks: Receiver) -> None:
    post(emulator, f"publish/{hooks.url}/once-down")
    report = control(emulator, "POST", "/clock/drain")
    assert (report["deliveries"], report["idle"]) == (1, True)
    assert [received.headers["svc-retried"] for received in hooks.requests] == ["0", "1"]


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
    response = httpx.post(
        f"{emulator.url}/v2/topics/g/endpoints",
        headers={"Authorization": f"Bearer {emulator.token}"},
        json={"endpoints": endpoints},
        timeout=PATIENCE_S,
        trust_env=False,
        verify=False,
    )
    assert response.is_success
    sent = post(emulator, "publish/g", {}, b"all")
    assert [item["url"] for item in sent] == [endpoint["url"] for endpoint in endpoints]
    # They leave at once, beside each other (D-538).
    assert sorted(received.path for received in hooks.requests) == ["/one", "/three", "/two"]
    assert {received.headers["svc-topic-name"] for received in hooks.requests} == {"g"}


def test_after_a_rotation_the_next_key_signs(emulator: Server, hooks: Receiver) -> None:
    assert post(emulator, "keys/rotate")["current"] == emulator.next_signing_key
    post(emulator, f"publish/{hooks.url}/signed")
    (received,) = hooks.requests
    verify(received, f"{hooks.url}/signed", emulator.next_signing_key)
    # Verified above, with the key that is now current.
    hooks.requests.clear()


def test_a_rule_forwards_to_this_machine_and_signs_for_the_original(emulator: Server, hooks: Receiver) -> None:
    rule = {"match": {"url": "https://app.example.com/*"}, "forward_to": hooks.url}
    control(emulator, "POST", "/destinations", rule)
    post(emulator, "publish/https://app.example.com/api/hook?a=1", {}, b"x")
    (received,) = hooks.requests
    assert received.path == "/api/hook?a=1"
    verify(received, "https://app.example.com/api/hook?a=1", emulator.current_signing_key)
    hooks.requests.clear()


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
    import socket

    def raw(target: str) -> bytes:
        with socket.create_connection(("127.0.0.1", emulator.port), timeout=PATIENCE_S) as connection:
            head = (
                f"POST {target} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {emulator.token}\r\n"
                "Content-Length: 0\r\nConnection: close\r\n\r\n"
            )
            connection.sendall(head.encode())
            pieces = []
            while piece := connection.recv(65_536):
                pieces.append(piece)
        return b"".join(pieces)

    assert b" 200 " in raw("/v2/publish/https://x.test//a/../b%2F%41?q=%20&svc-delay=1h")[:20]
    (message,) = httpx.get(
        f"{emulator.url}/v2/events",
        headers={"Authorization": f"Bearer {emulator.token}"},
        timeout=PATIENCE_S,
        trust_env=False,
        verify=False,
    ).json()["events"]
    assert message["url"] == "https://x.test//a/../b%2F%41?q=%20"
    refused = raw("/v2/publish/https://x.test/a#b")
    assert b" 400 " in refused[:20]


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
