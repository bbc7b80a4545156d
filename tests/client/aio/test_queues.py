"""Queues from Python."""

from __future__ import annotations

import pytest

from emulator import Emulator, Refused
from tests.harness import emulators

URL = "https://app.test/mail"


def test_a_queue_is_created_changed_and_deleted(emu: Emulator) -> None:
    made = emu.queues.upsert("mail")
    assert (made.name, made.parallelism, made.paused, made.lag) == ("mail", 1, False, 0)
    assert made.created_ms == emulators.EPOCH_MS
    emu.clock.advance("1h")
    changed = emu.queues.upsert("mail", parallelism=3)
    assert (changed.parallelism, changed.paused) == (3, False)
    assert changed.updated_ms == emulators.EPOCH_MS + 3_600_000
    assert emu.queues.all() == [changed]
    emu.queues.delete("mail")
    emu.queues.delete("mail")
    assert emu.queues.all() == []


def test_a_paused_queue_keeps_its_messages_until_it_is_resumed(emu: Emulator) -> None:
    emu.queues.upsert("mail", paused=True)
    emu.publish(URL, queue="mail")
    assert (emu.queues.get("mail").lag, emu.deliveries()) == (1, [])
    emu.queues.resume("mail")
    emu.clock.advance(0)
    assert (emu.queues.get("mail").lag, len(emu.deliveries())) == (0, 1)
    emu.queues.pause("mail")
    assert emu.queues.get("mail").paused


def test_a_refusal_has_its_status_and_field(emu: Emulator) -> None:
    with pytest.raises(Refused) as refused:
        emu.queues.upsert("mail", parallelism=0)
    assert (refused.value.status, refused.value.field) == (400, "parallelism")
    with pytest.raises(Refused) as refused:
        emu.queues.upsert("no good")
    assert (refused.value.status, refused.value.field) == (400, "queueName")
    with pytest.raises(Refused) as refused:
        emu.queues.get("none")
    assert refused.value.status == 404
