"""`dead-letters` against a real server."""

from __future__ import annotations

import pytest

from tests.cli.shell import DOWN, invoke, printed, publish, read, rule
from tests.harness import emulators

pytestmark = pytest.mark.slow


def test_dead_letters_are_listed_retried_and_deleted(server: emulators.Server) -> None:
    assert printed(server, "dead-letters") == printed(server, "dead-letters", "list") == "no dead letters\n"
    rule(server, DOWN, respond={"status": 503}, times=3)
    ids = [publish(server, DOWN, Svc_Retries="0") for _ in range(3)]
    letters = [each["dead_letter_id"] for each in read(server, "dead-letters")["dead_letters"]][::-1]

    heading, *lines = printed(server, "dead-letters").splitlines()
    assert heading.split() == ["ID", "FAILED", "MESSAGE", "ENDS", "DESTINATION", "LAST"]
    assert [line.split()[0] for line in lines] == letters
    assert lines[0].endswith(f"{ids[0][-8:]}      {DOWN}  was answered 503 by a destination rule")

    made = read(server, "dead-letters", "retry", ids[0][-8:])["retried"]
    assert [each["dead_letter_id"] for each in made] == letters[:1]
    assert read(server, "show", made[0]["message_id"])["message"]["state"] == "DELIVERED"
    assert printed(server, "dead-letters", "delete", letters[1]) == "1 dead letter deleted\n"
    assert len(read(server, "dead-letters", "retry", "--all")["retried"]) == 1
    assert printed(server, "dead-letters", "retry", "--all") == "no dead letters\n"


def test_all_retries_no_letter_that_it_has_made_itself(server: emulators.Server) -> None:
    rule(server, DOWN, respond={"status": 503})
    for _ in range(2):
        publish(server, DOWN, Svc_Retries="0")
    assert len(read(server, "dead-letters", "retry", "--all")["retried"]) == 2
    assert printed(server, "dead-letters", "delete", "--all") == "2 dead letters deleted\n"


def test_nothing_is_done_if_one_of_several_is_not_found(server: emulators.Server) -> None:
    rule(server, DOWN, respond={"status": 503})
    message_id = publish(server, DOWN, Svc_Retries="0")
    assert invoke(server, "dead-letters", "delete", message_id, "zzzz").exit_code == 1
    assert len(read(server, "dead-letters")["dead_letters"]) == 1


@pytest.mark.parametrize("arguments", [(), ("abcd", "--all")])
def test_ids_or_all_are_expected(server: emulators.Server, arguments: tuple[str, ...]) -> None:
    result = invoke(server, "dead-letters", "retry", *arguments)
    assert (result.exit_code, result.stderr) == (2, "svc-emulator: expected ids of dead letters, or --all\n")
