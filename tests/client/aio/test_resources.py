"""The schedules, queues, URL groups and snapshots of an emulator, and what its rules do by chance."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path
from random import Random
from typing import Any

import pytest

from emulator import Emulator, EmulatorError, Endpoint, Refused
from tests.harness import emulators
from tests.harness.processes import serving

REPORT = "https://app.test/report"
HOUR_MS = 3_600_000


def test_a_schedule_is_created_as_it_is_described_and_replaced_by_its_id(emu: Emulator) -> None:
    made = emu.schedules.create(
        REPORT,
        "CRON_TZ=Europe/Berlin 0 9 * * *",
        json={"user": 7},
        schedule_id="daily",
        retries=2,
        retry_delay="1m",
        delay="1m",
        timeout="30s",
        label="reports",
        queue="mail",
        callback="https://cb.test/",
        headers={"Svc-Forward-X-Key": "1"},
    )
    assert made == emu.schedules.get("daily")
    assert emu.schedules.all() == [made]
    assert (made.schedule_id, made.cron, made.destination) == ("daily", "CRON_TZ=Europe/Berlin 0 9 * * *", REPORT)
    assert (made.json(), made.headers["x-key"], made.method) == ({"user": 7}, "1", "POST")
    assert (made.retries, made.retry_delay, made.delay_ms, made.timeout_ms) == (2, "60000", 60_000, 30_000)
    assert (made.labels, made.queue, made.callback) == (("reports",), "mail", "https://cb.test/")
    assert (made.paused, made.created_ms, made.last_ms, made.error) == (False, emulators.EPOCH_MS, None, None)
    assert made.next_ms == emulators.EPOCH_MS + 8 * HOUR_MS
    replaced = emu.schedules.create(REPORT, "0 10 * * *", schedule_id="daily")
    assert emu.schedules.all() == [replaced]
    assert (replaced.cron, replaced.body) == ("0 10 * * *", b"")


def test_a_schedule_that_fired_tells_how_its_messages_fare(emu: Emulator) -> None:
    made = emu.schedules.create(REPORT, "0 * * * *", "hello", flow_control={"key": "a", "rate": 5, "period": 10})
    emu.clock.advance("1h")
    [delivery] = emu.deliveries()
    fired = emu.schedules.get(made.schedule_id)
    assert fired.last_ms == emulators.EPOCH_MS + HOUR_MS
    assert fired.last_states == {delivery.message_id: "SUCCESS"}
    assert fired.flow_control == {"key": "a", "rate": 5, "period": 10}


def test_a_paused_schedule_fires_no_more_until_it_is_resumed(emu: Emulator) -> None:
    made = emu.schedules.create(REPORT, "0 * * * *")
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
        (lambda emu: emu.schedules.create(REPORT, "every day"), 400, "Svc-Cron"),
        (lambda emu: emu.schedules.create(REPORT, "0 9 * * *", retries=99), 412, "Svc-Retries"),
        (lambda emu: emu.schedules.create(REPORT, "0 9 * * *", schedule_id="no good"), 400, "Svc-Schedule-Id"),
        (lambda emu: emu.schedules.get("no good"), 400, "scheduleId"),
        (lambda emu: emu.queues.upsert("mail", parallelism=0), 400, "parallelism"),
        (lambda emu: emu.queues.upsert("no good"), 400, "queueName"),
        (lambda emu: emu.url_groups.upsert("news", ["app.test"]), 400, "endpoints[0].url"),
        (lambda emu: emu.new_world(id="no good").start(), 400, "id"),
    ],
)
def test_a_refusal_has_its_status_and_field(call: Any, status: int, field: str, emu: Emulator) -> None:
    with pytest.raises(Refused) as refused:
        call(emu)
    assert (refused.value.status, refused.value.field) == (status, field)


MAIL_URL = "https://app.test/mail"


def test_a_queue_is_created_changed_paused_and_deleted(emu: Emulator) -> None:
    made = emu.queues.upsert("mail")
    assert (made.name, made.parallelism, made.paused, made.lag) == ("mail", 1, False, 0)
    assert made.created_ms == emulators.EPOCH_MS
    emu.clock.advance("1h")
    changed = emu.queues.upsert("mail", parallelism=3)
    assert (changed.parallelism, changed.paused, changed.updated_ms) == (3, False, emulators.EPOCH_MS + HOUR_MS)
    assert emu.queues.all() == [changed]
    emu.queues.pause("mail")
    emu.publish(MAIL_URL, queue="mail")
    paused = emu.queues.get("mail")
    assert (paused.paused, paused.lag, emu.deliveries()) == (True, 1, [])
    emu.queues.resume("mail")
    emu.clock.advance(0)
    assert (emu.queues.get("mail").lag, len(emu.deliveries())) == (0, 1)
    emu.queues.delete("mail")
    emu.queues.delete("mail")
    assert emu.queues.all() == []


A, B = "https://a.test/hook", "https://b.test/hook"


def test_a_group_grows_has_default_headers_and_ends_with_its_last_endpoint(emu: Emulator) -> None:
    made = emu.url_groups.upsert("news", [A, Endpoint(B, "second")])
    assert (made.name, made.endpoints) == ("news", (Endpoint(A), Endpoint(B, "second")))
    assert (made.created_ms, made.headers.multi_items()) == (emulators.EPOCH_MS, [])
    assert emu.url_groups.all() == [made]
    emu.url_groups.remove("news", endpoint="second")
    assert emu.url_groups.get("news").endpoints == (Endpoint(A),)
    assert emu.url_groups.set_headers("news", {"Svc-Forward-X-Key": "1"}).headers["svc-forward-x-key"] == "1"
    emu.publish("news", "hello")
    emu.verify(A, headers={"X-Key": "1"})
    emu.url_groups.remove("news", url=A)
    assert emu.url_groups.all() == []
    emu.url_groups.upsert("news", [A])
    emu.url_groups.delete("news")
    emu.url_groups.delete("news")
    assert emu.url_groups.all() == []


# -- chaos from Python: what rules do to deliveries by chance, and where it shows ------------------


URL = "https://app.test/hook"


def test_a_duplicate_reaches_the_receiver(emu: Emulator) -> None:
    """D-421."""
    bodies: list[bytes] = []
    emu.mount("https://app.test", lambda request: bodies.append(request.body))
    emu.destinations.disturb("https://app.test/*", duplicate=True)
    emu.publish(URL, "once")
    assert bodies == [b"once", b"once"]
    first, second = emu.deliveries()
    assert (first.chaos, first.attempt, second.attempt, second.via.value) == (None, 1, 1, "mount")
    assert second.chaos is not None
    assert (second.chaos.id, second.chaos.did) == ("1.1", "duplicate of attempt 1")
    assert first.headers != second.headers  # Each is signed for itself.


def test_a_later_duplicate_is_due_work(emu: Emulator) -> None:
    emu.destinations.disturb("*", duplicate="1h")
    emu.publish(URL)
    (item,) = (each for each in emu.upcoming()["items"] if each["kind"] == "duplicate")
    assert (item["attempt"], item["chaos"]["id"]) == (1, "1.1")
    report = emu.clock.advance("1h")
    assert (report.deliveries, report.succeeded) == (1, 1)


def test_the_journal_the_trace_and_the_explanation_show_what_chance_did(emu: Emulator) -> None:
    """D-420."""
    emu.destinations.respond("*", 503, chance=1, times=1)
    emu.destinations.disturb("*", latency=("2s", "2s"), duplicate=True, times=2)
    message_id = emu.publish(URL, retries=1, retry_delay="1000")
    emu.clock.advance("1h")
    found = [None if each.chaos is None else each.chaos.did for each in emu.deliveries()]
    assert found == ["503 instead of a delivery", "answer held back for 2s", "duplicate of attempt 2"]
    assert "chaos: 503 instead of a delivery" in emu.timeline()
    assert "chaos: duplicate of attempt 2" in emu.timeline()
    lines = [json.loads(line) for line in emu.trace().splitlines()]
    assert [line["chaos"] for line in lines if "chaos" in line] == found
    texts = [reason["text"] for reason in emu.explain(message_id)["reasons"]]
    assert any(text.endswith("(chaos: 503 instead of a delivery)") for text in texts)
    assert "chaos: attempt 2 was made again and was answered 200, which changes nothing" in texts


def test_a_rule_that_answers_every_attempt_is_no_chaos(emu: Emulator) -> None:
    """D-420."""
    emu.destinations.respond("*", 503)
    emu.publish(URL, retries=0)
    assert [each.chaos for each in emu.deliveries()] == [None]


def test_a_duplicate_is_made_after_a_restart(tmp_path: Path) -> None:
    """D-421."""
    file = tmp_path / "x.db"
    with Emulator(db=file, epoch=emulators.EPOCH) as emulator:
        emulator.destinations.disturb("*", duplicate="1h")
        emulator.publish(URL)
    with Emulator(db=file, epoch=emulators.EPOCH) as emulator:
        emulator.clock.advance("1h")
        assert [each.chaos is not None for each in emulator.deliveries()] == [False, True]


def chaos_of(emulator: Emulator) -> list[str]:
    for number in range(20):
        emulator.publish(f"https://app.test/{number}", delay="1s")
    emulator.clock.advance("1d")
    return [f"{each.url} {each.attempt} {each.chaos}" for each in emulator.deliveries()]


def test_a_world_takes_over_the_chaos_of_the_server() -> None:
    """D-423."""
    with Emulator(chaos=0.3, seed=5, epoch=emulators.EPOCH) as emulator:
        happened = chaos_of(emulator)
        assert any("instead of a delivery" in each for each in happened)
        with emulator.new_world(seed=5, epoch=emulators.EPOCH) as same:
            assert chaos_of(same) == happened
        with emulator.new_world(seed=6, epoch=emulators.EPOCH) as other:
            assert chaos_of(other) != happened
        with emulator.new_world(epoch=emulators.EPOCH, chaos=0) as calm:
            assert calm.destinations.all() == []
        emulator.reset()
        assert chaos_of(emulator) == happened


def test_spared_attempts_meet_no_chaos() -> None:
    """D-420."""
    with (
        Emulator(epoch=emulators.EPOCH) as emulator,
        emulator.new_world(chaos={"level": 1, "except": ["1.1"]}, epoch=emulators.EPOCH) as world,
    ):
        world.publish(URL, retries=0)
        assert [each.chaos for each in world.deliveries()] == [None]


@pytest.mark.parametrize("level", [-0.1, 1.5, "much"])
def test_chaos_out_of_range_is_refused(emu: Emulator, level: float) -> None:
    """D-423."""
    with pytest.raises(EmulatorError, match="chaos: expected a number from 0"):
        Emulator(chaos=level).start()
    with pytest.raises(Refused) as refused:
        emu.new_world(chaos=level).start()
    assert (refused.value.status, refused.value.field) == (400, "chaos")


# -- snapshots from Python -------------------------------------------------------------------------


def test_a_restored_world_goes_on_as_the_original_did(emu: Emulator) -> None:
    emu.publish(URL, headers={"Svc-Delay": "1h"})
    saved = emu.snapshots.save("before")

    def go_on() -> str:
        emu.publish(URL)
        emu.clock.advance("1d")
        return emu.trace()

    original = go_on()
    emu.snapshots.restore("before")
    assert go_on() == original
    assert (saved.name, saved.now_ms, saved.pending) == ("before", emulators.EPOCH_MS, 1)
    assert [each.name for each in emu.snapshots.all()] == ["before"]
    emu.snapshots.delete("before")
    assert emu.snapshots.all() == []


def test_a_snapshot_travels_as_a_file(emu: Emulator, tmp_path: Path) -> None:
    emu.publish(URL, headers={"Svc-Delay": "1h"})
    emu.snapshots.save("one")
    emu.snapshots.export_to(tmp_path / "one.db", "one")
    with Emulator() as elsewhere:
        token = elsewhere.token
        assert elsewhere.snapshots.import_from(tmp_path / "one.db", "two").pending == 1
        elsewhere.snapshots.restore("two")
        # The snapshot is another world's; clients of this one keep its token (D-203).
        assert elsewhere.token == token
        elsewhere.publish(URL)
        assert elsewhere.clock.advance("1h").deliveries == 1
    with Emulator(db=tmp_path / "one.db") as opened:
        assert opened.clock.advance("1h").deliveries == 1


def test_export_that_is_refused_leaves_the_file_as_it_was(emu: Emulator, tmp_path: Path) -> None:
    file = tmp_path / "kept.db"
    file.write_bytes(b"before")
    with pytest.raises(Refused):
        emu.snapshots.export_to(file, "nothing")
    assert [path.name for path in tmp_path.iterdir()] == ["kept.db"]
    assert file.read_bytes() == b"before"


@pytest.mark.slow
def test_an_exported_snapshot_is_never_in_memory_as_a_whole(tmp_path: Path) -> None:
    size = 24 * 1024 * 1024
    # In a process of its own, so that what the server needs does not count.
    with serving(folder=tmp_path) as server, Emulator.connect(server.url) as emu:
        for _ in range(3):
            emu.publish(URL, Random(1).randbytes(size // 3), headers={"Svc-Delay": "1h"})
        emu.snapshots.save("large")
        tracemalloc.start()
        try:
            emu.snapshots.export_to(tmp_path / "large.db", "large")
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert (tmp_path / "large.db").stat().st_size > size
    # Some pieces are: their number depends on who is faster, the reader or the writer.
    assert peak < size * 3 // 4


def test_what_is_no_snapshot_is_refused_with_nothing_changed(emu: Emulator, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("not a database")
    with pytest.raises(Refused):
        emu.snapshots.import_from(tmp_path / "notes.txt", "bad")
    with pytest.raises(FileNotFoundError):
        emu.snapshots.import_from(tmp_path / "nothing.db", "bad")
    assert emu.snapshots.all() == []


def test_tokens_that_change_are_handed_out_changed(emu: Emulator) -> None:
    emu.change_account(token="another-token")
    assert emu.token == "another-token"
    emu.publish(URL)
    emu.reset()
    assert emu.token != "another-token"
    emu.publish(URL)
