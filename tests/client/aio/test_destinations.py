"""Chaos from Python: what rules do to deliveries by chance, and where it shows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from emulator import Emulator, EmulatorError, Refused
from tests.harness import emulators

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
