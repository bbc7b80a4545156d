"""`svc-emulator upcoming` and `when`."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from emulator.cli import main
from tests.cli.shell import DOWN, URL, invoke, printed, publish, said, service
from tests.harness import emulators

pytestmark = pytest.mark.slow

# -- upcoming ---------------------------------------------------------------------------------


def test_upcoming_of_an_idle_server(server: emulators.Server) -> None:
    assert printed(server, "upcoming") == "clock: 2026-01-01T00:00:00.000Z\nnothing is due later\n"
    assert "nothing is due up to 2026-02-01T00:00:00.000Z" in printed(server, "upcoming", "--until", "2026-02-01")


def test_upcoming_lists_expiries_only_if_all_is_asked_for(server: emulators.Server) -> None:
    publish(server, URL, Svc_Deduplication_Id="order-1")
    assert "nothing is due later" in printed(server, "upcoming")
    everything = printed(server, "upcoming", "--all")
    assert "deduplication expiry" in everything
    assert "message expiry" in everything


def test_upcoming_lists_when_what_and_why(server: emulators.Server) -> None:
    emulators.control(server, "POST", "/destinations", {"match": {"url": DOWN}, "respond": {"status": 503}})
    failing = publish(server, DOWN, Svc_Retry_Delay="10000", Svc_Retries="3")
    service(server, "POST", f"schedules/{URL}", Svc_Cron="CRON_TZ=Europe/Berlin 30 9 * * *", Svc_Schedule_Id="daily")

    assert printed(server, "upcoming").splitlines() == [
        "clock: 2026-01-01T00:00:00.000Z",
        "2026-01-01T00:00:10.000Z  in 10s    retry     retry 1 of 3: 10000 with retried = 0 is 10000 ms -> 10s",
        f"  {failing}  {DOWN}",
        "2026-01-01T08:30:00.000Z  in 8h30m  schedule  the schedule fires at 2026-01-01T09:30:00+01:00 in "
        f"Europe/Berlin (CRON_TZ=Europe/Berlin 30 9 * * *), to {URL}",
        "  daily",
    ]


def test_upcoming_lists_what_waits_and_that_there_is_more(server: emulators.Server) -> None:
    limits = {"Svc_Flow_Control_Key": "k", "Svc_Flow_Control_Value": "rate=1, period=1m"}
    ids = [publish(server, URL, b"", **limits) for _ in range(3)]

    lines = printed(server, "upcoming", "--limit", "1").splitlines()

    assert lines[-5:] == [
        "waiting:",
        "2026-01-01T00:00:00.000Z  flow control key k lets 1 start per 1m, this one at 2026-01-01T00:01:00.000Z at the "
        "earliest; it is next in line",
        f"  {ids[1]}  {URL}",
        "",
        "there is more: --limit lists as much as it says",
    ]


def test_upcoming_until_an_instant_as_json(server: emulators.Server) -> None:
    service(server, "POST", f"schedules/{URL}", Svc_Cron="0 * * * *")
    found = json.loads(printed(server, "upcoming", "--until", "2026-01-01T03:00:00Z", "--json"))
    assert [item["kind"] for item in found["items"]] == ["schedule"] * 3
    assert found["until_ms"] == emulators.EPOCH_MS + 3 * 3_600_000


# -- explain ----------------------------------------------------------------------------------


def test_explain_tells_the_reasons_in_order(server: emulators.Server) -> None:
    message_id = publish(server, URL, Svc_Delay="1m")
    assert "\nWaits for its first attempt at 2026-01-01T00:01:00.000Z, 1m after it was made.\n" in printed(
        server, "explain", message_id
    )
    emulators.control(server, "POST", "/clock/advance", {"by": "1h"})

    captured = "was answered 200 by the emulator, which captured it because the destination is external"
    assert printed(server, "explain", message_id).splitlines() == [
        f"{message_id} to {URL}",
        f"Delivered at 2026-01-01T00:01:00.000Z: attempt 1 {captured}.",
        "",
        f"2026-01-01T00:00:00.000Z  created    published by 127.0.0.1 to {URL}",
        "2026-01-01T00:00:00.000Z  delayed    no attempt before 2026-01-01T00:01:00.000Z, a delay of 1m",
        f"2026-01-01T00:01:00.000Z  attempt    attempt 1 {captured}",
        "2026-01-01T00:01:00.000Z  delivered  delivered by attempt 1",
    ]


def test_explain_of_an_empty_id_finds_nothing(server: emulators.Server) -> None:
    result = invoke(server, "explain", "")
    assert result.exit_code == 1
    assert result.stderr.startswith("svc-emulator: no message, run or schedule has an id that ends in ''")


def test_explain_of_a_schedule(server: emulators.Server) -> None:
    """D-263."""
    service(server, "POST", f"schedules/{URL}", Svc_Cron="0 * * * *", Svc_Schedule_Id="hourly")
    assert printed(server, "explain", "hourly").splitlines() == [
        f"hourly to {URL}",
        "Has not fired yet. It fires next at 2026-01-01T01:00:00.000Z.",
        "",
        f"2026-01-01T00:00:00.000Z  created  written by 127.0.0.1, to {URL} at 0 * * * *",
        "2026-01-01T01:00:00.000Z  due      it fires next",
    ]
    assert "no message, run or schedule has an id that ends in 'daily'" in invoke(server, "explain", "daily").stderr


def test_explain_of_an_unknown_message_fails_with_one_line(server: emulators.Server) -> None:
    result = invoke(server, "explain", "msg_nobody")
    assert result.exit_code == 1
    assert said(result) == "svc-emulator: message msg_nobody not found\n"


def test_colours_are_for_terminals_and_not_wanted_by_everybody(server: emulators.Server) -> None:
    message_id = publish(server, URL)
    assert "\x1b[" not in printed(server, "explain", message_id)
    assert "\x1b[32mdelivered" in invoke(server, "explain", message_id, color=True).stdout
    assert "\x1b[" not in invoke(server, "explain", message_id, color=True, NO_COLOR="1").stdout
    assert "\x1b[" not in invoke(server, "upcoming", color=True, NO_COLOR="1").stdout


# -- workflow runs ----------------------------------------------------------------------------


def publish_step(server: emulators.Server, run_id: str, *, init: str = "false", **more: object) -> None:
    """A message of a run, whose endpoint is external and captured."""
    headers = {"Svc-Workflow-RunId": run_id, "Svc-Workflow-Init": init, "Svc-Workflow-Url": URL}
    if "sleepFor" in more:
        headers["Svc-Delay"] = f"{more['sleepFor']}s"
    step = {"stepName": "greet", "stepType": "Run", "stepId": 1, "concurrent": 1, **more}
    publish(server, URL, json.dumps(step, separators=(",", ":")).encode(), **headers)


@pytest.mark.parametrize("run_id", ["wfr_one", "mine"])
def test_a_workflow_run_is_explained_and_its_sleep_is_upcoming(server: emulators.Server, run_id: str) -> None:
    """An id of a run needs no prefix."""
    publish_step(server, run_id, init="true")
    publish_step(server, run_id, out="1")
    publish_step(server, run_id, stepId=2, stepName="nap", stepType="SleepFor", sleepFor=3600)

    assert printed(server, "explain", run_id).splitlines() == [
        f"{run_id} at {URL}",
        'Is active: step "nap" sleeps until 2026-01-01T01:00:00.000Z.',
        "",
        f"2026-01-01T00:00:00.000Z  started  {URL} with 63 bytes",
        '2026-01-01T00:00:00.000Z  step     step 1 "greet" (Run) done: 1',
        '2026-01-01T00:00:00.000Z  waiting  step "nap" sleeps until 2026-01-01T01:00:00.000Z',
    ]
    upcoming = printed(server, "upcoming")
    assert f'delivery  step "nap" of workflow run {run_id} sleeps until then' in upcoming
    assert f"\n  {run_id}  msg_" in upcoming


BERLIN = "CRON_TZ=Europe/Berlin 30 2 * * *"


def when(*arguments: str) -> str:
    result = CliRunner().invoke(main, ["when", *arguments])
    assert result.exit_code == 0, result.output
    return result.stdout


def test_when_lists_firings_and_explains_changes_of_the_clock() -> None:
    assert when(BERLIN, "--from", "2026-03-28", "--count", "2").splitlines() == [
        "after 2026-03-28T00:00:00.000Z, in Europe/Berlin:",
        "2026-03-28T01:30:00.000Z  2026-03-28T02:30:00+01:00",
        "2026-03-29T01:00:00.000Z  2026-03-29T03:00:00+02:00",
        "  the clock goes from 02:00 to 03:00, and 02:30 does not exist on 2026-03-29: "
        "it fires at the first minute after the gap",
    ]
    assert "does not fire" in when("0 0 1 1 *", "--from", "9999-12-31")


def test_when_shows_the_ladder_of_attempts() -> None:
    lines = when("--retry-delay", "pow(2, retried) * 1000", "--retries", "2", "--from", "2026-01-01").splitlines()
    assert [line[:30].split() for line in lines] == [
        ["2026-01-01T00:00:00.000Z", "+0s"],
        ["2026-01-01T00:00:01.000Z", "+1s"],
        ["2026-01-01T00:00:03.000Z", "+3s"],
    ]
    assert "default backoff" in when("--retries", "1")


def test_when_prints_json() -> None:
    assert len(json.loads(when(BERLIN, "--json"))["firings"]) == 10
    view = json.loads(when("--retry-delay", "1000", "--json"))
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
    assert (result.exit_code, said(result).count("\n")) == (2, 1)
    assert reason in result.stderr
