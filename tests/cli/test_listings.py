"""Lists as they are printed, and the clock."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from click.shell_completion import ShellComplete

from emulator.cli import main
from emulator.cli.clock import INTERRUPTED, Report, Steps
from emulator.cli.control import Control
from emulator.cli.upcoming import preview_lines
from tests.cli.shell import DOWN, URL, invoke, printed, publish, read, refused, rule, service
from tests.harness import emulators

pytestmark = pytest.mark.slow


# -- lists without a subcommand, and what may be written for an id ---------------------------------


def completed(*arguments: str, incomplete: str = "") -> list[str]:
    completion = ShellComplete(main, {}, "svc-emulator", "_SVC_EMULATOR_COMPLETE")
    return [item.value for item in completion.get_completions(list(arguments), incomplete)]


def test_completion_knows_commands_subcommands_options_and_choices() -> None:
    assert completed(incomplete="dead") == ["dead-letters"]
    assert completed("dead-letters") == ["delete", "list", "retry"]
    assert completed("messages", incomplete="--sta") == ["--state"]
    assert completed("destinations", "add", "x", "--fault", incomplete="re") == ["refused", "reset"]


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


def test_a_list_has_as_many_lines_as_its_limit_says(server: emulators.Server) -> None:
    """D-795: also where long bodies make the pages of the control API short."""
    rule(server, DOWN, respond={"status": 503})
    urls = [f"https://api.example.com/{number:02}" for number in range(25)]
    for url in urls:
        publish(server, url, b"x" * 1_000_000)
        publish(server, DOWN, Svc_Retries="0")
    all_urls = [url for pair in zip(urls, [DOWN] * 25, strict=True) for url in pair]
    for limit in (1, 35, 49, 50, 5_000):
        is_whole = limit >= 50
        for command in ("deliveries", "messages"):
            _, *lines = printed(server, command, "--limit", str(limit)).splitlines()
            hint = [] if is_whole else [lines.pop()]
            assert [re.findall(r"https://\S+", line)[0] for line in lines] == all_urls[-limit:], command
            assert hint == ([] if is_whole else ["there are older ones: --limit lists more"]), command
        letters = printed(server, "dead-letters", "--limit", str(limit)).splitlines()
        assert sum(DOWN in line for line in letters) == min(limit, 25)
        assert ("there are older ones" in letters[-1]) == (limit < 25)
        tailed = printed(server, "tail", "--no-follow", "--last", str(limit)).splitlines()
        assert len(tailed) == min(limit, 50)
    whole = read(server, "deliveries", "--limit", "45")
    assert [each["url"] for each in whole["deliveries"]] == all_urls[:4:-1]
    assert {"headers", "body", "response"} <= whole["deliveries"][0].keys()
    assert whole["cursor"] is not None


def test_what_is_due_is_listed_as_far_as_it_can_be() -> None:
    """D-795: a hint names no larger limit where there is none."""

    def last_line(many: int) -> str:
        item = {"kind": "delivery", "at_ms": 1_000, "at": "1970-01-01T00:00:01.000Z", "why": "due", "url": URL}
        answer = {"now": "", "now_ms": 0, "until": None, "items": [item] * many, "waiting": [], "truncated": True}
        return list(preview_lines(answer))[-1]

    assert last_line(9_999) == "there is more: --limit lists as much as it says"
    assert last_line(10_000) == "there is more than the 10,000 that are listed at most"


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


# -- a clock advance in steps: the work of one call, and where it ends when it is interrupted ------


_SAME = ("from_ms", "to_ms", "deliveries", "succeeded", "failed", "schedules_fired", "messages_created")


def control(server: emulators.Server) -> Control:
    return Control(url=server.url, world="default", token=None)


def fill(server: emulators.Server) -> None:
    emulators.control(server, "POST", "/reset")
    rule(server, DOWN, respond={"status": 503})
    service(server, "POST", f"schedules/{URL}", Svc_Cron="*/7 * * * *")
    publish(server, DOWN, Svc_Retries="5", Svc_Retry_Delay="1000 * 60 * (1 + retried)")
    publish(server, URL, Svc_Delay="5h")


def trace(server: emulators.Server) -> Any:
    return emulators.control(server, "GET", "/messages", limit="1000")


def test_an_advance_in_steps_does_the_work_of_one(server: emulators.Server) -> None:
    """D-343."""
    fill(server)
    whole = emulators.control(server, "POST", "/clock/advance", {"by": "1d"})
    found = trace(server)
    fill(server)
    shown: list[Report] = []

    report = Steps(shown.append).advance(control(server), 86_400_000)

    assert len(shown) > 3
    assert {name: report[name] for name in _SAME} == {name: whole[name] for name in _SAME}
    assert (report["from"], report["to"], "stopped" in report) == (whole["from"], whole["to"], False)
    assert trace(server) == found


def test_an_interrupted_advance_says_where_the_clock_stands(server: emulators.Server) -> None:
    """D-343."""
    fill(server)
    shown: list[Report] = []

    def show(report: Report) -> None:
        shown.append(report)
        if len(shown) == 2:
            steps.interrupt()

    steps = Steps(show)
    report = steps.advance(control(server), 86_400_000)

    assert (len(shown), report["stopped"]) == (2, INTERRUPTED)
    assert report["to_ms"] == emulators.control(server, "GET", "/clock")["now_ms"]
    assert 0 < report["to_ms"] - report["from_ms"] < 86_400_000


def test_an_advance_in_steps_keeps_the_most_deliveries(server: emulators.Server) -> None:
    """D-343."""
    fill(server)
    report = Steps().advance(control(server), 86_400_000, 20)
    assert (report["deliveries"], report["stopped"]) == (20, "max_deliveries")


def test_parts_grow_and_shrink_with_the_time_that_they_take(server: emulators.Server) -> None:
    fill(server)
    ends: list[int] = []
    ticks = iter(range(0, 1_000_000, 10))

    # No step takes any time.
    Steps(lambda report: ends.append(report["to_ms"]), clock=lambda: 0).advance(control(server), 86_400_000)
    fill(server)
    slow: list[int] = []

    def show(report: Report) -> None:
        slow.append(report["to_ms"])
        if len(slow) == 4:
            steps.interrupt()

    # Every step takes ten seconds.
    steps = Steps(show, clock=lambda: next(ticks))
    steps.advance(control(server), 86_400_000)

    grown = [after - before for before, after in pairwise(ends)]
    assert grown[0] < grown[1] < grown[2]
    shrunk = [after - before for before, after in pairwise(slow)]
    assert shrunk[0] > shrunk[1]
