"""Messages from Python."""

from __future__ import annotations

import pytest

from emulator import Emulator, Refused
from tests.harness import emulators

URL = "https://app.test/hook"
HOUR_MS = 3_600_000


def test_the_list_tells_where_each_message_stands(emu: Emulator) -> None:
    emu.destinations.respond(URL, 503, body="busy", times=2)
    failed = emu.publish(URL, retries=0, label="orders")
    retried = emu.publish(URL, retries=2, retry_delay="1h")
    waiting = emu.publish("https://other.test/", delay="2h", method="PUT")
    newest, middle, oldest = emu.messages.all()
    assert [newest.message_id, middle.message_id, oldest.message_id] == [waiting, retried, failed]
    assert (newest.state, newest.attempts, newest.method) == ("PENDING", 0, "PUT")
    assert newest.next_ms == emulators.EPOCH_MS + 2 * HOUR_MS
    assert (middle.state, middle.attempts, middle.max_attempts, middle.last_status) == ("RETRYING", 1, 3, 503)
    assert middle.next_ms == emulators.EPOCH_MS + HOUR_MS
    assert (oldest.state, oldest.labels, oldest.ended_ms) == ("FAILED", ("orders",), emulators.EPOCH_MS)
    [letter] = emu.dead_letters.all()
    assert oldest.dead_letter_id == letter.dead_letter_id
    assert emu.messages.all(state="live") == [newest, middle]
    assert emu.messages.all(state="failed,retrying") == [middle, oldest]
    assert emu.messages.all(url="https://other.test/*") == [newest]
    assert emu.messages.all(label="orders") == [oldest]
    with pytest.raises(Refused) as refused:
        emu.messages.all(state="lost")
    assert (refused.value.status, refused.value.field) == (400, "state")


def test_messages_are_listed_by_queue_and_schedule(emu: Emulator) -> None:
    emu.queues.upsert("mail", paused=True)
    queued = emu.publish(URL, queue="mail")
    made = emu.schedules.create(URL, "0 * * * *")
    emu.clock.advance("1h")
    assert [each.message_id for each in emu.messages.all(queue="mail")] == [queued]
    [fired] = emu.messages.all(schedule_id=made.schedule_id)
    assert (fired.state, fired.schedule_id, fired.queue) == ("DELIVERED", made.schedule_id, None)


def test_all_messages_are_listed_however_many(emu: Emulator) -> None:
    emu.call("POST", "/v2/batch", json=[{"destination": URL}] * 1_100)
    emu.clock.advance(0)
    assert len({each.message_id for each in emu.messages.all()}) == 1_100


def test_a_message_is_shown_as_the_service_does(emu: Emulator) -> None:
    message_id = emu.publish(URL, json={"user": 7}, delay="1h", headers={"Svc-Forward-X-Key": "1"}, retries=2)
    message = emu.messages.get(message_id)
    assert (message.message_id, message.url, message.json(), message.headers["x-key"]) == (
        message_id,
        URL,
        {"user": 7},
        "1",
    )
    assert (message.created_ms, message.not_before_ms) == (emulators.EPOCH_MS, emulators.EPOCH_MS + HOUR_MS)
    assert (message.max_retries, message.queue, message.flow_control) == (2, None, None)
    emu.messages.cancel(message_id)
    with pytest.raises(Refused) as refused:
        emu.messages.cancel(message_id)
    assert refused.value.status == 404


def test_a_body_that_is_no_text_is_shown_as_it_is(emu: Emulator) -> None:
    assert emu.messages.get(emu.publish(URL, b"\xff\x00")).body == b"\xff\x00"


def test_messages_are_cancelled_by_what_they_have_in_common(emu: Emulator) -> None:
    emu.url_groups.upsert("news", [URL])
    for destination in ("news", URL):
        emu.publish(destination, delay="1h", flow_control={"key": "a"})
    emu.publish("https://other.test/", delay="1h")
    assert emu.messages.cancel_all(url_group="news") == 1
    assert emu.messages.cancel_all(url=URL, flow_control_key="a", since="2026-01-01") == 1
    assert emu.messages.cancel_all() == 1
    assert {each.state for each in emu.messages.all()} == {"CANCELED"}
