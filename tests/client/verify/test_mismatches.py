"""The whole texts of a failure: a message was not delivered as a test expects."""

from __future__ import annotations

from typing import Any

import pytest

from emulator.core.model.messages import Via
from tests.client.deliveries import NEXT, delivery, due, lines, message_id, signature, told

RETRY = due(
    22,
    "retry",
    "retry 2 of 3: 10000 * retried with retried = 2 is 20000 ms -> 20s",
    message_id=message_id("order"),
    url="https://app.test/hook",
)


def order(**changes: Any) -> Any:
    return delivery("order", **changes)


def test_a_message_that_differs_in_much() -> None:
    headers = {"X-Tenant": "blue", "Svc-Signature": signature(NEXT, body=b'{"user":{"id":8},"tags":["a"]}')}
    deliveries = [
        delivery("before", url="https://app.test/welcome"),
        order(status=503, created_s=2, headers=headers, body=b'{"user":{"id":8},"tags":["a"]}'),
        order(attempt=2, after_s=10, created_s=2, status=None, headers=headers, body=b'{"user":{"id":8},"tags":["a"]}'),
    ]

    text = told(
        deliveries,
        now_s=12,
        items=[RETRY],
        url="https://app.test/hook",
        attempts=3,
        at=["0s", "10s", "40s"],
        status=200,
        body_json={"user": {"id": 7}, "tags": ["a", "b"]},
        headers={"X-Tenent": "blue", "X-Tenant": "green"},
        signed_with="current",
    )

    assert lines(text) == lines("""
Expected a message to https://app.test/hook in 3 attempts at +0s, +10s and +40s, answered 200, with
the given body_json and headers, signed with the current key; the nearest differs in attempts, at,
status, body_json, headers and signed_with.

Nearest: msg_7YoJx-------------------------------------------order
  POST https://app.test/hook, made 2026-01-01T00:00:02.000Z, 2 attempts: 503, no response

  attempts     expected 3, got 2
  at           attempt 3: expected +40s (2026-01-01T00:00:42.000Z), not made so far
  status       expected 200, got no response (connection refused) for attempt 2, the last so far
  body_json    $.user.id: expected 7, got 8
               $.tags: expected a list of 2, got one of 1
               $.tags[1]: missing, expected "b"
  headers      X-Tenent: missing, expected "blue"; did you mean X-Tenant?
               X-Tenant: expected "green", got "blue"
  signed_with  all 2 attempts: expected the current key, it is signed with the next one

  As expected: url.

The clock is frozen at 2026-01-01T00:00:12.000Z, and the nearest message is due in 30s:
emulator.clock.advance("30s")

3 attempts of 2 messages; the clock is at 2026-01-01T00:00:12.000Z, frozen
  virtual time (UTC)   after  message     try  destination                    by    answer
  2026-01-01 00:00:00  +0s    msg_..fore  1    POST https://app.test/welcome  rule  200
> 2026-01-01 00:00:02  +0s    msg_..rder  1    POST https://app.test/hook     rule  503
> 2026-01-01 00:00:12  +10s   msg_..rder  2    POST https://app.test/hook     rule  none
                                               connection refused

Still to come:
  2026-01-01 00:00:22  in 10s  msg_..rder  to https://app.test/hook: retry 2 of 3: 10000 * retried
                                           with retried = 2 is 20000 ms -> 20s
""")


def test_a_single_difference_stands_in_the_first_line() -> None:
    text = told([order(status=500)], url="https://app.test/hook", status=200, attempts=1)

    assert lines(text.partition("\n\n1 attempt of")[0]) == lines("""
Expected a message to https://app.test/hook in 1 attempt, answered 200; the nearest differs in
status: expected 200, got 500.

Nearest: msg_7YoJx-------------------------------------------order
  POST https://app.test/hook, made 2026-01-01T00:00:00.000Z, 1 attempt: 500

  status  expected 200, got 500

  As expected: url and attempts.
""")


def test_nothing_was_published() -> None:
    assert lines(told([], url="https://app.test/hook")) == lines("""
Expected a message to https://app.test/hook; nothing has been delivered.

Nothing is waiting either. Was it published to this world? Its address and token are emulator.url
and emulator.token, as in emulator.env.

Nothing delivered; the clock is at 2026-01-01T00:00:00.000Z, frozen
""")


def test_nothing_was_delivered_so_far() -> None:
    reminder = due(
        86_400.5,
        "delivery",
        "the first attempt, 1d0.5s after the message was made",
        message_id=message_id("reminder"),
        url="https://app.test/remind",
    )

    assert lines(told([], items=[reminder], url="https://app.test/*")) == lines("""
Expected a message to https://app.test/*; nothing has been delivered.

The clock is frozen at 2026-01-01T00:00:00.000Z, and the next message there is due in 1d0.5s:
emulator.clock.advance("1d500ms")

Nothing delivered; the clock is at 2026-01-01T00:00:00.000Z, frozen

Still to come:
  2026-01-02 00:00:00.500  in 1d0.5s  msg_..nder  to https://app.test/remind: the first attempt,
                                                  1d0.5s after the message was made
""")


def test_another_url() -> None:
    deliveries = [
        *(delivery(f"far-{index}", url=f"https://other.test/{index}") for index in range(6)),
        delivery("near", url="https://app.test/hooks"),
        delivery("nearer", url="https://app.test/hooks", created_s=1),
    ]

    text = told(deliveries, url="https://app.test/hook")

    assert lines(text.partition("\n\n8 attempts of")[0]) == lines("""
Expected a message to https://app.test/hook; none went there, the nearest went to
https://app.test/hooks.

Nearest: msg_7YoJx------------------------------------------nearer
  POST https://app.test/hooks, made 2026-01-01T00:00:01.000Z, 1 attempt: 200

  url  expected https://app.test/hook, got https://app.test/hooks

Delivered to: https://app.test/hooks (2 messages), https://other.test/0 (1 message),
https://other.test/1 (1 message), https://other.test/2 (1 message), https://other.test/3 (1
message), and to 2 other URLs.
""")


def test_too_many() -> None:
    deliveries = [order(), delivery("other", url="https://other.test/")]

    assert lines(told(deliveries, url="https://app.test/*", times=0)) == lines("""
Expected no message to https://app.test/*, found 1.

2 attempts of 2 messages; the clock is at 2026-01-01T00:00:00.000Z, frozen
  virtual time (UTC)   after  message     try  destination                 by    answer
> 2026-01-01 00:00:00  +0s    msg_..rder  1    POST https://app.test/hook  rule  200
  2026-01-01 00:00:00  +0s    msg_..ther  1    POST https://other.test/    rule  200
""")


def test_too_few() -> None:
    deliveries = [order(), delivery("failing", status=500, created_s=1)]

    assert lines(told(deliveries, url="https://app.test/*", status=200, times=2).partition("\n\n")[0]) == lines("""
Expected exactly 2 messages to https://app.test/*, answered 200, found 1; the nearest other one
differs in status: expected 200, got 500.
""")


# -- hints ------------------------------------------------------------------------------------


def hints(text: str) -> str:
    """What stands between the nearest message and the timeline, in one line."""
    before = text[: text.index("\n\n1 attempt of 1 message;")]
    parts = before.split("\n\n")[1:]
    return " ".join(part.replace("\n", " ") for part in parts if not part.startswith(("  ", "Nearest")))


HINTS: dict[str, tuple[dict[str, Any], str]] = {
    "a retry of the nearest message": (
        {"items": [RETRY]},
        "The clock is frozen at 2026-01-01T00:00:00.000Z, and the nearest message is due in 22s: "
        'emulator.clock.advance("22s")',
    ),
    "another message to the URL": (
        {
            "items": [
                due(1, "delivery", "the first attempt", url="https://x.test/", message_id="msg_x"),
                due(7, "delivery", "the first attempt", url="https://app.test/hook", message_id="msg_y"),
            ]
        },
        "The clock is frozen at 2026-01-01T00:00:00.000Z, and the next message there is due in 7s: "
        'emulator.clock.advance("7s")',
    ),
    "work that names no URL": (
        {"items": [due(1.5, "schedule", "it fires", destination="a-group")]},
        "The clock is frozen at 2026-01-01T00:00:00.000Z, and the next work is due in 1.5s: "
        'emulator.clock.advance("1s500ms")',
    ),
    "work that is another's": (
        {"items": [due(1, "schedule", "it fires", destination="https://x.test/"), due(1, "message_expiry", "")]},
        "",
    ),
    "an attempt under way": (
        {"waiting": [{"kind": "attempt", "why": "under way", "message_id": "msg_x"}]},
        "An attempt is still under way: emulator.clock.advance(0) returns when it has ended.",
    ),
    "a clock that runs": (
        {"items": [RETRY], "rate": 1},
        "The clock goes in real time: emulator.wait_for(...) waits for what is still to come.",
    ),
    "a clock that runs with nothing to come": ({"rate": 1}, ""),
    "a retry to another URL": ({"items": [RETRY], "url": "https://app.test/other"}, ""),
    "a wrong body, which time does not heal": ({"items": [RETRY], "status": 500, "body": b"y"}, ""),
}


@pytest.mark.parametrize(("snapshot", "hint"), HINTS.values(), ids=HINTS)
def test_what_time_would_bring(snapshot: dict[str, Any], hint: str) -> None:
    assert hints(told([order(status=500)], **{"url": "https://app.test/hook", "status": 200, **snapshot})) == hint


def test_the_last_attempt_that_is_expected_is_what_to_advance_to() -> None:
    text = told([order(status=500)], items=[RETRY], url="https://app.test/hook", at=["0s", "22s", "1m"])

    assert 'emulator.clock.advance("1m")' in text


def test_a_captured_delivery_says_who_answered() -> None:
    hint = (
        "The destination is external, so the emulator captured the delivery and answered it by itself; a rule "
        "(emulator.destinations), emulator.mount or allow_host decides otherwise."
    )

    assert hints(told([delivery(via=Via.CAPTURE)], status=500)) == hint
    assert hints(told([delivery(via=Via.CAPTURE)], body=b"x")) == ""


def test_no_line_is_longer_than_100_columns() -> None:
    text = told(
        [order(url="https://app.test/" + "x" * 300, body=b'"' + b"y" * 300 + b'"', status=None, error="z" * 300)],
        url="https://app.test/" + "w" * 300,
        body_json="y" * 299,
        headers={"X-" + "A" * 200: "b" * 200},
    )

    assert max(map(len, text.splitlines())) == 100
