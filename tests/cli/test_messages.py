"""`messages`, `show` and `cancel` against a real server."""

from __future__ import annotations

import pytest

from tests.cli.shell import DOWN, URL, invoke, printed, publish, read, refused, rule
from tests.harness import emulators

pytestmark = pytest.mark.slow


def test_messages_are_listed_with_the_newest_last(server: emulators.Server) -> None:
    assert printed(server, "messages") == "no messages\n"
    rule(server, DOWN, respond={"status": 503})
    failing = publish(server, DOWN, Svc_Retries="2", Svc_Retry_Delay="10000")
    later = publish(server, URL, Svc_Delay="1h", Svc_Label="red")

    assert printed(server, "messages").splitlines() == [
        "ID ENDS   CREATED                   STATE     TRIES  DESTINATION                         LAST",
        f"{failing[-8:]}  2026-01-01T00:00:00.000Z  RETRYING  1/3    POST {DOWN}  "
        "503; next at 2026-01-01T00:00:10.000Z",
        f"{later[-8:]}  2026-01-01T00:00:00.000Z  PENDING   0/6    POST {URL}   next at 2026-01-01T01:00:00.000Z",
    ]
    assert [row["message_id"] for row in read(server, "messages", "--state", "retrying")["messages"]] == [failing]
    assert [row["message_id"] for row in read(server, "messages", "--label", "red")["messages"]] == [later]
    assert [row["message_id"] for row in read(server, "messages", "--to", "https://down*")["messages"]] == [failing]
    assert "there are older ones" in printed(server, "messages", "--limit", "1")


def test_show_has_what_was_sent_and_what_came_back(server: emulators.Server) -> None:
    rule(server, DOWN, respond={"status": 503, "headers": {"Retry-After": "10"}, "body": "busy"}, times=1)
    message_id = publish(server, DOWN, b'{"order": 7}', Svc_Label="red")
    emulators.control(server, "POST", "/clock/advance", {"by": "10s"})

    lines = printed(server, "show", message_id[-4:]).splitlines()

    assert lines[:3] == [
        message_id,
        f"POST {DOWN}",
        "DELIVERED at 2026-01-01T00:00:10.000Z, 2 of 6 attempts",
    ]
    first, second = (
        lines.index("attempt 1 at 2026-01-01T00:00:00.000Z (rule)"),
        lines.index("attempt 2 at 2026-01-01T00:00:10.000Z (capture)"),
    )
    assert "labels: red" in lines[:first]
    assert f"> Svc-Message-Id: {message_id}" in lines[first:second]
    assert '> {"order": 7}' in lines[first:second]
    answer = lines.index("< 503")
    assert lines[answer : answer + 4] == ["< 503", "< Retry-After: 10", "<", "< busy"]
    assert lines[-2:] == ["< 200", "<"]
    found = read(server, "show", "red")
    assert (found["message"]["message_id"], len(found["deliveries"])) == (message_id, 2)


def test_bodies_that_are_no_text_or_very_long_are_shown_so_that_they_can_be_read(server: emulators.Server) -> None:
    publish(server, URL, bytes(range(250, 256)) * 100, Svc_Label="binary")
    publish(server, URL, b"x" * 5000, Svc_Label="long")
    publish(server, URL, "a\n\x1b[31mred\u202eevil".encode(), Svc_Label="hostile")

    binary, long = printed(server, "show", "binary"), printed(server, "show", "long")
    assert "> 00000000  fa fb fc fd fe ff fa fb fc fd fe ff fa fb fc fd  ................" in binary
    assert "> ... 600 bytes in all: --full shows them" in binary
    assert "> 00000250  " in printed(server, "show", "binary", "--full")
    assert ("> " + "x" * 4000 + "\n> ... 5000 characters in all: --full shows them\n") in long
    assert ("> " + "x" * 5000 + "\n") in printed(server, "show", "long", "--full")
    hostile = invoke(server, "show", "hostile", color=True).stdout
    assert "> a\n> \\x1b[31mred\\u202eevil\n" in hostile


def test_a_message_that_waits_is_cancelled_and_one_that_has_ended_is_not(server: emulators.Server) -> None:
    waiting = publish(server, URL, Svc_Delay="1h")
    assert printed(server, "cancel", waiting[-8:]) == f"{waiting} to {URL}: CANCELED\n"
    assert f"message {waiting} has ended: CANCELED at 2026-01-01" in refused(server, "cancel", waiting)
