"""What the server logs: a line for each entry, whatever a client put into it."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from emulator.server import logs
from emulator.server.logs import DeliveryLog
from tests.harness.emulators import InProcess, in_process, with_emulator
from tests.harness.loops import on_loop


@contextmanager
def logged(log_format: str) -> Iterator[io.StringIO]:
    """What goes to the log, in the form that the server writes."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(logs.formatter(log_format, is_coloured=False))
    logger = logging.getLogger("emulator")
    logger.addHandler(handler)
    try:
        yield stream
    finally:
        logger.removeHandler(handler)


@pytest.mark.parametrize("log_format", ["text", "json"])
@on_loop
async def test_strict_mode_shows_control_characters_of_names_and_does_not_carry_them_out(log_format: str) -> None:
    """D-277."""
    with logged(log_format) as stream:
        async with in_process(strict=True) as emulator:
            await emulator.get("/v2/keys?a%1B%5B2J%0D%0Awarning:%20forged=1")
    (line,) = stream.getvalue().splitlines()
    assert "\x1b" not in line
    assert "forged" in line
    if log_format == "json":
        assert "\x1b[2J" in json.loads(line)["message"]
    else:
        assert "\\x1b[2J\\r\\nwarning: forged" in line


def test_a_traceback_is_indented_so_that_no_line_of_it_looks_like_an_entry() -> None:
    """D-277."""
    with logged("text") as stream:
        try:
            raise ValueError("bad\nwarning: forged \x1b[2J")
        except ValueError:
            logging.getLogger("emulator").exception("%s failed", "GET /a\nwarning: forged")
    first, *rest = stream.getvalue().splitlines()
    assert first == "error: GET /a\\nwarning: forged failed"
    assert all(line.startswith("  ") for line in rest)
    assert "\x1b" not in stream.getvalue()


HOOK = "https://api.test/hook"


@with_emulator()
async def test_a_refused_firing_is_logged(emulator: InProcess, caplog: pytest.LogCaptureFixture) -> None:
    """D-263."""
    caplog.set_level(logging.WARNING, "emulator")
    emulator.emulation.worlds.observers.append(DeliveryLog())
    await emulator.post(f"/v2/schedules/{HOOK}", {"Svc-Cron": "0 * * * *", "Svc-Schedule-Id": "hourly"})
    await emulator.control("PUT", f"/accounts/{emulator.world.account().id}", {"max_requests_per_day_hard": 0})
    await emulator.advance("1h")

    assert caplog.messages == [
        "2026-01-01T01:00:00.000Z schedule hourly fired and made no message: "
        "quota maxRequestsPerDay exceeded, current limit: 0"
    ]
    assert (caplog.records[0].levelname, vars(caplog.records[0])["schedule_id"]) == ("WARNING", "hourly")


@with_emulator()
async def test_a_failed_attempt_is_logged_with_the_size_of_its_answer_and_when_the_retry_comes(
    emulator: InProcess, caplog: pytest.LogCaptureFixture
) -> None:
    """D-336, D-775."""
    caplog.set_level(logging.INFO, "emulator")
    emulator.emulation.worlds.observers.append(DeliveryLog())
    answer = {"status": 503, "headers": {"Content-Type": "text/html; card=4111"}, "body": "4111 is no card"}
    await emulator.rule(HOOK, respond=answer)
    message_id = await emulator.publish(HOOK, {"Svc-Retries": "1", "Svc-Retry-Delay": "1000"})
    await emulator.advance("1s")
    hidden_id = await emulator.publish(HOOK, {"Svc-Retries": "0", "Svc-Redact-Fields": "header[X-Card]"})

    first, second, third = (record for record in caplog.records if record.name == "emulator.deliveries")
    at_end = f": 15 bytes of text/html, see svc-emulator show {message_id[-8:]}"
    assert first.getMessage().endswith(f"{at_end}; retry at 2026-01-01T00:00:01.000Z")
    assert second.getMessage().endswith(at_end)
    assert vars(first)["answer"] == "15 bytes of text/html"
    # A length can tell what is hidden (D-655).
    assert third.getMessage().endswith(f": redacted, see svc-emulator show {hidden_id[-8:]}")
    assert "4111" not in caplog.text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("POST https://user:p4ss@api.test/a?b=c", "POST https://***@api.test/a?b=c"),
        ("GET /v2/keys?queue_token=abc&x=1 -> 200", "GET /v2/keys?queue_token=***&x=1 -> 200"),
        ("to https://api.test/?a=1&api_key=s3cret (x)", "to https://api.test/?a=1&api_key=*** (x)"),
        (
            "GET /x?url=https%3A%2F%2Fu%3Ap4ss%40a.test%2F%3Fapi_key%3Dk3y%26b%3Dc&d=e -> 200",
            "GET /x?url=https%3A%2F%2F***%40a.test%2F%3Fapi_key%3D***%26b%3Dc&d=e -> 200",
        ),
        ("unknown eyJVc2VySUQiOiIxMjM0NTYifQ== (x)", "unknown *** (x)"),
        ("to https://api.test/ by a@b", "to https://api.test/ by a@b"),
    ],
    ids=["user-info", "token", "api-key", "in-a-query", "alone", "an-address"],
)
@pytest.mark.parametrize("log_format", ["text", "json"])
def test_no_line_of_the_log_has_a_credential(log_format: str, text: str, expected: str) -> None:
    """D-777: whatever wrote it, in tracebacks and in the fields of JSON too."""
    with logged(log_format) as stream:
        try:
            raise ValueError(text)
        except ValueError:
            logging.getLogger("emulator").exception("%s", text, extra={"url": text})
    lines = stream.getvalue()
    assert lines.count(expected) == (3 if log_format == "json" else 2)
    assert text == expected or text not in lines


@pytest.mark.parametrize("level", ["debug", "info"])
@with_emulator()
async def test_every_call_is_logged_at_the_level_debug(
    emulator: InProcess, level: str, caplog: pytest.LogCaptureFixture
) -> None:
    """D-336."""
    caplog.set_level(level.upper(), "emulator.calls")
    await emulator.get(f"/v2/keys?queue_token={emulator.token}", token=None)
    await emulator.control("GET", "/clock?a=b")

    texts = [each.getMessage().rpartition(" in ")[0] for each in caplog.records if each.name == "emulator.calls"]
    every = ["GET /v2/keys?queue_token=*** -> 200", "GET /_emulator/clock?a=b -> 400"]
    assert texts == (every if level == "debug" else [])
