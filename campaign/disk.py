"""Full disks, failing writes and a database file that vanishes: clear errors, nothing acknowledged lost."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

from campaign.calls import Answer, Caller, NoAnswer, caller, created_bodies, hash_of
from campaign.programs import DidNotStart, Server, in_text, serving
from campaign.rounds import Report, Round

_DISK_KIB = 4096
# So many publishes of 8 KiB fill any of the disks here several times over.
_MOST_PUBLISHES = 1500
# How long a server may take to notice that its file is gone, and to work again once there is space.
_NOTICE_S = 5.0
_RECOVERY_S = 15.0
# The second line of what is said where the program cannot start.
_NEXT = "next: again when there is space on the disk"


def play(round: Round) -> None:
    """Each fault once. A disk of its own takes root; a limit on the size of files does not."""
    disk = round.folder / "disk"
    disk.mkdir()
    with _small_disk(disk) as is_small:
        if is_small:
            _full(disk, round.random, round.report)
            _full_at_start(disk, round.random, round.report)
        else:
            round.report.count("rounds without a disk of their own (needs root)")
    limited = round.folder / "limited"
    limited.mkdir()
    _limited(limited, round.random, round.report)
    gone = round.folder / "gone"
    gone.mkdir()
    _deleted(gone, round.random, round.report)


# -- a full disk ------------------------------------------------------------------------------


@contextlib.contextmanager
def _small_disk(folder: Path) -> Iterator[bool]:
    """Whether a small file system could be mounted there."""
    mount = ["mount", "-t", "tmpfs", "-o", f"size={_DISK_KIB}k", "tmpfs", str(folder)]
    is_mounted = sys.platform == "linux" and subprocess.run(mount, capture_output=True, check=False).returncode == 0
    try:
        yield is_mounted
    finally:
        if is_mounted:
            subprocess.run(["umount", "--lazy", str(folder)], check=False)


def _fill(ballast: Path, leave: int) -> None:
    """Fill a disk up to so many bytes."""
    with contextlib.suppress(OSError), ballast.open("ab", buffering=0) as file:
        while True:
            file.write(bytes(4096))
    size = ballast.stat().st_size
    os.truncate(ballast, max(0, size - leave))


def _full(disk: Path, random: Random, report: Report) -> None:
    ballast = disk / "ballast"
    for folder in (disk / "run", disk.parent / "outside"):
        folder.mkdir()
    # The log stays elsewhere: that it cannot be written is another matter.
    folder, db = disk.parent / "outside", disk / "run" / "state.db"
    options = ("--db", str(db), "--clock", "frozen")
    with serving(folder, *options) as server:
        _fill(ballast, random.randrange(0, 400) * 1024)
        acknowledged = _publish_until_refused(server, report, kind="on a full disk", status=507)
        if not acknowledged.is_refused:
            return
        _check_broken(server, report, kind="on a full disk", full_disk=True)
        ballast.unlink()
        _check_recovery(server, acknowledged, report, kind="after space was freed")
        _check_exit(server, report, kind="after space was freed")
    report.count("full disks")
    _check_after_restart(folder, options, acknowledged, report, kind="after a full disk")


def _full_at_start(disk: Path, random: Random, report: Report) -> None:
    """Full before the first start, or in the midst of it; then there is space, and the next start works."""
    folder, db = disk.parent / "outside-at-start", disk / "start" / "state.db"
    for each in (folder, db.parent):
        each.mkdir()
    options = ("--db", str(db), "--clock", "frozen")
    ballast = disk / "ballast"
    _fill(ballast, random.choice((0, 4, 8, 16, 40, 80, 120)) * 1024)
    try:
        with serving(folder, *options) as server:
            report.expect(server.stop() in (0, 1), "the exit code on a full disk", server.err[-400:])
    except DidNotStart as failed:
        said = failed.err.strip()
        lines = said.splitlines()
        is_clear = failed.code == 1 and lines[1:] == [_NEXT] and not in_text(said)
        report.expect(is_clear, "a start on a full disk is refused without a clear line", str(failed))
    ballast.unlink()
    report.count("starts on a full disk")
    try:
        with serving(folder, *options) as server:
            answer = caller(server.port).message("POST", "publish/http://a.example/", body="x")
            report.expect(answer.is_good, "no publish after a start on a full disk", str(answer))
            server.stop()
    except DidNotStart as failed:
        report.found("no start after one on a full disk", str(failed))


# -- writes that fail -------------------------------------------------------------------------


def _limited(folder: Path, random: Random, report: Report) -> None:
    """Every write beyond a size of a file fails, until the limit is lifted."""
    import resource  # Linux has it whole, Windows has none.

    options = ("--db", str(folder / "state.db"), "--clock", "frozen")
    limit = random.randrange(300, 900) * 1024
    with serving(folder, *options) as server:
        pid = server.process.pid
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
        acknowledged = _publish_until_refused(server, report, kind="when writes fail")
        if not acknowledged.is_refused:
            return
        _check_broken(server, report, kind="when writes fail", full_disk=False)
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        _check_recovery(server, acknowledged, report, kind="after writes failed")
        _check_exit(server, report, kind="after writes failed")
    report.count("limits on files")
    _check_after_restart(folder, options, acknowledged, report, kind="after writes failed")


# -- a file that vanishes ---------------------------------------------------------------------


def _deleted(folder: Path, random: Random, report: Report) -> None:
    """The database is deleted, or another file put in its place: no publish is acknowledged from then on."""
    db = folder / "state.db"
    with serving(folder, "--db", str(db), "--clock", "frozen") as server:
        owner = caller(server.port)
        for number in range(random.randrange(5)):
            owner.message("POST", "publish/http://a.example/", {"Svc-Delay": "1d"}, f"before-{number}")
        how = random.choice(("deleted", "replaced", "moved"))
        if how == "replaced":
            (folder / "other").write_bytes(bytes(8192))
            (folder / "other").replace(db)
        elif how == "moved":
            db.rename(folder / "elsewhere.db")
        else:
            for each in folder.glob("state.db*"):
                each.unlink()
        kind = "after the database file was deleted or replaced"
        refused = _await(
            lambda: owner.message("POST", "publish/http://a.example/", body="x"),
            lambda answer: not answer.is_good,
            _NOTICE_S,
        )
        report.expect(not refused.is_good, f"publishes continue {kind}", f"{how}: {refused} for {_NOTICE_S:.0f} s")
        if not refused.is_good:
            report.expect(refused.is_clear_refusal and refused.status >= 500, f"no clear error {kind}", str(refused))
            _check_health(server, report, kind=kind, status=503)
        _check_exit(server, report, kind=kind)
    report.count(f"databases {how}")


# -- what holds for all of them ---------------------------------------------------------------


class _Acknowledged:
    """The bodies of acknowledged messages, and whether a publish was refused in the end."""

    def __init__(self) -> None:
        self.bodies: list[str] = []
        self.is_refused = False


def _publish_until_refused(server: Server, report: Report, *, kind: str, status: int | None = None) -> _Acknowledged:
    found = _Acknowledged()
    owner = caller(server.port)
    for number in range(_MOST_PUBLISHES):
        body = f"{number:08}" + "x" * 8192
        # The longest delay there is: nothing of it ends, or is delivered, before the checks.
        answer = owner.message("POST", "publish/http://a.example/", {"Svc-Delay": "300d"}, body)
        if answer.is_good:
            found.bodies.append(body)
            continue
        found.is_refused = True
        is_right = answer.is_clear_refusal and (answer.status == status if status else answer.status >= 500)
        report.expect(is_right, f"no clear error {kind}", f"expected {status or '5xx'}: {answer}")
        break
    report.expect(found.is_refused, f"nothing was refused {kind}", f"{len(found.bodies)} publishes")
    report.count(f"messages acknowledged before an error {kind}", len(found.bodies))
    return found


def _check_broken(server: Server, report: Report, *, kind: str, full_disk: bool) -> None:
    """While it lasts: every answer is clear, health tells, worlds are listed."""
    owner = caller(server.port)
    _check_health(server, report, kind=kind, status=200 if full_disk else 503)
    worlds = owner.control("GET", "/worlds")
    report.expect(worlds.status == 200, f"the worlds cannot be listed {kind}", str(worlds))
    calls = {
        "POST /worlds": owner.control("POST", "/worlds", {"id": "another"}),
        "POST /snapshots": owner.control("POST", "/snapshots", {"name": "one"}),
        "POST /clock/advance": owner.control("POST", "/clock/advance", {"by": "1s"}),
        "POST /destinations": owner.control(
            "POST", "/destinations", {"match": {"url": "*"}, "respond": {"status": 200}}
        ),
        "GET /trace": owner.control("GET", "/trace"),
        "GET /v2/schedules": owner.message("GET", "schedules"),
    }
    for name, answer in calls.items():
        is_clear = answer.is_good or answer.is_clear_refusal
        report.expect(is_clear, f"no clear answer {kind}", f"{name}: {answer}")
        if full_disk and answer.status >= 500:
            report.expect(answer.status == 507, f"another status than 507 {kind}", f"{name}: {answer}")
    report.expect(not in_text(server.err), f"the log {kind}", server.err[-600:])
    lines = server.err.splitlines()
    report.expect(len(lines) < 60, f"too many lines in the log {kind}", f"{len(lines)}: {lines[-3:]}")


def _check_health(server: Server, report: Report, *, kind: str, status: int) -> None:
    """Health must not say that all is well; where the world continues by itself, it is no failure (D-282)."""
    answer = Caller(server.port).call("GET", "/_emulator/health")
    report.expect(answer.status == status, f"the status of health {kind}", f"expected {status}: {answer}")
    content = answer.json
    says_ok = answer.is_good and isinstance(content, dict) and content.get("status") == "ok"
    report.expect(not says_ok, f"health says ok {kind}", str(answer))


def _check_recovery(server: Server, acknowledged: _Acknowledged, report: Report, *, kind: str) -> None:
    """Without a restart a publish works again, and everything acknowledged is there."""
    owner = caller(server.port)
    answer = _await(
        lambda: owner.message("POST", "publish/http://a.example/", {"Svc-Delay": "300d"}, "again"),
        lambda answer: answer.is_good,
        _RECOVERY_S,
    )
    report.expect(answer.is_good, f"no publish {kind}", f"for {_RECOVERY_S:.0f} s: {answer}")
    if answer.is_good:
        acknowledged.bodies.append("again")
        _check_messages(owner, acknowledged, report, kind=kind)


def _check_messages(owner: Caller, acknowledged: _Acknowledged, report: Report, *, kind: str) -> None:
    try:
        there = created_bodies(owner)
    except NoAnswer as failed:
        report.found(f"the messages cannot be read {kind}", str(failed))
        return
    lost = [body[:8] for body in acknowledged.bodies if hash_of(body) not in there]
    report.expect(not lost, f"an acknowledged message is lost {kind}", f"{lost[:5]} of {len(lost)}")
    report.count("acknowledged messages found", len(acknowledged.bodies) - len(lost))


def _check_exit(server: Server, report: Report, *, kind: str) -> None:
    """1, because a world had stopped, even if it has gone on since (D-283)."""
    code = server.stop()
    report.expect(code == 1, f"the exit code {kind}", f"{code}, expected 1: {server.err[-300:]}")


def _check_after_restart(
    folder: Path, options: tuple[str, ...], acknowledged: _Acknowledged, report: Report, *, kind: str
) -> None:
    try:
        with serving(folder, *options) as server:
            _check_messages(caller(server.port), acknowledged, report, kind=f"{kind} and a restart")
            server.stop()
    except DidNotStart as failed:
        report.found(f"no start {kind}", str(failed))


def _await(call: Callable[[], Answer], is_wanted: Callable[[Answer], bool], within_s: float) -> Answer:
    """Call until the answer is as expected; the last answer if it never is."""
    pause, end = threading.Event(), time.monotonic() + within_s
    while True:
        answer = call()
        if is_wanted(answer) or time.monotonic() > end:
            return answer
        pause.wait(0.2)
