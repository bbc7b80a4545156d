"""`svc-emulator demo`: it shows every planned delivery, and notices if one is missing."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from msgspec.structs import replace

from emulator.cli import demo_week, main
from emulator.cli.demo import run_week
from emulator.cli.demo_week import Reply
from emulator.queries.reports import Credentials
from tests.cli.shell import in_folder, said
from tests.harness.forks import Forked
from tests.harness.processes import PATIENCE_S, command, environment, killed_in_time

pytestmark = pytest.mark.slow

ROW = re.compile(r"\w{3} \d\d Mar (\d\d:\d\d:\d\d) (\d\d:\d\d) .* (\d) (/\S+) +(\d{3}) ✓ *")


def test_demo_lists_every_planned_delivery_in_plain_text(tmp_path: Path) -> None:
    completed = in_folder(tmp_path, "demo")

    assert (completed.exit_code, completed.stderr) == (0, "")
    assert "\x1b" not in completed.stdout
    rows = [match.groups() for line in completed.stdout.splitlines() if (match := ROW.fullmatch(line))]
    assert [(time, int(attempt), path, int(status)) for time, _, attempt, path, status in rows] == [
        (each.at[11:19], each.attempt, each.path, each.status) for each in demo_week.EXPECTED
    ]
    # Half past nine in Berlin, before and after summer time began.
    reports = [(time, berlin) for time, berlin, _, path, _ in rows if path == "/report"]
    assert reports == [("08:30:00", "09:30")] * 6 + [("07:30:00", "09:30")] * 2
    assert re.search(
        r"^7 days in \d\.\d\d s: 22 deliveries of 18 messages, 22 signatures verified, 1 dead letter as planned$",
        completed.stdout,
        re.MULTILINE,
    )
    assert list(tmp_path.iterdir()) == []


def on_a_terminal(folder: Path, **extra: str) -> str:
    """What the demo writes to a terminal of 80 columns."""
    import pty  # There is none on Windows.

    ours, theirs = pty.openpty()
    with Forked(
        command("demo"), cwd=folder, env=environment({"COLUMNS": "80", "TERM": "xterm", **extra}), stdout=theirs
    ) as process:
        os.close(theirs)
        written = b""
        try:
            while piece := os.read(ours, 65_536):
                written += piece
        except OSError:
            pass  # How a terminal says that nobody writes to it any more.
        os.close(ours)
        assert process.wait(PATIENCE_S) == 0
    return written.decode().replace("\r\n", "\n")


@pytest.mark.skipif(sys.platform == "win32", reason="there are no pseudo-terminals")
def test_demo_is_in_colour_on_a_terminal_and_fits_it(tmp_path: Path) -> None:
    text = on_a_terminal(tmp_path)
    lines = click.unstyle(text).splitlines()

    assert "\x1b[32m" in text
    assert max(map(len, lines)) <= 80
    assert len([line for line in lines if ROW.fullmatch(line)]) == 22


@pytest.mark.skipif(sys.platform == "win32", reason="there are no pseudo-terminals")
def test_demo_in_a_narrow_terminal_without_colour_still_tells_instants_and_statuses(tmp_path: Path) -> None:
    lines = on_a_terminal(tmp_path, NO_COLOR="1", COLUMNS="48").splitlines()

    assert "\x1b" not in "".join(lines)
    assert max(map(len, lines)) <= 48
    rows = [line for line in lines if re.fullmatch(r"\w{3} \d\d Mar \d\d:\d\d:\d\d .* \d +\d{3} ✓ *", line)]
    assert len(rows) == 22


def test_demo_fails_if_a_delivery_goes_another_way() -> None:
    replies = {**demo_week.REPLIES, "/reminder": (Reply(status=500), Reply())}

    result = CliRunner().invoke(main, ["demo"], obj=partial(run_week, replies=replies))

    assert result.exit_code == 1
    assert "missing: 2026-03-25T11:00:00.000Z /reminder attempt 1 -> 200" in result.stdout
    assert "unexpected: 2026-03-25T11:00:00.000Z /reminder attempt 1 -> 500" in result.stdout
    assert "unexpected: 2026-03-25T11:00:12.000Z /reminder attempt 2 -> 200" in result.stdout
    assert "as planned" not in result.stdout
    assert said(result) == "svc-emulator: the week did not go as planned, differences: 3\n"


def test_demo_fails_if_a_signature_is_not_valid() -> None:
    def known(credentials: Credentials) -> Credentials:
        return replace(credentials, current_signing_key="0" * 32, next_signing_key="1" * 32)

    result = CliRunner().invoke(main, ["demo"], obj=partial(run_week, known=known))

    assert result.exit_code == 1
    assert "bad signature: 2026-03-23T08:00:00.000Z /welcome attempt 1 -> 401" in result.stdout


def test_receiver_tries_the_next_key() -> None:
    def known(credentials: Credentials) -> Credentials:
        right = credentials.current_signing_key
        return replace(credentials, current_signing_key="0" * 32, next_signing_key=right)

    assert CliRunner().invoke(main, ["demo"], obj=partial(run_week, known=known)).exit_code == 0


@pytest.mark.skipif(sys.platform == "win32", reason="a signal ends a process at once")
def test_interrupt_ends_the_demo_without_a_traceback(tmp_path: Path) -> None:
    with Forked(
        command("demo"),
        cwd=tmp_path,
        env=environment({"PYTHONUNBUFFERED": "1"}),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    ) as process:
        assert process.stdout is not None
        with killed_in_time(process):
            process.stdout.readline()
        process.send_signal(signal.SIGINT)
        _, complaint = process.communicate(timeout=PATIENCE_S)

    assert "Traceback" not in complaint
    assert process.returncode in (0, 130)  # 0 if it was done before the signal came.
