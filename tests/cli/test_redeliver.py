"""`redeliver`, and `clock advance --until`."""

from __future__ import annotations

from tests.cli.shell import URL, invoke, printed, read, service
from tests.harness import emulators


def test_an_advance_until_a_condition_takes_words_and_ends_of_ids(server: emulators.Server) -> None:
    sent = service(server, "POST", f"publish/{URL}", Svc_Delay="2h")["messageId"]
    until = ("clock", "advance", "--until")
    assert read(server, *until, "message", sent[-8:])["reached"] is True
    assert read(server, *until, f"message {sent}")["reached"] is True
    missed = invoke(server, *until, "deliveries", "9", "--horizon", "1h")
    assert (missed.exit_code, "not reached: " in missed.stdout) == (1, True)
    assert missed.stderr.startswith("svc-emulator: the condition was not reached")
    for wrong in (("soon",), ("idle", "1d"), ("message",)):
        assert invoke(server, *until, *wrong).exit_code == 2
    assert invoke(server, "clock", "advance", "1d", "--horizon", "1d").exit_code == 2


def test_a_message_or_an_attempt_is_sent_again(server: emulators.Server) -> None:
    sent = service(server, "POST", f"publish/{URL}/again")["messageId"]
    first = read(server, "redeliver", sent[-8:])
    again = read(server, "redeliver", str(first["delivery"]["seq"]))
    assert again["redelivery"] == first["redelivery"] + 1
    assert f"redelivery {again['redelivery'] + 1} of {sent}" in printed(server, "redeliver", f"{URL}/again")
    assert invoke(server, "redeliver", "999999").exit_code == 1
    waiting = service(server, "POST", f"publish/{URL}", Svc_Delay="2h")["messageId"]
    assert "no attempt of" in invoke(server, "redeliver", waiting).stderr
