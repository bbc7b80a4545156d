"""Schedules from Python."""

from __future__ import annotations

from typing import Any

import pytest

from emulator import Emulator, Refused
from tests.harness import emulators

URL = "https://app.test/report"
HOUR_MS = 3_600_000


def test_a_schedule_is_created_as_it_is_described(emu: Emulator) -> None:
    made = emu.schedules.create(
        URL,
        "CRON_TZ=Europe/Berlin 0 9 * * *",
        json={"user": 7},
        schedule_id="daily",
        retries=2,
        retry_delay="1m",
        delay=60,
        timeout="30s",
        label="reports",
        queue="mail",
        callback="https://cb.test/",
        headers={"Svc-Forward-X-Key": "1"},
    )
    assert made == emu.schedules.get("daily")
    assert emu.schedules.all() == [made]
    assert (made.schedule_id, made.cron, made.destination) == ("daily", "CRON_TZ=Europe/Berlin 0 9 * * *", URL)
    assert (made.json(), made.headers["x-key"], made.method) == ({"user": 7}, "1", "POST")
    assert (made.retries, made.retry_delay, made.delay_ms, made.timeout_ms) == (2, "60000", 60_000, 30_000)
    assert (made.labels, made.queue, made.callback) == (("reports",), "mail", "https://cb.test/")
    assert (made.paused, made.created_ms, made.last_ms, made.error) == (False, emulators.EPOCH_MS, None, None)
    assert made.next_ms == emulators.EPOCH_MS + 8 * HOUR_MS


def test_a_schedule_that_fired_tells_how_its_messages_fare(emu: Emulator) -> None:
    made = emu.schedules.create(URL, "0 * * * *", "hello", flow_control={"key": "a", "rate": 5, "period": 10})
    emu.clock.advance("1h")
    [delivery] = emu.deliveries()
    fired = emu.schedules.get(made.schedule_id)
    assert fired.last_ms == emulators.EPOCH_MS + HOUR_MS
    assert fired.last_states == {delivery.message_id: "SUCCESS"}
    assert fired.flow_control == {"key": "a", "rate": 5, "period": 10}


def test_the_same_id_replaces_the_schedule(emu: Emulator) -> None:
    emu.schedules.create(URL, "0 9 * * *", "hello", schedule_id="daily")
    replaced = emu.schedules.create(URL, "0 10 * * *", schedule_id="daily")
    assert emu.schedules.all() == [replaced]
    assert (replaced.cron, replaced.body) == ("0 10 * * *", b"")


def test_a_paused_schedule_fires_no_more_until_it_is_resumed(emu: Emulator) -> None:
    made = emu.schedules.create(URL, "0 * * * *")
    emu.schedules.pause(made.schedule_id)
    assert emu.schedules.get(made.schedule_id).paused
    assert emu.clock.advance("3h").schedules_fired == 0
    assert emu.schedules.explain(made.schedule_id)["schedule_id"] == made.schedule_id
    emu.schedules.resume(made.schedule_id)
    assert emu.clock.advance("3h").schedules_fired == 3
    emu.schedules.delete(made.schedule_id)
    assert emu.schedules.all() == []


@pytest.mark.parametrize(
    ("call", "status", "field"),
    [
        pytest.param(lambda emu: emu.schedules.create(URL, "every day"), 400, "Svc-Cron", id="cron"),
        pytest.param(lambda emu: emu.schedules.create(URL, "0 9 * * *", retries=99), 412, "Svc-Retries", id="limit"),
        pytest.param(
            lambda emu: emu.schedules.create(URL, "0 9 * * *", schedule_id="no good"), 400, "Svc-Schedule-Id", id="id"
        ),
        pytest.param(lambda emu: emu.schedules.get("no good"), 400, "scheduleId", id="ill-formed"),
        pytest.param(lambda emu: emu.schedules.get("none"), 404, None, id="get"),
        pytest.param(lambda emu: emu.schedules.pause("none"), 404, None, id="pause"),
        pytest.param(lambda emu: emu.schedules.delete("none"), 404, None, id="delete"),
    ],
)
def test_a_refusal_has_its_status_and_field(call: Any, status: int, field: str | None, emu: Emulator) -> None:
    with pytest.raises(Refused) as refused:
        call(emu)
    assert (refused.value.status, refused.value.field) == (status, field)


def test_what_no_schedule_takes_is_an_error_of_the_keyword(emu: Emulator) -> None:
    create: Any = emu.schedules.create
    with pytest.raises(TypeError, match="no option is named not_before"):
        create(URL, "0 9 * * *", not_before=1)
    with pytest.raises(ValueError, match="expected the id or the name of one thing"):
        emu.schedules.get("")
