"""`verify` and `timeline` of a world: fetched from a server, over the API that everybody has."""

from __future__ import annotations

import copy
import pickle
import re
from dataclasses import fields, replace
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest

from emulator import AsyncEmulator, Delivery, Emulator, HistoryNotKept, HistoryWarning, partial
from tests.harness.emulators import EPOCH
from tests.harness.loops import on_loop

HOOK = "https://app.test/hook"


@pytest.fixture
def emulator(emu: Emulator) -> Emulator:
    return emu


def failure(emulator: Emulator, **expected: object) -> str:
    with pytest.raises(AssertionError) as failed:
        emulator.verify(**expected)  # type: ignore[arg-type]  # each test gives what is meant
    return str(failed.value)


def test_retries_are_verified_with_their_instants_and_signatures(emulator: Emulator) -> None:
    emulator.destinations.sequence("https://app.test/*", [503, 503, 200])
    emulator.publish(HOOK, json={"user": 7}, headers={"Svc-Retry-Delay": "10000 * (1 + 2 * retried)"})
    emulator.clock.advance("1h")

    emulator.verify(
        url="https://app.test/*",
        method="POST",
        times=1,
        attempts=3,
        at=["0s", "10s", "40s"],
        status=[503, 503, 200],
        outcome="delivered",
        body_json={"user": 7},
        headers={"content-type": re.compile("^application/json"), "svc-retried": "2", "X-Tenant": None},
        signed_with="current",
    )


def test_the_url_needs_no_keyword(emulator: Emulator) -> None:
    emulator.publish(HOOK)

    emulator.verify(HOOK, attempts=1)
    with pytest.raises(AssertionError, match=r"Expected a message to https://app\.test/other; none went there"):
        emulator.verify("https://app.test/other")
    with pytest.raises(TypeError, match=rf"url: expected one, got '{re.escape(HOOK)}' and '"):
        emulator.verify(HOOK, url="https://b.test")


def test_what_is_not_there_yet_is_told_with_the_way_to_it(emulator: Emulator) -> None:
    emulator.publish(HOOK, headers={"Svc-Delay": "1d"})

    text = failure(emulator, url=HOOK)

    assert text.startswith(f"Expected a message to {HOOK}; nothing has been delivered.\n")
    assert 'the next message there is due in 1d: emulator.clock.advance("1d")' in text.replace("\n", " ")
    assert "Still to come:\n  2026-01-02 00:00:00  in 1d  msg_.." in text
    emulator.clock.advance("1d")
    emulator.verify(url=HOOK, at="1d")


def test_why_the_nearest_message_failed_is_told(emulator: Emulator) -> None:
    emulator.destinations.fault(HOOK, "refused")
    message_id = emulator.publish(HOOK, headers={"Svc-Retries": "0"})

    text = failure(emulator, message_id=message_id, outcome="succeeded")

    assert "expected succeeded, but attempt 1 got no response (connection refused)" in text.replace("\n", " ")
    assert f"Why:\n  msg_..{message_id[-4:]}  Failed at 2026-01-01T00:00:00.000Z: attempt 1" in text


def test_keys_are_those_that_are_valid_now(emulator: Emulator) -> None:
    emulator.publish(HOOK)
    headers = {"Authorization": f"Bearer {emulator.token}"}
    assert httpx.post(f"{emulator.url}/v2/keys/rotate", headers=headers, trust_env=False, verify=False).is_success

    assert "signed with neither key" in failure(emulator, signed_with="current")
    emulator.publish(HOOK)
    emulator.verify(signed_with="current", times=1)


def test_a_world_of_a_server_elsewhere_is_verified_alike(emulator: Emulator) -> None:
    with Emulator.connect(emulator.url) as connected, connected.new_world(epoch=EPOCH) as world:
        world.publish(HOOK, "hello")
        world.verify(url=HOOK, body="hello", signed_with="current")
        assert 'body: expected "bye", got "hello"' in failure(world, body="bye")


@on_loop
async def test_verify_awaits(emulator: Emulator) -> None:
    world = AsyncEmulator.sharing(emulator)
    await world.publish(HOOK, "hello")
    await world.verify(url=HOOK, times=1)
    with pytest.raises(AssertionError, match=f"^Expected no message to {HOOK}, found 1\\.\n"):
        await world.verify(url=HOOK, times=0)


def test_the_timeline_explains_what_failed_and_what_waits(emulator: Emulator) -> None:
    emulator.destinations.respond("https://app.test/*", status=500)
    failed = emulator.publish("https://app.test/failing", headers={"Svc-Retries": "0"})
    retried = emulator.publish("https://app.test/again", headers={"Svc-Retry-Delay": "60000"})
    limit = {"Svc-Flow-Control-Key": "key", "Svc-Flow-Control-Value": "rate=1,period=1h"}
    emulator.publish("https://app.example.com/", headers=limit)
    held = emulator.publish("https://app.example.com/", headers=limit)

    text = emulator.timeline()

    assert text.startswith("3 attempts of 3 messages; the clock is at 2026-01-01T00:00:00.000Z, frozen\n")
    sections = dict(re.findall(r"^([A-Z][a-z ]+):\n((?:  .*\n?)+)", text, re.MULTILINE))
    assert list(sections) == ["Still to come", "Waiting", "Why", "Whole ids"]
    assert failed in sections["Whole ids"]
    assert f"msg_..{retried[-4:]}" in sections["Still to come"]
    assert f"msg_..{held[-4:]}" in sections["Waiting"]
    assert f"msg_..{failed[-4:]}" in sections["Why"]
    assert sections["Why"].count("msg_..") == 1


# -- what is asked of the server ----------------------------------------------------------------


def test_verify_reads_what_may_meet_it_and_no_more(emulator: Emulator, monkeypatch: pytest.MonkeyPatch) -> None:
    """D-482."""
    for _ in range(3):
        emulator.publish("https://other.test/")
    emulator.publish(HOOK, label="red")
    asked: list[tuple[str, dict[str, str], int]] = []
    exchange = emulator.session.exchange

    async def note(method: str, path: str, body: object = None, **how: Any) -> Any:
        answer = await exchange(method, path, body, **how)
        asked.append((path, dict(how.get("query") or {}), len(answer.json().get("deliveries", ()))))
        return answer

    monkeypatch.setattr(emulator.session, "exchange", note)
    emulator.verify(HOOK, label="red", times=1)
    assert asked == [("deliveries", {"url": HOOK, "label": "red", "limit": "1000"}, 1)]
    asked.clear()
    emulator.verify(HOOK, signed_with="current")
    assert [path for path, *_ in asked] == ["deliveries", "credentials"]
    asked.clear()
    failure(emulator, url="https://gone.test/")
    assert [(path, query.get("limit")) for path, query, _ in asked if path == "deliveries"] == [
        ("deliveries", "1000"),
        ("deliveries", "1000"),
    ]


def test_verify_of_nothing_is_refused(emulator: Emulator) -> None:
    emulator.publish(HOOK)
    with pytest.raises(TypeError, match=r"^verify: expected something to hold the messages against"):
        emulator.verify(message_id=None, status=None)


def test_label_queue_and_schedule_are_the_messages(emulator: Emulator) -> None:
    emulator.publish(HOOK, label="red")
    emulator.publish(HOOK, queue="mail")
    emulator.schedules.create(HOOK, cron="* * * * *", schedule_id="nightly")
    emulator.clock.advance("2m")

    emulator.verify(HOOK, label="red", times=1)
    emulator.verify(queue="mail", times=1)
    emulator.verify(schedule_id="nightly", times=2)
    emulator.verify(HOOK, times=4)
    assert "label  expected blue, got none" in failure(emulator, url=HOOK, label="blue")
    assert "queue  expected letters, got none" in failure(emulator, url=HOOK, queue="letters")
    assert "schedule_id  expected daily, got nightly" in failure(emulator, url=HOOK, schedule_id="daily")


def test_times_counts_messages_that_were_tried_however_often(emulator: Emulator) -> None:
    emulator.destinations.sequence(HOOK, [503, 200])
    emulator.publish(HOOK, retry_delay="1m")
    emulator.publish(HOOK, delay="1d")
    emulator.verify(HOOK, times=1)
    emulator.clock.advance("1h")
    emulator.verify(HOOK, times=1, attempts=2)
    assert "found 1" in failure(emulator, url=HOOK, times=2)
    # One waits, and counts where what waits is spoken of.
    emulator.verify(HOOK, times=1, pending=True)
    emulator.verify(HOOK, times=1, pending=False)
    emulator.verify(HOOK, times=1, attempts=0)


def test_what_waits_and_what_was_never_tried_is_verified(emulator: Emulator) -> None:
    later = emulator.publish(HOOK, delay="1d")
    emulator.destinations.respond("https://down.test/*", 503)
    retried = emulator.publish("https://down.test/a", retries=3, retry_delay="1h", json={"user": 7})
    emulator.publish("https://app.test/done")
    cancelled = emulator.publish("https://app.test/cancelled", delay="1d")
    emulator.messages.cancel(str(cancelled))

    emulator.verify(HOOK, pending=True, attempts=0)
    emulator.verify(message_id=later, attempts=0)
    emulator.verify(message_id=retried, pending=True, attempts=1, status=503, body_json={"user": 7})
    emulator.verify(pending=True, times=2)
    emulator.verify("https://app.test/done", pending=False)
    emulator.verify("https://app.test/cancelled", pending=False, attempts=0)
    emulator.verify("https://app.test/done", attempts=0, times=0)

    text = failure(emulator, url="https://app.test/done", pending=True)
    assert "pending  expected a message that waits, it is ended" in text
    assert "pending  expected a message that waits, it is CANCELED" not in text
    text = failure(emulator, message_id=str(later), pending=False)
    assert "pending  expected a message that has ended, it is PENDING" in text
    assert f"POST {HOOK}, made 2026-01-01T00:00:00.000Z, not tried so far" in text
    assert "attempts  expected 0, got 1" in failure(emulator, message_id=str(retried), attempts=0)
    emulator.clock.advance("1d")
    assert "attempts  expected 0, got 1" in failure(emulator, url=HOOK, attempts=0)
    assert "found 1" in failure(emulator, url=HOOK, pending=False, times=0)


def test_part_of_a_body_is_verified(emulator: Emulator) -> None:
    emulator.publish(HOOK, json={"user": {"id": 7, "name": "Ada"}})
    emulator.verify(HOOK, body_json=partial({"user": {"id": 7}}))
    for wrong in ("text", 7, None):
        with pytest.raises(TypeError, match=r"^partial: expected a mapping or a list"):
            partial(wrong)  # type: ignore[arg-type]


# -- order --------------------------------------------------------------------------------------


def test_deliveries_are_verified_in_order(emulator: Emulator) -> None:
    """D-483."""
    emulator.destinations.sequence("https://pay.test/*", [503, 200])
    paid = emulator.publish("https://pay.test/1", retry_delay="10s", json={"sum": 5})
    emulator.publish("https://mail.test/")
    emulator.clock.advance("1m")

    emulator.verify_order(["https://pay.test/*", "https://mail.test/", paid])
    emulator.verify_order(
        [{"message_id": paid, "status": 503}, {"url": "https://*", "outcome": "delivered"}, "https://*"]
    )
    emulator.verify_order(["https://mail.test/", {"url": "https://pay.test/1", "body_json": partial({"sum": 5})}])
    with pytest.raises(AssertionError) as failed:
        emulator.verify_order(["https://pay.test/*", "https://pay.test/*", "https://mail.test/"])
    text = str(failed.value)
    assert text.replace("\n", " ").startswith(
        "Expected 3 deliveries in order; number 3, a message to https://mail.test/, did not come after number 2: "
        "it came before, at 2026-01-01T00:00:00.000Z."
    )
    assert "  1  2026-01-01T00:00:00.000Z  POST https://pay.test/1, attempt 1: 503" in text
    assert "3 attempts of 2 messages" in text
    with pytest.raises(AssertionError, match=r"number 1, a message to https://gone\.test/, did not come\."):
        emulator.verify_order(["https://gone.test/"])


@pytest.mark.parametrize(
    ("wanted", "kind", "text"),
    [
        ([], ValueError, "verify_order: expected at least one delivery"),
        ("https://a.test", TypeError, "verify_order: expected a list of deliveries"),
        ([7], TypeError, r"\[0\]: expected a URL, a message's id, or a mapping of keywords, got 7"),
        (["https://a.test", {}], TypeError, r"\[1\]: expected something to hold a delivery against"),
        ([{"times": 1}], TypeError, r"\[0\]: 'times' is nothing that one delivery has"),
        ([{"lable": "a"}], TypeError, r"\[0\]: 'lable' is nothing that one delivery has, did you mean label\?"),
        ([{"status": [200]}], TypeError, r"\[0\]: status: expected the status of one delivery"),
        ([{"status": 7}], ValueError, r"\[0\]: status: expected an integer from 100"),
    ],
)
def test_an_order_that_cannot_be_meant_is_named(
    emulator: Emulator, wanted: Any, kind: type[Exception], text: str
) -> None:
    with pytest.raises(kind, match=f"^{text}"):
        emulator.verify_order(wanted)


# -- history that is not kept -------------------------------------------------------------------


def test_an_expectation_that_depends_on_dropped_history_is_refused(server: Emulator) -> None:
    """D-482."""
    with server.new_world(epoch=EPOCH, keep_history=8) as emulator:
        emulator.destinations.respond("https://down.test/*", 503)
        retried = emulator.publish("https://down.test/", retries=2, retry_delay="1d")
        for _ in range(20):
            emulator.publish(HOOK)

        emulator.verify(HOOK)
        emulator.verify(HOOK, attempts=1, status=200)
        emulator.verify(message_id=retried, pending=True, times=1)
        for times in (20, 0, 2):
            with pytest.raises(HistoryNotKept, match=r"^history up to 2026-01-01T00:00:00\.000Z is not kept, and so "):
                emulator.verify(HOOK, times=times)
        with pytest.warns(HistoryWarning, match=r"^history up to 2026-01-01T00:00:00\.000Z is not kept, and deliver"):
            assert len(emulator.deliveries(HOOK)) == 2
        with pytest.warns(HistoryWarning, match="and messages before it are not listed"):
            assert len(emulator.messages.all()) < 21
        with pytest.warns(HistoryWarning, match="and runs before it are not listed"):
            assert emulator.workflows.runs() == []
        # What has not ended is never dropped.
        assert emulator.workflows.runs(state="RUN_STARTED") == []
        assert "History up to 2026-01-01T00:00:00.000Z is not kept (keep_history)." in emulator.timeline()
        assert "is not kept (keep_history)" in failure(emulator, url="https://gone.test/")

        emulator.clock.advance("1d")
        with pytest.raises(HistoryNotKept, match="how often a message was tried"):
            emulator.verify(message_id=retried, attempts=1)
        emulator.clear_deliveries()
        emulator.publish(HOOK)
        emulator.verify(HOOK, times=1)
        assert len(emulator.deliveries()) == 1


def test_deliveries_are_listed_by_label_and_since(emulator: Emulator) -> None:
    emulator.publish(HOOK, label="red")
    emulator.publish(HOOK, delay="1h", label="red")
    emulator.publish(HOOK)
    emulator.clock.advance("1h")
    assert [each.labels for each in emulator.deliveries(label="red")] == [("red",), ("red",)]
    [late] = emulator.deliveries(since="2026-01-01T00:00:01Z")
    assert (late.at, late.created) == (datetime(2026, 1, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, tzinfo=UTC))
    assert emulator.deliveries(since=late.at, label="red") == [late]
    with pytest.raises(ValueError, match=r"^since: "):
        emulator.deliveries(since="soon")


@pytest.mark.slow
def test_of_very_many_attempts_the_newest_are_shown(emulator: Emulator) -> None:
    first = emulator.publish("https://first.test/", json={"user": 7})
    for _ in range(11):
        emulator.call("POST", "/v2/batch", json=[{"destination": HOOK}] * 100)
    shown = emulator.timeline()
    assert "1101 attempts of 1101 messages; the clock is at" in shown
    assert "\n  ... 101 older ones\n" in shown
    text = failure(emulator, message_id=str(first), body_json={"user": 8})
    assert "$.user: expected 8, got 7" in text
    assert "> 2026-01-01 00:00:00" in text


def test_lists_of_the_python_api_have_the_newest_last(emulator: Emulator) -> None:
    """D-484."""
    emulator.destinations.respond("https://app.test/*", 500)
    urls = [f"https://app.test/{number}" for number in range(3)]
    for url in urls:
        emulator.publish(url, retries=0)
        emulator.call("POST", f"/v2/trigger/{url}")
        httpx.get(f"{emulator.url}/v2/messages/{url[-1]}", headers={"Authorization": f"Bearer {emulator.token}"})
        emulator.clock.advance("1s")
    assert list(dict.fromkeys(each.url for each in emulator.messages.all(state="FAILED"))) == urls
    assert [each.url for each in emulator.workflows.runs()] == urls
    assert [each.url for each in emulator.dead_letters.all()] == urls
    assert [each.path for each in emulator.refused()] == [f"/v2/messages/{number}" for number in range(3)]
    assert list(dict.fromkeys(each.url for each in emulator.deliveries())) == urls


def test_a_delivery_that_was_read_is_like_one_that_was_made(emulator: Emulator) -> None:
    emulator.destinations.respond(HOOK, 503, headers={"X-A": "1"}, body="busy")
    emulator.publish(HOOK, b"\xfe", retries=0, label="red", headers={"Svc-Forward-X-B": "2"})
    [read] = emulator.deliveries()
    made = Delivery(**{each.name: getattr(read, each.name) for each in fields(Delivery)})
    assert read == made
    assert made == read
    assert replace(read, attempt=2) == replace(made, attempt=2) != read
    assert pickle.loads(pickle.dumps(read)) == copy.deepcopy(read) == made
    assert repr(read) == repr(made)
    assert (read.body, read.status, read.succeeded, read.labels) == (b"\xfe", 503, False, ("red",))
    assert read.response is not None
    assert (read.response.body, read.response.headers["x-a"], read.headers["x-b"]) == (b"busy", "1", "2")
    with pytest.raises(AttributeError):
        read.seq = 7  # type: ignore[misc]
