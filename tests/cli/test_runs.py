"""`svc-emulator runs` and `notify`, and the commands that know runs beside messages."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.cli.shell import invoke, printed, publish, read, refused
from tests.harness import emulators
from tests.inspector import workflow_world
from tests.inspector.workflow_world import DONE, EVENT, FAILED, FLOW, LONG, WAITING

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def filled() -> Iterator[emulators.Server]:
    """A world with four runs; its tests change nothing."""
    with emulators.server() as server:
        workflow_world.fill(server, steps=3)
        yield server


@pytest.fixture
def server(shared: emulators.Server) -> emulators.Server:
    """The same, for tests that change it."""
    emulators.control(shared, "POST", "/reset")
    workflow_world.fill(shared, steps=1)
    return shared


def test_runs_are_listed_with_the_newest_last(filled: emulators.Server) -> None:
    lines = printed(filled, "runs").splitlines()
    assert [line.split()[0] for line in lines] == ["ID", DONE, WAITING, LONG, FAILED]
    assert lines[1].split()[1:5] == ["2026-01-01T00:00:00.000Z", "RUN_SUCCESS", "3m50s", FLOW]
    assert lines[2].endswith("nightly")
    for options, ids in (
        (("--state", "failed"), [FAILED]),
        (("--state", "started", "--label", "nightly"), [WAITING]),
        (("--to", "https://app.test/*", "--text", "DONE"), [DONE]),
        (("--to", "https://app.test/"), []),
    ):
        assert [run["id"] for run in read(filled, "runs", *options)["runs"]] == ids, options
    assert (
        printed(filled, "runs", "--limit", "1").splitlines()[-1] == "4 fit in any state: 2 active, 1 success, 1 failed"
    )
    assert printed(filled, "runs", "--text", "nothing") == "no runs\n"


def test_a_run_is_shown_with_its_steps_what_failed_it_and_what_was_answered(filled: emulators.Server) -> None:
    lines = printed(filled, "runs", "show", FAILED[-5:]).splitlines()
    assert lines[:2] == [FAILED, FLOW]
    assert lines[2].startswith("RUN_FAILED  Failed at 2026-01-01T00:04:02.000Z, after 1 step: the call after step")
    step = next(line for line in lines if "(Run)" in line)
    assert step.split(maxsplit=3)[1:] == ["0s", "SUCCESS", 'charge the card (Run): {"amount": 12}']
    failed = next(
        at for at, line in enumerate(lines) if line.startswith('the call after step "charge the card" failed')
    )
    assert lines[failed + 1 : failed + 3] == ["< 500", '< {"error": "the ledger is locked"}']
    assert lines[failed + 4].startswith("failure function DELIVERED")
    assert lines[failed + 5 : failed + 7] == ["< 200", '< {"noted": "ticket 12"}']
    assert lines[-1] == f"what can be done: svc-emulator runs resume|restart {FAILED}"
    assert printed(filled, "show", FAILED).splitlines() == lines
    assert [line[26:] for line in printed(filled, "show", DONE).splitlines() if "| " in line] == [
        '30s     SUCCESS  | resize picture (Run): {"ok": true}',
        '50s     SUCCESS  | index profile (Run): {"ok": true}',
    ]


def test_commands_find_a_run_by_its_id_its_end_or_a_label_before_its_messages(filled: emulators.Server) -> None:
    """D-342."""
    for text in (WAITING, WAITING[-6:], "nightly"):
        assert read(filled, "explain", text)["run_id"] == WAITING
        assert read(filled, "show", text)["run"]["id"] == WAITING
        tailed = printed(filled, "tail", "--no-follow", "--message", text).splitlines()
        assert len(tailed) == 2, text
        assert all(WAITING in line for line in tailed), text
        assert len(read(filled, "messages", "--run", text)["messages"]) == 2
    for text in (WAITING, WAITING[-6:], "IGHTLY"):
        assert len(read(filled, "messages", "--text", text)["messages"]) == 2
    lines = refused(filled, "explain", FLOW).splitlines()
    assert lines[0] == f"svc-emulator: {FLOW!r} may be any of 4 runs:"
    assert lines[1].startswith(f"svc-emulator: {FAILED} 2026-01-01T")
    assert refused(filled, "show", "zzzz").startswith("svc-emulator: no message or run has an id that ends in 'zzzz'")
    assert refused(filled, "explain", "zzzz").startswith("svc-emulator: no message, run or schedule has")


def test_a_run_and_a_message_of_one_label_are_told_apart(server: emulators.Server) -> None:
    publish(server, "https://other.test/", Svc_Label="nightly", Svc_Delay="1h")
    lines = refused(server, "cancel", "nightly").splitlines()
    assert lines[0] == "svc-emulator: 'nightly' may be any of 2 messages and runs:"
    assert [line.split()[-2] for line in lines[1:]] == [FLOW, "https://other.test/"]


def test_dead_letters_of_runs_are_listed_deleted_and_not_retried(server: emulators.Server) -> None:
    [letter] = read(server, "dead-letters")["dead_letters"]
    line = printed(server, "dead-letters", "list", "--kind", "run").splitlines()[1]
    assert f"run {FAILED}" in line
    assert line.endswith(
        f'the call after step "charge the card" was answered 500 by rule_5 ({FLOW}): '
        '{"error": "the ledger is locked"}'
    )
    text = refused(server, "dead-letters", "retry", FAILED)
    assert text.endswith(f"is of run {FAILED}\n")
    assert printed(server, "dead-letters", "retry", "--all") == "no dead letters\n"
    assert read(server, "dead-letters", "delete", FAILED) == {"deleted": [letter["dead_letter_id"]]}
    assert refused(server, "runs", "resume", FAILED).endswith("was resumed, restarted or deleted already\n")


def test_runs_are_cancelled_resumed_restarted(server: emulators.Server) -> None:
    assert printed(server, "runs", "cancel", LONG) == f"run {LONG} at {FLOW}: RUN_CANCELED\n"
    assert refused(server, "cancel", LONG).startswith(f"svc-emulator: run {LONG} has ended: RUN_CANCELED at ")
    assert refused(server, "runs", "retry-failure", DONE).endswith("has not failed: RUN_SUCCESS\n")
    assert refused(server, "runs", "retry-failure", FAILED).endswith("has failed\n")
    made = read(server, "runs", "resume", FAILED)
    assert made["failed_run_id"] == FAILED != made["workflow_run_id"]
    assert read(server, "runs", "show", made["workflow_run_id"])["run"]["state"] == "RUN_STARTED"


def test_runs_are_notified_of_an_event(server: emulators.Server) -> None:
    assert "no run waits for 'nobody'" in refused(server, "notify", "nobody")
    kept = printed(server, "notify", "later", "--run", LONG)
    assert kept == f"later is kept for run {LONG} until that waits for it\n"
    notified = read(server, "notify", EVENT, "--body", '{"paid": true}')
    assert [each["workflow_run_id"] for each in notified["notified"]] == [WAITING]
    step = read(server, "runs", "show", WAITING)["run"]["steps"][-1]["steps"][0]
    assert (step["name"], step["state"]) == ("payment", "STEP_SUCCESS")
    assert json.loads(invoke(server, "notify", EVENT, "--run", WAITING, "--json").stdout)["notified"] == []
