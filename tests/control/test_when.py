"""`/_emulator/when`: firings and attempts, with the results and the words of the command."""

from __future__ import annotations

import json
from urllib.parse import quote, urlencode

import pytest
from click.testing import CliRunner
from msgspec import to_builtins

from emulator.cli import main
from emulator.control.when import told_attempts, told_firings
from tests.harness.emulators import EPOCH_MS, InProcess, with_emulator

BERLIN = "CRON_TZ=Europe/Berlin 30 2 * * *"


def test_firings_are_shown_with_their_local_times() -> None:
    assert to_builtins(told_firings("CRON_TZ=Europe/Berlin 0 9 * * *", 0, 1)) == {
        "cron": "CRON_TZ=Europe/Berlin 0 9 * * *",
        "time_zone": "Europe/Berlin",
        "from": "1970-01-01T00:00:00.000Z",
        "from_ms": 0,
        "firings": (
            {
                "at": "1970-01-01T08:00:00.000Z",
                "at_ms": 28_800_000,
                "local": "1970-01-01T09:00:00+01:00",
                "explanation": None,
            },
        ),
    }


def test_attempts_are_shown_with_their_arithmetic() -> None:
    assert to_builtins(told_attempts("5000", 1, 1_000))["attempts"] == (
        {
            "attempt": 1,
            "at": "1970-01-01T00:00:01.000Z",
            "at_ms": 1_000,
            "after_ms": 0,
            "delay_ms": 0,
            "arithmetic": "the first attempt",
        },
        {
            "attempt": 2,
            "at": "1970-01-01T00:00:06.000Z",
            "at_ms": 6_000,
            "after_ms": 5_000,
            "delay_ms": 5_000,
            "arithmetic": "5000 with retried = 0 is 5000 ms -> 5s",
        },
    )


def test_the_command_shows_attempts_without_instants_where_none_is_given() -> None:
    printed = json.loads(CliRunner().invoke(main, ["when", "--json", "--retries=1"]).stdout)
    assert [(each["at"], each["at_ms"], each["after_ms"]) for each in printed["attempts"]] == [
        (None, None, 0),
        (None, None, 12_000),
    ]


@with_emulator()
async def test_the_control_api_tells_firings_and_attempts_as_the_command_does(emulator: InProcess) -> None:
    """D-437."""
    asked = {
        "firings": ({"expression": BERLIN, "from": "2026-03-28", "count": "3"}, [BERLIN, "--count=3"]),
        "attempts": (
            {"retry_delay": "pow(2, retried) * 1000", "retries": "5", "from": "2026-03-28"},
            ["--retry-delay=pow(2, retried) * 1000", "--retries=5"],
        ),
    }
    for path, (query, arguments) in asked.items():
        told = await emulator.control("GET", f"/when/{path}?{urlencode(query, quote_via=quote)}")
        printed = CliRunner().invoke(main, ["when", "--json", "--from=2026-03-28", *arguments])
        assert (told.status, told.json) == (200, json.loads(printed.stdout))
        assert len(told.json[path]) == (3 if path == "firings" else 6)


@with_emulator()
async def test_without_a_start_the_worlds_present_is_it(emulator: InProcess) -> None:
    firings = (await emulator.control("GET", "/when/firings?expression=0%200%20*%20*%20*")).json
    assert (firings["from_ms"], len(firings["firings"])) == (EPOCH_MS, 10)
    attempts = (await emulator.control("GET", "/when/attempts")).json["attempts"]
    assert (attempts[0]["at_ms"], attempts[0]["delay_ms"], len(attempts)) == (EPOCH_MS, 0, 4)
    assert "default backoff" in attempts[1]["arithmetic"]


@pytest.mark.parametrize(
    ("target", "field"),
    [
        ("firings", "expression"),
        ("firings?expression=61%20*%20*%20*%20*", "expression"),
        ("firings?expression=*%20*%20*%20*%20*&from=soon", "from"),
        ("firings?expression=*%20*%20*%20*%20*&count=0", "count"),
        ("firings?cron=*", "cron"),
        ("attempts?retry_delay=pow(2", "retry_delay"),
        ("attempts?retries=21", "retries"),
        ("attempts?retries=1&from=9999-12-31T23:59:59Z", "from"),
        ("attempts?retries=17&from=1531-09-06", "from"),
        ("firings?expression=*%20*%20*%20*%20*&from=1531-09-06", "from"),
    ],
)
@with_emulator()
async def test_what_cannot_be_meant_names_its_parameter(emulator: InProcess, target: str, field: str) -> None:
    """D-437."""
    answer = await emulator.control("GET", f"/when/{target}")
    assert (answer.status, answer.json["field"]) == (400, field)
    assert answer.json["error"].startswith(f"{field}: ")
