"""The timeline: what happened in a world and what is to come, as a table to read."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from emulator import Emulator, RefusedCall
from emulator.client.records import Delivery
from emulator.client.verify.timeline import WorldSnapshot, short_ids, shortened, timeline, worth_explaining
from emulator.core.model.messages import Via
from tests.client.deliveries import clock, delivery, due, lines, message_id, upcoming


def world(*deliveries: Delivery, **around: Any) -> WorldSnapshot:
    return WorldSnapshot(
        **{"deliveries": deliveries, "clock": clock(), "upcoming": upcoming(), "explanations": {}, **around}
    )


def test_nothing_is_a_line() -> None:
    assert timeline(world(clock=clock(90))) == "Nothing delivered; the clock is at 2026-01-01T00:01:30.000Z, frozen"


def test_control_characters_of_a_delivery_are_shown_and_not_carried_out() -> None:
    """D-277."""
    text = timeline(world(delivery("a", url="https://app.test/\x1b[2J", status=None, error="bad\x1b[8m")))
    assert "\x1b" not in text
    assert "\\x1b[2J" in text


def test_the_whole_of_a_small_world() -> None:
    deliveries = [
        delivery("welcome", url="https://app.test/welcome", via=Via.MOUNT),
        delivery("failing", after_s=0, status=503, url="https://app.test/orders"),
        delivery("failing", after_s=12, attempt=2, status=None, url="https://app.test/orders"),
        delivery("invoice", created_s=20, method="PUT", url="https://api.example.com/invoices/7", via=Via.CAPTURE),
        delivery("ended", created_s=30, status=None, url="https://app.test/x", error="timeout"),
    ]
    coming = upcoming(
        60,
        items=[
            due(
                160,
                "retry",
                "retry 2 of 5: default backoff min(86400, e^(2.5 * 2)) s -> 148s",
                message_id=message_id("failing"),
                url="https://app.test/orders",
            ),
            due(
                3600,
                "schedule",
                "the schedule fires at 2026-01-01T02:00:00+01:00 in Europe/Berlin (0 * * * *), "
                "to https://app.test/report",
                destination="https://app.test/report",
            ),
            due(86_400, "message_expiry", "a message is found by its id for a day"),
        ],
        waiting=[
            {
                "kind": "queue",
                "why": "queue billing is paused; it is next in line",
                "message_id": message_id("queued"),
                "url": "https://app.test/billing",
            }
        ],
    )

    explanations = {message_id("ended"): "Failed at 2026-01-01T00:00:30.000Z: attempt 1 timeout; it has no retries."}
    text = timeline(world(*deliveries, clock=clock(60, rate=60), upcoming=coming, explanations=explanations))

    assert lines(text) == lines("""
5 attempts of 4 messages; the clock is at 2026-01-01T00:01:00.000Z, at 60 times real time
  virtual time (UTC)   after  message     try  destination                           by       answer
  2026-01-01 00:00:00  +0s    msg_..come  1    POST https://app.test/welcome         mount    200
  2026-01-01 00:00:00  +0s    msg_..ling  1    POST https://app.test/orders          rule     503
  2026-01-01 00:00:12  +12s   msg_..ling  2    POST https://app.test/orders          rule     none
                                               connection refused
  2026-01-01 00:00:20  +0s    msg_..oice  1    PUT https://api.e...e.com/invoices/7  capture  200
  2026-01-01 00:00:30  +0s    msg_..nded  1    POST https://app.test/x               rule     none
                                               timeout

Still to come:
  2026-01-01 00:02:40  in 1m40s  msg_..ling  to https://app.test/orders: retry 2 of 5: default
                                             backoff min(86400, e^(2.5 * 2)) s -> 148s
  2026-01-01 01:00:00  in 59m                the schedule fires at 2026-01-01T02:00:00+01:00 in
                                             Europe/Berlin (0 * * * *), to https://app.test/report

Waiting:
  msg_..eued  to https://app.test/billing: queue billing is paused; it is next in line

Why:
  msg_..nded  Failed at 2026-01-01T00:00:30.000Z: attempt 1 timeout; it has no retries.
""")


def test_marks_and_what_is_near_them() -> None:
    deliveries = [delivery(f"{index:04}", created_s=index) for index in range(100)]

    text = timeline(world(*deliveries), marked={message_id("0050")}, limit=3)

    assert lines(text) == lines("""
100 attempts of 100 messages; the clock is at 2026-01-01T00:00:00.000Z, frozen
  virtual time (UTC)   after  message     try  destination                 by    answer
  ... 49 more
  2026-01-01 00:00:49  +0s    msg_..0049  1    POST https://app.test/hook  rule  200
> 2026-01-01 00:00:50  +0s    msg_..0050  1    POST https://app.test/hook  rule  200
  2026-01-01 00:00:51  +0s    msg_..0051  1    POST https://app.test/hook  rule  200
  ... 48 more
""")


@pytest.mark.parametrize(
    ("marked", "shown"),
    [((), ["1", "... 46 more", "48", "49", "50"]), ([message_id("a")], ["1", "2", "... 46 more", "49", "50"])],
    ids=["the first and most of the last", "of marked ones the first and the last"],
)
def test_of_many_attempts_some_are_shown(marked: list[str], shown: list[str]) -> None:
    deliveries = [delivery(after_s=index, attempt=index + 1) for index in range(50)]

    rows = lines(timeline(world(*deliveries), marked=marked, limit=4))[2:]

    assert [line.lstrip("> ").split()[4] if "msg" in line else line.strip() for line in rows] == shown


def test_attempts_stand_in_the_order_in_which_they_began() -> None:
    text = timeline(world(delivery("late", after_s=2), delivery("soon", after_s=1)))

    assert [line.split()[3] for line in lines(text)[2:]] == ["msg_..soon", "msg_..late"]


def test_milliseconds_are_shown_where_they_matter() -> None:
    assert "  2026-01-01 00:00:00.250  +250ms  msg_..---a" in timeline(world(delivery(after_s=0.25)))
    assert "  2026-01-01 00:00:01  +1s  " in timeline(world(delivery(after_s=1)))


@pytest.mark.parametrize("url", ["https://app.test/" + "x" * 200, "https://" + "sub." * 40 + "test/"])
def test_no_line_is_longer_than_100_columns(url: str) -> None:
    text = timeline(
        world(
            delivery("a", url=url, after_s=100_000_000.001, created_s=0.001, status=None, error="e" * 90 + " why"),
            delivery("b", url="https://b.test/"),
            upcoming=upcoming(
                0, [due(1, "delivery", "the first attempt " * 9, message_id=message_id("a"), url=url)] * 12
            ),
            explanations={message_id("a"): "Failed " * 60, "msg_b": url},
        )
    )

    assert max(map(len, lines(text))) == 100
    assert "e" * 10 in text
    assert lines(text)[-1].strip() != ""
    assert "  ... 2 more" in text


def test_ids_are_shortened_to_ends_that_tell_them_apart() -> None:
    assert short_ids(["msg_7YoJxAbcdefgh", "msg_7YoJxXbcdefgh", "msg_1"]) == {
        "msg_7YoJxAbcdefgh": "msg_..Abcdefgh",
        "msg_7YoJxXbcdefgh": "msg_..Xbcdefgh",
        "msg_1": "msg_1",
    }
    assert short_ids([]) == {}


def test_a_text_is_shortened_in_its_middle() -> None:
    assert shortened("https://app.test/hook", 21) == "https://app.test/hook"
    assert shortened("https://app.test/hook", 12) == "https...hook"


def test_messages_that_failed_and_do_not_go_on_are_worth_explaining() -> None:
    deliveries = [
        delivery("delivered", status=500),
        delivery("delivered", after_s=1, attempt=2),
        delivery("retrying", status=500),
        delivery("waiting", status=500),
        *(delivery(f"failed {index}", created_s=index, status=None) for index in range(7)),
    ]
    coming = upcoming(
        0,
        [
            due(5, "retry", "", message_id=message_id("retrying")),
            due(5, "message_expiry", "", message_id=message_id("failed 6")),
        ],
        [{"kind": "queue", "message_id": message_id("waiting")}],
    )

    assert worth_explaining(deliveries, coming) == [message_id(f"failed {index}") for index in range(2, 7)]


URL = "https://app.test/hook"
DEDUPLICATED = {"Svc-Deduplication-Id": "once"}


def refuse(emulator: Emulator, delay: str) -> None:
    """A publish that is refused, as the code under test makes it."""
    headers = {"Authorization": f"Bearer {emulator.token}", "Svc-Delay": delay}
    answer = httpx.post(f"{emulator.url}/v2/publish/{URL}", headers=headers, trust_env=False, verify=False)
    assert answer.status_code == 400


def test_a_failed_verify_tells_what_was_asked_for_in_vain(emu: Emulator) -> None:
    assert emu.refused() == []
    refuse(emu, "5x")
    [call] = emu.refused()
    assert isinstance(call, RefusedCall)
    assert (call.status, call.field, call.method, call.path) == (400, "Svc-Delay", "POST", f"/v2/publish/{URL}")
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
    httpx.get(f"{emu.url}/v2/nowhere", headers={"Authorization": f"Bearer {emu.token}"}, trust_env=False, verify=False)

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


def strictly(*, world_of_its_own: bool, then: Exception | None = None) -> None:
    """A misspelt option, twice, in a block of a strict emulator or of a world of it."""
    with Emulator(strict=True) as emulator, emulator.new_world() as other:
        for _ in range(2):
            (other if world_of_its_own else emulator).publish(URL, headers={"Svc-Dealy": "1s"})
        if then is not None:
            raise then


@pytest.mark.parametrize("world_of_its_own", [False, True])
def test_a_strict_emulator_fails_its_block_with_the_list(world_of_its_own: bool) -> None:
    """D-337."""
    with pytest.raises(AssertionError) as failed:
        strictly(world_of_its_own=world_of_its_own)
    assert str(failed.value) == (
        "The contract does not know what was sent (1 mismatch):\n"
        "  POST /v2/publish/{destination}: header Svc-Dealy: unknown, did you mean Svc-Delay? (2 times)"
    )
    # Another exception is not hidden.
    with pytest.raises(LookupError, match="the test's own"):
        strictly(world_of_its_own=world_of_its_own, then=LookupError("the test's own"))
