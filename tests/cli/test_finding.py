"""What may be written for an id, and what is said if nothing or too much is meant."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.cli.shell import DOWN, URL, invoke, printed, publish, read, refused, rule, service
from tests.harness import emulators

pytestmark = pytest.mark.slow


def test_a_message_is_found_by_the_end_of_its_id_its_url_or_a_label(server: emulators.Server) -> None:
    """D-342."""
    message_id = publish(server, URL, Svc_Label="red")
    for text in (message_id, message_id[-4:], message_id[-20:], URL, "https://api.*", "red"):
        assert read(server, "show", text)["message"]["message_id"] == message_id
        assert read(server, "explain", text)["message_id"] == message_id
        assert len(read(server, "deliveries", "--message", text)["deliveries"]) == 1
        assert message_id in printed(server, "tail", "--no-follow", "--message", text)


def test_candidates_are_listed_if_several_are_meant(server: emulators.Server) -> None:
    """D-342."""
    ids = [publish(server, URL, Svc_Label="red") for _ in range(12)]
    lines = refused(server, "show", "red").splitlines()
    assert lines[0] == "svc-emulator: 'red' may be any of more than 10 messages:"
    assert lines[1] == f"svc-emulator: {ids[-1][-8:]} 2026-01-01T00:00:00.000Z DELIVERED {URL} [red]"
    assert (len(lines), lines[-1]) == (12, "svc-emulator: and more")


@pytest.mark.parametrize(
    "command", [("show",), ("explain",), ("cancel",), ("dead-letters", "retry"), ("schedules", "pause")], ids=" ".join
)
def test_nothing_found_is_said_in_one_line(server: emulators.Server, command: Sequence[str]) -> None:
    publish(server, URL)
    text = refused(server, *command, "zzzz")
    assert text.startswith("svc-emulator: no ")
    assert "has an id that ends in 'zzzz'" in text
    assert text.count("\n") == 1
    assert "needs 4 characters" in refused(server, *command, "zzz")


def test_an_old_id_is_said_to_be_dropped() -> None:
    with emulators.server(keep_history="8") as server:
        ids = [publish(server, URL) for _ in range(10)]
        assert "is not kept any more (--keep-history)" in refused(server, "show", ids[0])
        assert "is not kept any more (--keep-history)" in refused(server, "explain", ids[0])


def test_a_schedule_is_found_by_its_id_before_the_messages_that_have_it_as_a_label(server: emulators.Server) -> None:
    """D-342."""
    publish(server, URL, Svc_Label="daily")
    service(server, "POST", f"schedules/{DOWN}", Svc_Cron="0 0 * * *", Svc_Schedule_Id="daily", Svc_Label="night")
    for text in ("daily", "aily", "night", DOWN):
        if text == "daily":
            assert read(server, "explain", text)["schedule_id"] == "daily"
        assert read(server, "schedules", "pause", text)["schedule_id"] == "daily"


def test_schedules_of_the_same_id_are_told_apart_by_their_account(server: emulators.Server) -> None:
    """D-342."""
    accounts = emulators.control(server, "GET", "/accounts")["accounts"][:2]
    for account in accounts:
        authorization = {"Authorization": f"Bearer {account['token']}"}
        service(server, "POST", f"schedules/{URL}", Svc_Cron="0 0 * * *", Svc_Schedule_Id="same", **authorization)
    assert f"{accounts[1]['id']}/same to {URL}" in refused(server, "schedules", "pause", "same")
    paused = read(server, "schedules", "pause", f"{accounts[1]['id']}/same")
    assert (paused["account_id"], paused["paused"]) == (accounts[1]["id"], True)


def test_a_dead_letter_is_found_by_its_own_id_or_its_message(server: emulators.Server) -> None:
    """D-342."""
    rule(server, DOWN, respond={"status": 503})
    for number in range(12):
        message_id = publish(server, DOWN, Svc_Retries="0", Svc_Label=f"n{number}")
    letters = read(server, "dead-letters")["dead_letters"]
    whole = next(each["dead_letter_id"] for each in letters if each["dead_letter_id"].endswith("-1"))
    for text in (whole, message_id[-8:], "n2"):
        assert len(read(server, "dead-letters", "delete", text)["deleted"]) == 1
    assert "dead letters:" in invoke(server, "dead-letters", "retry", DOWN).stderr
