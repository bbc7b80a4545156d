"""`when`: firings and attempts, without a server."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from emulator.cli import main

BERLIN = "CRON_TZ=Europe/Berlin 30 2 * * *"


def printed(*arguments: str) -> str:
    result = CliRunner().invoke(main, ["when", *arguments])
    assert result.exit_code == 0, result.output
    return result.stdout


def test_when_lists_firings_and_explains_changes_of_the_clock() -> None:
    assert printed(BERLIN, "--from", "2026-03-28", "--count", "2").splitlines() == [
        "after 2026-03-28T00:00:00.000Z, in Europe/Berlin:",
        "2026-03-28T01:30:00.000Z  2026-03-28T02:30:00+01:00",
        "2026-03-29T01:00:00.000Z  2026-03-29T03:00:00+02:00",
        "  the clock goes from 02:00 to 03:00, and 02:30 does not exist on 2026-03-29: "
        "it fires at the first minute after the gap",
    ]
    assert "does not fire" in printed("0 0 1 1 *", "--from", "9999-12-31")


def test_when_shows_the_ladder_of_attempts() -> None:
    lines = printed("--retry-delay", "pow(2, retried) * 1000", "--retries", "2", "--from", "2026-01-01").splitlines()
    assert [line[:30].split() for line in lines] == [
        ["2026-01-01T00:00:00.000Z", "+0s"],
        ["2026-01-01T00:00:01.000Z", "+1s"],
        ["2026-01-01T00:00:03.000Z", "+3s"],
    ]
    assert "default backoff" in printed("--retries", "1")


def test_when_prints_json() -> None:
    assert len(json.loads(printed(BERLIN, "--json"))["firings"]) == 10
    view = json.loads(printed("--retry-delay", "1000", "--json"))
    assert [each["after_ms"] for each in view["attempts"]] == [0, 1_000, 2_000, 3_000]


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ((), "expected a cron expression, or --retry-delay"),
        ((BERLIN, "--retries", "2"), "expected a cron expression, or --retry-delay"),
        (("--retries", "2", "--count", "3"), "--count is for a cron expression"),
        (("61 * * * *",), "expression: expected 0-59 in the minute field"),
        (("--retry-delay", "pow(2"), "retry_delay: "),
        ((BERLIN, "--from", "soon"), "--from"),
        ((BERLIN, "--from", "1531-09-06"), "expected an instant after 1970"),
        (("--retries", "20", "--from", "9999-12-31"), "from: expected an instant from which"),
        (("--retries", "21"), "--retries"),
    ],
)
def test_what_cannot_be_meant_is_one_line(arguments: tuple[str, ...], reason: str) -> None:
    result = CliRunner().invoke(main, ["when", *arguments])
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert reason in result.stderr
