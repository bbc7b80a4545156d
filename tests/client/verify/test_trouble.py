"""What clients asked for in vain: refused calls, cancelled messages, deduplicated publishes, mismatches."""

from __future__ import annotations

from collections.abc import Callable

import httpx
import pytest

from emulator import Emulator, RefusedCall

URL = "https://app.test/hook"
DEDUPLICATED = {"Svc-Deduplication-Id": "once"}


def refuse(emulator: Emulator, delay: str = "5x") -> None:
    """A publish that is refused, as the code under test makes it."""
    headers = {"Authorization": f"Bearer {emulator.token}", "Svc-Delay": delay}
    assert httpx.post(f"{emulator.url}/v2/publish/{URL}", headers=headers, trust_env=False).status_code == 400


def test_refused_calls_are_records(emu: Emulator) -> None:
    assert emu.refused() == []
    refuse(emu)
    [call] = emu.refused()
    assert isinstance(call, RefusedCall)
    assert (call.status, call.field, call.method, call.path) == (400, "Svc-Delay", "POST", f"/v2/publish/{URL}")


def test_a_failed_verify_tells_what_was_asked_for_in_vain(emu: Emulator) -> None:
    refuse(emu)
    message_id = emu.publish("https://app.test/a", headers={"Svc-Delay": "1h", **DEDUPLICATED})
    emu.publish("https://app.test/a", headers=DEDUPLICATED)
    emu.messages.cancel(message_id)

    with pytest.raises(AssertionError) as failed:
        emu.verify(URL)

    text = " ".join(str(failed.value).split())
    assert "1 publish was refused: Svc-Delay: expected a duration such as" in text
    assert "1 message was cancelled." in text
    assert "1 publish was deduplicated, and made no message." in text
    assert f"Refused: 2026-01-01 00:00:00.000 POST /v2/publish/{URL} -> 400 Svc-Delay: expected" in text
    assert f"Cancelled: msg_..{message_id[-4:]} to https://app.test/a" in text
    assert f"to https://app.test/a: msg_..{message_id[-4:]} stands for it" in text


def test_several_refusals_are_counted_and_the_last_one_shown(emu: Emulator) -> None:
    refuse(emu, "1y")
    refuse(emu, "2y")
    httpx.get(f"{emu.url}/v2/nowhere", headers={"Authorization": f"Bearer {emu.token}"}, trust_env=False)

    with pytest.raises(AssertionError) as failed:
        emu.wait_for(URL, timeout=0.05)

    text = str(failed.value)
    assert "2 publishes were refused, the last one: Svc-Delay: expected" in text
    assert "got '2y'" in text.partition("\n\n")[0]
    assert "1 other call was refused: GET /v2/nowhere: no operation has the path /v2/nowhere" in text


def test_a_timeline_shows_what_an_application_answered(emu: Emulator) -> None:
    emu.destinations.respond(URL, status=503, body="busy\x1b[2J")
    emu.publish(URL, headers={"Svc-Retries": "0"})
    assert "busy\\x1b[2J\n" in emu.timeline()


def dealy(emulator: Emulator) -> None:
    """A publish with a misspelt option."""
    emulator.publish(URL, headers={"Svc-Dealy": "1s"})


def fails_strictly(work: Callable[[Emulator], None]) -> str:
    """The text with which the block of a strict emulator ends."""
    with pytest.raises(AssertionError) as failed, Emulator(strict=True) as emulator:
        work(emulator)
    return str(failed.value)


def test_a_strict_emulator_fails_its_block_with_the_list() -> None:
    """D-337."""

    def work(emulator: Emulator) -> None:
        dealy(emulator)
        dealy(emulator)
        with emulator.new_world() as world:
            world.publish(URL)

    assert fails_strictly(work) == (
        "The contract does not know what was sent (1 mismatch):\n"
        "  POST /v2/publish/{destination}: header Svc-Dealy: unknown, did you mean Svc-Delay? (2 times)"
    )


def test_a_world_of_a_strict_emulator_fails_by_itself() -> None:
    """D-337."""

    def work(emulator: Emulator) -> None:
        with emulator.new_world() as world:
            dealy(world)

    assert "1 mismatch" in fails_strictly(work)


def test_another_exception_is_not_hidden() -> None:
    """D-337."""

    def work(emulator: Emulator) -> None:
        dealy(emulator)
        raise AssertionError("the test's own")

    assert fails_strictly(work) == "the test's own"
