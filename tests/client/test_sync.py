"""The Python API: a server in the test's own process, its worlds, and what a test does with them."""

from __future__ import annotations

import copy
import pickle
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal
from zoneinfo import ZoneInfo

import httpx
import pytest
import trustme
from qstash import QStash, Receiver

from emulator import Emulator, EmulatorError, Refused, Unreachable
from emulator.core.world_setup import KEEP_ALL
from emulator.server.settings import Settings
from tests.harness import emulators, loops

APP = "https://app.example.com/hook"


# -- beginning and end ------------------------------------------------------------------------


def test_a_server_begins_frozen_on_a_port_of_its_own_with_the_names_of_its_dialect(server: Emulator) -> None:
    status = server.clock.status()
    assert (status.now_ms, status.rate) == (emulators.EPOCH_MS, 0)
    assert httpx.get(f"{server.url}/_emulator/health", trust_env=False, verify=False).json()["status"] == "ok"
    assert server.env == {
        "SVC_URL": server.url,
        "SVC_TOKEN": server.token,
        "SVC_CURRENT_SIGNING_KEY": server.credentials.current_signing_key,
        "SVC_NEXT_SIGNING_KEY": server.credentials.next_signing_key,
    }
    assert (server.dialect.name, server.dialect.header_prefix, server.dialect.issuer) == ("svc", "Svc-", "Svc")


def test_credentials_of_a_server_with_another_seed_are_refused(server: Emulator) -> None:
    """D-646."""
    with Emulator(seed=7) as other:
        for ours, theirs in ((server, other), (other, server)):
            headers = {"Authorization": f"Bearer {theirs.token}"}
            assert httpx.post(f"{ours.url}/v2/publish/{APP}", headers=headers).status_code == 401
        assert other.signing_keys.current != server.signing_keys.current


def test_nothing_of_it_is_left_after_its_end() -> None:
    before = set(threading.enumerate())
    with Emulator() as emulator:
        emulator.mount("https://app.test", lambda request: None)
        emulator.publish("https://app.test/hook")
        url = emulator.url
    # A worker thread of the event loop may take a moment longer, and is none of ours.
    assert not [each.name for each in set(threading.enumerate()) - before if "emulator" in each.name]
    with pytest.raises(httpx.ConnectError):
        httpx.get(url, trust_env=False, verify=False)
    with pytest.raises(EmulatorError, match="not running"):
        emulator.publish(APP)
    emulator.close()


def test_everything_is_kept_unless_the_test_says_otherwise() -> None:
    """D-480."""
    with (
        Emulator(keep_history=8) as emulator,
        emulator.new_world() as like_it,
        emulator.new_world(keep_history="all") as whole,
        Emulator.connect(emulator.url) as connected,
        connected.new_world() as remote,
    ):
        shown = []
        for each in (emulator, like_it, whole, remote):
            for _ in range(20):
                each.publish(APP)
            shown.append(len((each.session.server.background.submit(each.session.deliveries())).result()))
        assert shown == [2, 2, 20, 20]
    assert Settings(db=":memory:").kept.entries == 200_000
    with Emulator() as emulator:
        assert emulator.session.server._own("a test").settings.kept == KEEP_ALL


def test_it_is_started_once_and_again_after_its_end() -> None:
    emulator = Emulator(seed=5)
    with emulator:
        first = emulator.token
        with pytest.raises(EmulatorError, match="running already"):
            emulator.start()
    with emulator:
        assert emulator.token == first


def test_a_single_host_is_one_host() -> None:
    with Emulator(allow_control_host="emulator.example") as emulator:
        health, headers = f"{emulator.url}/_emulator/health", {"Host": "emulator.example"}
        assert httpx.get(health, headers=headers, trust_env=False, verify=False).status_code == 200


def test_the_epoch_is_an_instant_in_any_form(server: Emulator) -> None:
    utc, zone = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, 2, tzinfo=ZoneInfo("Europe/Helsinki"))
    for epoch in (emulators.EPOCH, emulators.EPOCH_MS, utc, zone):
        with server.new_world(epoch=epoch) as world:
            assert world.clock.now() == utc


def test_fixtures_can_be_given_as_a_document() -> None:
    fixtures = {"destinations": [{"match": {"url": APP}, "respond": {"status": 418}}]}
    with Emulator(fixtures=fixtures) as emulator:
        emulator.publish(APP, headers={"Svc-Retries": "0"})
        [delivery] = emulator.deliveries()
        assert delivery.response is not None
        assert delivery.response.status == 418
        # They are the server's own: every world begins with them, and every reset returns to them.
        emulator.destinations.clear()
        emulator.reset()
        with emulator.new_world() as world:
            assert len(world.destinations.all()) == len(emulator.destinations.all()) == 1


# -- a server elsewhere -----------------------------------------------------------------------


def test_a_server_elsewhere_is_used_over_http() -> None:
    with emulators.server(control_token="s3cret") as running:
        with Emulator.connect(running.url + "/", control_token="s3cret") as emulator:
            assert (emulator.url, emulator.token) == (running.url, running.token)
            message_id = emulator.publish(APP, "hello")
            [delivery] = emulator.deliveries()
            assert (delivery.message_id, delivery.text) == (message_id, "hello")
            with emulator.new_world(id="mine") as world:
                assert world.world == "mine"
            with pytest.raises(Refused) as refused:
                Emulator.connect(running.url, control_token="s3cret", world="mine").start()
        assert (refused.value.status, str(refused.value)) == (404, "world mine not found")
        with pytest.raises(Refused, match="bearer token") as refused:
            Emulator.connect(running.url).start()
        assert refused.value.status == 401


def test_nothing_of_this_process_can_be_mounted_elsewhere() -> None:
    with emulators.server() as running, Emulator.connect(running.url) as emulator:
        with pytest.raises(EmulatorError, match="mount needs an emulator in this process") as refused:
            emulator.mount("https://app.test", lambda request: None)
        for instead in ("destinations.forward(", "destinations.respond(", "without --emulator-url"):
            assert instead in str(refused.value)
        with pytest.raises(EmulatorError, match="asgi needs an emulator in this process"):
            emulator.asgi  # noqa: B018


def test_another_program_is_told_from_an_emulator() -> None:
    with emulators.receiver() as other, pytest.raises(EmulatorError, match="is no emulator"):
        Emulator.connect(other.url).start()


# -- worlds -----------------------------------------------------------------------------------


def test_worlds_share_nothing(server: Emulator) -> None:
    with server.new_world() as one, server.new_world() as other:
        one.publish(APP, headers={"Svc-Delay": "1h"})
        one.clock.advance("1d")
        assert len(one.deliveries()) == 1
        assert other.deliveries() == []
        assert one.token != other.token
        assert other.clock.status().pending == 0


def test_a_reset_takes_the_world_back(emu: Emulator) -> None:
    emu.publish(APP, headers={"Svc-Delay": "1h"})
    emu.clock.advance("2h")
    token = emu.token
    emu.reset()
    assert (emu.deliveries(), emu.clock.status().now_ms, emu.token) == ([], emulators.EPOCH_MS, token)


# -- the clock --------------------------------------------------------------------------------


def test_the_clock_moves_in_every_way(emu: Emulator) -> None:
    emu.destinations.respond(APP, status=500)
    emu.publish(APP, headers={"Svc-Retries": "2", "Svc-Retry-Delay": "60000"})
    assert emu.clock.next().to_ms == emulators.EPOCH_MS + 60_000
    assert emu.clock.advance(timedelta(seconds=30)).deliveries == 0
    assert emu.clock.advance(seconds=20, milliseconds=10_000).failed == 1
    report = emu.clock.advance_to("2026-01-02T00:00:00Z")
    # The failure callback has no address here, so nothing follows the last attempt.
    assert (report.deliveries, report.stopped) == (0, None)
    assert emu.clock.now() == datetime(2026, 1, 2, tzinfo=UTC)
    assert emu.clock.drain("1d").idle is True
    assert emu.clock.set("2026-01-05T00:00:00Z").now_ms == emulators.EPOCH_MS + 4 * 86_400_000
    assert emu.clock.rate(60).rate == 60
    assert emu.clock.rate(0).rate == 0


def test_an_advance_can_be_stopped_early(emu: Emulator) -> None:
    for _ in range(3):
        emu.publish(APP, headers={"Svc-Delay": "1m"})
    report = emu.clock.advance("1h", max_deliveries=2)
    assert (report.deliveries, report.stopped) == (2, "max_deliveries")


def test_nothing_needs_no_unit(emu: Emulator) -> None:
    assert emu.clock.advance(0).to_ms == emulators.EPOCH_MS


# -- destinations -----------------------------------------------------------------------------


def test_destinations_answer_as_they_are_told(emu: Emulator) -> None:
    emu.destinations.respond("https://a.test/*", 503, headers={"Retry-After": "10"}, body="busy", times=1)
    emu.destinations.sequence("https://b.test/*", [500, {"status": 201, "body": "made"}])
    emu.destinations.fault("https://c.test/*", "refused", method="POST", times=1)
    emu.destinations.respond("https://d.test/*", latency="2s")
    for name in "abcd":
        emu.publish(f"https://{name}.test/x")
    emu.clock.drain()
    seen = [(each.url[8], each.response and each.response.status, each.error) for each in emu.deliveries()]
    assert sorted(seen, key=str) == [
        ("a", 200, None),
        ("a", 503, None),
        ("b", 201, None),
        ("b", 500, None),
        ("c", 200, None),
        ("c", None, "connection refused"),
        ("d", 200, None),
    ]
    [slow] = emu.deliveries("https://d.test/*")
    assert slow.duration_ms == 2_000
    [retried] = emu.deliveries("https://a.test/*", outcome="succeeded")
    assert retried.at_ms - retried.created_ms == 10_000


def test_a_destination_can_be_forwarded(emu: Emulator) -> None:
    with emulators.receiver() as app:
        emu.destinations.forward("https://api.example.com/*", app.url)
        emu.publish("https://api.example.com/orders?a=1")
        [request] = app.wait_for(1)
    assert request.path == "/orders?a=1"
    emulators.verify(request, "https://api.example.com/orders?a=1", emu.credentials.current_signing_key)


def test_rules_are_listed_and_removed(emu: Emulator) -> None:
    kept = emu.destinations.respond("https://a.test/*")
    gone = emu.destinations.add({"match": {"url": "https://b.test/*"}, "fault": "dns"})
    emu.destinations.remove(gone)
    assert [rule["id"] for rule in emu.destinations.all()] == [kept]
    emu.destinations.clear()
    assert emu.destinations.all() == []


# -- publishing and deliveries ----------------------------------------------------------------


def test_a_delivery_tells_exactly_what_was_sent(emu: Emulator) -> None:
    message_id = emu.publish(APP, json={"user": 7}, headers={"Svc-Forward-X-Key": "1", "Svc-Method": "PUT"})
    emu.publish(APP, b"\xff\x00")
    emu.publish(APP, "café", headers={"content-type": "text/plain"})
    [delivery] = emu.deliveries(message_id=message_id)
    assert (delivery.method, delivery.url, delivery.attempt, delivery.json()) == ("PUT", APP, 1, {"user": 7})
    assert (delivery.headers["x-key"], delivery.headers["content-type"]) == ("1", "application/json")
    assert (delivery.succeeded, delivery.via, delivery.error) == (True, "capture", None)
    assert delivery.at == datetime(2026, 1, 1, tzinfo=UTC)
    _, raw, text = emu.deliveries()
    assert (raw.body, text.text) == (b"\xff\x00", "café")


def test_all_deliveries_are_listed_however_many(emu: Emulator) -> None:
    emu.call("POST", "/v2/batch", json=[{"destination": APP}] * 1_100)
    emu.clock.advance(0)
    numbers = [each.seq for each in emu.deliveries()]
    assert numbers == sorted(set(numbers))
    assert len(numbers) == 1_100
    emu.clear_deliveries()
    assert emu.deliveries() == []


def test_a_group_is_published_to_as_a_whole(emu: Emulator) -> None:
    emu.url_groups.upsert("news", [APP, "https://b.example.com"])
    made = emu.publish_to_group("news", "hello")
    assert [each.message_id for each in emu.deliveries()] == made


def test_an_account_can_be_changed(emu: Emulator) -> None:
    emu.change_account(max_requests_per_day_hard=1)
    emu.publish(APP)
    with pytest.raises(Refused) as refused:
        emu.publish(APP)
    assert refused.value.status == 429
    [account, *_] = emu.accounts()
    assert account["max_requests_per_day_hard"] == 1
    with pytest.raises(Refused) as refused:
        emu.change_account(max_requests_per_dya_hard=1)
    assert refused.value.field == "max_requests_per_dya_hard"


# -- other servers ----------------------------------------------------------------------------


def test_a_database_keeps_the_world_from_one_emulator_to_the_next(tmp_path: Path) -> None:
    with Emulator(db=tmp_path / "state.db", epoch=emulators.EPOCH) as emulator:
        emulator.publish(APP, headers={"Svc-Delay": "1h"})
        token = emulator.token
    with Emulator(db=tmp_path / "state.db") as emulator:
        assert emulator.token == token
        assert emulator.clock.advance("1h").deliveries == 1


@pytest.mark.parametrize("name", ["uvicorn", "hypercorn"])
def test_a_certificate_makes_it_https(name: Literal["uvicorn", "hypercorn"], tmp_path: Path) -> None:
    authority = trustme.CA()
    authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(tmp_path / "server.pem")
    with Emulator(
        tls_cert=tmp_path / "server.pem", tls_key=tmp_path / "server.pem", server=name, clock="realtime"
    ) as emulator:
        assert emulator.url.startswith("https://127.0.0.1:")
        emulator.publish(APP)
        assert len(emulator.wait_for(APP)) == 1
        trusting = ssl.create_default_context()
        authority.configure_trust(trusting)
        with Emulator.connect(emulator.url, verify=trusting) as other:
            assert len(other.wait_for(APP)) == 1
        with pytest.raises(Unreachable, match="certificate verify failed"):
            Emulator.connect(emulator.url).start()


def test_the_public_client_of_a_dialect_works_with_what_it_is_handed() -> None:
    with Emulator(dialect="upstash", epoch=emulators.EPOCH) as emulator:
        client = QStash(emulator.env["QSTASH_TOKEN"], base_url=emulator.env["QSTASH_URL"])
        client.message.publish_json(url=APP, body={"user": 7}, delay="1h")
        client.http._client.close()
        emulator.clock.advance("1h")
        [delivery] = emulator.deliveries()
        assert delivery.json() == {"user": 7}
        Receiver(
            current_signing_key=emulator.env["QSTASH_CURRENT_SIGNING_KEY"],
            next_signing_key=emulator.env["QSTASH_NEXT_SIGNING_KEY"],
        ).verify(signature=delivery.headers["Upstash-Signature"], body=delivery.text, url=APP)


def test_any_messaging_call_can_be_made_and_changed_keys_are_known(emu: Emulator) -> None:
    schedule = emu.call("POST", f"/v2/schedules/{APP}", "hello", headers={"Svc-Cron": "0 9 * * *"}).json()
    assert emu.call("GET", "/v2/schedules").json()[0]["scheduleId"] == schedule["scheduleId"]
    following = emu.credentials.next_signing_key
    emu.call("POST", "/v2/keys/rotate")
    assert emu.credentials.current_signing_key == following
    with pytest.raises(Refused) as refused:
        emu.call("GET", "/v2/messages/msg_none")
    assert refused.value.status == 404


def test_a_move_of_the_clock_waits_as_long_as_settle_says() -> None:
    """D-490: for a delivery that was under way before it."""
    ended = threading.Event()
    with Emulator(settle=0.05) as emulator:
        emulator.mount("https://slow.test", lambda request: ended.wait(30) and None)
        try:
            emulator.publish("https://slow.test/")
            with pytest.raises(Refused, match=r"1 attempt is still under way after 0\.05 s"):
                emulator.clock.advance("1d")
        finally:
            ended.set()


# -- waiting for deliveries under a running clock --------------------------------------------------


URL = "https://app.test/hook"


@pytest.fixture
def running(server: Emulator) -> Iterator[Emulator]:
    with server.new_world(epoch=emulators.EPOCH, rate=1) as world:
        yield world


def test_what_has_come_already_counts(running: Emulator) -> None:
    running.destinations.respond("https://other.test/*", 404)
    running.publish(URL)
    running.publish("https://other.test/", headers={"Svc-Retries": "0"})
    running.clock.advance(0)
    [delivery] = running.wait_for(URL)
    assert delivery.url == URL
    [failed] = running.wait_for(status=404, outcome="failed")
    assert failed.url == "https://other.test/"
    assert len(running.wait_for("https://*", count=2)) == 2


def test_what_comes_later_is_waited_for(running: Emulator) -> None:
    gate = threading.Event()

    def hook(request: object) -> int:
        gate.wait(loops.PATIENCE_S)
        return 200

    running.mount("https://app.test", hook)
    running.publish(URL)
    running.publish(URL)
    threading.Thread(target=gate.set).start()
    first, second = running.wait_for(URL, count=2, timeout=loops.PATIENCE_S)
    assert first.message_id != second.message_id


def test_a_retry_is_waited_for_on_the_running_clock(running: Emulator) -> None:
    running.clock.rate(1000)
    running.destinations.respond(URL, 503, times=2)
    message_id = running.publish(URL, headers={"Svc-Retry-Delay": "10000"})
    [delivery] = running.wait_for(message_id=message_id, outcome="succeeded", timeout=loops.PATIENCE_S)
    assert delivery.attempt == 3


def test_what_does_not_come_fails_with_the_timeline(server: Emulator) -> None:
    with server.new_world(epoch=emulators.EPOCH) as frozen:
        frozen.publish(URL, headers={"Svc-Delay": "1h"})
        frozen.publish("https://other.test/")
        with pytest.raises(AssertionError) as failed:
            frozen.wait_for(URL, status=200, count=2, timeout=0.05)
    text = str(failed.value)
    assert text.splitlines()[:2] == [
        f"waited 0.05 s for 2 deliveries to {URL} answered 200, and none came",
        "The clock is frozen: what is due later needs clock.advance(...), not waiting.",
    ]
    assert "https://other.test/" in text


def test_a_world_that_ends_is_not_waited_for(server: Emulator) -> None:
    doomed = server.new_world(id="doomed", rate=1).start()
    with Emulator.connect(server.url, world="doomed") as other:
        ending = threading.Thread(target=doomed.close)
        ending.start()
        with pytest.raises(EmulatorError):
            other.wait_for(URL, timeout=loops.PATIENCE_S)
        ending.join()


# -- an emulator belongs to the process that started it; others get its URL and token --------------


# A fork hangs where it would wait for a thread that it does not have, so this has an end of its own.
FORK = """
import os, signal, sys
import httpx
from emulator import Emulator, Unreachable

with Emulator() as emulator:
    url, headers = f"{emulator.url}/v2/publish/https://app.example.com", {"Authorization": f"Bearer {emulator.token}"}
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        try:
            emulator.deliveries()
        except Unreachable as error:
            print(error, flush=True)
        assert httpx.post(url, headers=headers, trust_env=False, verify=False).status_code == 200
        sys.exit(7)  # Through the end of the with block, and those of the interpreter.
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    print(status, len(emulator.deliveries()))
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="there is no fork")
def test_a_fork_is_told_and_leaves_the_emulator_as_it_is() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", FORK], capture_output=True, text=True, timeout=60, check=False
    )

    assert done.stderr == ""
    assert done.stdout.splitlines() == [
        "this emulator lives in the process that this one was forked from: use its url and token",
        "7 1",
    ]


def test_it_cannot_be_handed_to_another_process() -> None:
    emulator = Emulator()
    with pytest.raises(TypeError, match="stays in its process: hand its url and token"):
        pickle.dumps(emulator)
    with pytest.raises(TypeError, match="stays in its process"):
        copy.copy(emulator)
