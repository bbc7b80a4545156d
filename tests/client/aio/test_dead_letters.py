"""Dead letters from Python."""

from __future__ import annotations

from typing import Any

import pytest

from emulator import Emulator, Refused
from tests.harness import emulators

URL = "https://app.test/hook"


def fail(emu: Emulator, count: int = 1, **options: Any) -> list[str]:
    """Publish so many messages that fail; their ids."""
    emu.destinations.respond(URL, 503, headers={"X-Why": "busy"}, body="busy")
    made = [emu.publish(URL, "hello", retries=0, **options) for _ in range(count)]
    emu.destinations.clear()
    return list(made)


def test_a_dead_letter_shows_the_message_and_its_last_response(emu: Emulator) -> None:
    [message_id] = fail(emu, label="orders")
    [letter] = emu.dead_letters.all()
    assert emu.dead_letters.get(letter.dead_letter_id) == letter
    assert (letter.message_id, letter.url, letter.text, letter.labels) == (message_id, URL, "hello", ("orders",))
    assert letter.created_ms == emulators.EPOCH_MS
    assert letter.response is not None
    assert (letter.response.status, letter.response.text, letter.response.headers["x-why"]) == (503, "busy", "busy")


def test_without_a_response_there_is_none(emu: Emulator) -> None:
    emu.destinations.fault(URL, "refused")
    emu.publish(URL, retries=0)
    [letter] = emu.dead_letters.all(status=0)
    assert letter.response is None


def test_one_is_retried_with_other_options(emu: Emulator) -> None:
    fail(emu)
    [letter] = emu.dead_letters.all()
    again = emu.dead_letters.retry(letter.dead_letter_id, delay="1h", headers={"Svc-Forward-X-Key": "1"})
    assert emu.dead_letters.all() == []
    emu.clock.advance("1h")
    emu.verify(URL, message_id=again, at="1h", body="hello", status=200)
    assert [each.url for each in again.messages] == [URL]


def test_all_that_fit_are_retried_once_however_many(emu: Emulator) -> None:
    """More than one page; those that fail again become new dead letters, which are left alone."""
    fail(emu, 103, label="orders")
    [other] = fail(emu, 1, label="other")
    emu.destinations.respond(URL, 503)
    made = emu.dead_letters.retry_all(label="orders")
    emu.clock.advance(0)
    assert len(set(made)) == 103
    assert {letter.message_id for letter in emu.dead_letters.all()} == {other, *made}


def test_all_that_fit_are_deleted(emu: Emulator) -> None:
    fail(emu, 101, label="orders")
    fail(emu, 2, label="other")
    assert emu.dead_letters.delete_all(label="orders") == 101
    [first, _] = emu.dead_letters.all()
    emu.dead_letters.delete(first.dead_letter_id)
    assert len(emu.dead_letters.all(since=emulators.EPOCH, until=emulators.EPOCH_MS)) == 1
    assert emu.dead_letters.all(since="2026-01-02") == []
    assert emu.dead_letters.delete_all() == 1


def test_a_refusal_has_its_status(emu: Emulator) -> None:
    for call in (emu.dead_letters.get, emu.dead_letters.retry, emu.dead_letters.delete):
        with pytest.raises(Refused) as refused:
            call("1-1")
        assert refused.value.status == 404


@pytest.mark.parametrize(
    ("filters", "text"),
    [
        ({"lable": "a"}, "no option is named lable, did you mean label?"),
        ({"status": "503"}, "status: expected a status, got '503'"),
        ({"label": 7}, "label: expected a text, got 7"),
        ({"label": ""}, "label: expected a text that is not empty"),
        ({"since": "yesterday"}, "since: expected an ISO 8601 time"),
    ],
)
def test_a_wrong_filter_is_named_and_deletes_nothing(filters: Any, text: str, emu: Emulator) -> None:
    fail(emu)
    with pytest.raises((TypeError, ValueError)) as refused:
        emu.dead_letters.delete_all(**filters)
    assert str(refused.value).startswith(text)
    assert len(emu.dead_letters.all()) == 1
