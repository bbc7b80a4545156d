"""Changes of whole worlds: each was done or was not when the process is killed, and they happen beside traffic."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from campaign.calls import Answer, Caller, NoAnswer, caller, created_bodies, hash_of
from campaign.programs import EPOCH, DidNotStart, in_text, serving
from campaign.rounds import Report, Round

_KILLS = 8
_HOUR_MS = 3_600_000
_FROZEN = ("--clock", "frozen", "--epoch", EPOCH)

# When a world's clock stands, and the bodies of its messages, as hashes.
Content = tuple[int, frozenset[str]]


def content_of(owner: Caller) -> Content:
    """What distinguishes one state of a world from another. Raises NoAnswer."""
    clock = owner.control("GET", "/clock")
    if not clock.is_good:
        raise NoAnswer(f"GET /clock: {clock}")
    return clock.json["now_ms"], frozenset(created_bodies(owner))


# -- kills ------------------------------------------------------------------------------------


@dataclass
class _Known:
    """What the acknowledged calls say about the worlds that are made and removed."""

    there: dict[str, Content] = field(default_factory=dict)
    # Made or removed by a call without an answer: whole, or not there.
    unsure: dict[str, Content] = field(default_factory=dict)
    made: int = 0


def play_kills(round: Round) -> None:
    """One database; one kind of change after the other is done again and again until the process is killed."""
    random, report = round.random, round.report
    known = _Known()
    options = ("--db", str(round.folder / "state.db"), *_FROZEN)
    states: list[Content] = []
    for number in range(_KILLS + 1):
        try:
            with serving(round.folder, *options) as server:
                if number == 0:
                    states = _prepare(server.port)
                else:
                    _check(server.port, round.folder, known, states, report)
                if number == _KILLS:
                    report.expect(server.stop() == 0, "the exit code after changes of worlds", server.err[-400:])
                    return
                change = random.choice((_fork_and_remove, _fork_and_remove, _undo, _restore, _import))
                with ThreadPoolExecutor(1) as threads:
                    running = threads.submit(_until_killed, change(server.port, known, states, random), report)
                    threading.Event().wait(random.uniform(0.02, 0.6))
                    server.kill()
                    running.result()
                report.count(f"kills during {change.__name__.strip('_').replace('_', ' ')}")
                report.expect(not in_text(server.err), "the log of a killed server", server.err[-600:])
        except DidNotStart as failed:
            report.found("no start after a kill during changes of worlds", str(failed))
            return


def _prepare(port: int) -> list[Content]:
    """A world with two snapshots and one with messages to come; the states of the first."""
    for name in ("restored", "moved"):
        made = Caller(port).control("POST", "/worlds", {"id": name, "epoch": EPOCH})
        if made.status != 201:
            raise NoAnswer(f"the world {name} was not made: {made}")
    states = []
    for snapshot in ("first", "second"):
        for name in ("restored", "moved"):
            owner = caller(port, name)
            for number in range(30):
                owner.message("POST", "publish/http://a.example/", {"Svc-Delay": "30m"}, f"{snapshot}-{name}-{number}")
        owner = caller(port, "restored")
        owner.control("POST", "/clock/advance", {"by": "10m"})
        owner.control("POST", "/snapshots", {"name": snapshot})
        states.append(content_of(owner))
    return [*states, content_of(caller(port, "moved"))]


def _until_killed(calls: Iterator[Answer], report: Report) -> None:
    try:
        for answer in calls:
            report.count("changes acknowledged" if answer.is_good else "changes refused")
            report.expect(answer.is_good, "a change of a world is refused under kills", str(answer))
    except NoAnswer:
        pass  # The kill.


def _fork_and_remove(port: int, known: _Known, states: list[Content], random: Random) -> Iterator[Answer]:
    source = content_of(caller(port, "restored"))
    while True:
        known.made += 1
        name = f"fork-{known.made}"
        known.unsure[name] = source
        yield Caller(port).control("POST", "/worlds/restored/fork", {"id": name})
        known.there[name] = known.unsure.pop(name)
        if len(known.there) > 3:
            gone = random.choice(sorted(known.there))
            known.unsure[gone] = known.there.pop(gone)
            yield Caller(port).control("DELETE", f"/worlds/{gone}")
            del known.unsure[gone]


def _undo(port: int, known: _Known, states: list[Content], random: Random) -> Iterator[Answer]:
    owner = caller(port, "moved")
    # A kill during an earlier advance has left the clock wherever it was.
    states[2] = content_of(owner)
    while True:
        yield owner.control("POST", "/clock/advance", {"by": "1h", "undoable": True})
        yield owner.control("POST", "/clock/undo")


def _restore(port: int, known: _Known, states: list[Content], random: Random) -> Iterator[Answer]:
    owner = caller(port, "restored")
    while True:
        for name in ("first", "second"):
            yield owner.control("POST", f"/snapshots/{name}/restore")


def _import(port: int, known: _Known, states: list[Content], random: Random) -> Iterator[Answer]:
    owner = caller(port, "restored")
    files = [owner.control("GET", f"/snapshots/{name}/file").body for name in ("first", "second")]
    while True:
        for content in files:
            yield owner.control("PUT", "/snapshots/given/file", content)


def _check(port: int, folder: Path, known: _Known, states: list[Content], report: Report) -> None:
    listed = Caller(port).control("GET", "/worlds").json
    report.expect(not listed.get("unusable"), "a world cannot be opened after a kill", str(listed.get("unusable")))
    there = {each["id"] for each in listed["worlds"]} - {"default", "restored", "moved"}
    lost = known.there.keys() - there
    report.expect(not lost, "an acknowledged fork is lost", str(sorted(lost)))
    strange = there - known.there.keys() - known.unsure.keys()
    report.expect(not strange, "a removed world is back, or was never made", str(sorted(strange)))
    for name in there - strange:
        expected = known.there.get(name) or known.unsure[name]
        found = content_of(caller(port, name))
        report.expect(found == expected, "half of a fork", f"{name}: {_shown(found)}, expected {_shown(expected)}")
        report.count("forks found whole after a kill")
        known.there[name] = expected
    known.there = {name: content for name, content in known.there.items() if name in there}
    known.unsure.clear()
    restored = caller(port, "restored")
    found = content_of(restored)
    report.expect(found in states[:2], "half of a restore", f"{_shown(found)}, expected one of {states[:2]!r:.300}")
    moved_ms, messages = content_of(caller(port, "moved"))
    is_between = states[2][0] <= moved_ms <= states[2][0] + _HOUR_MS and messages == states[2][1]
    report.expect(is_between, "half of an undo", f"{moved_ms}, began at {states[2][0]}")
    snapshots = {each["name"] for each in restored.control("GET", "/snapshots").json["snapshots"]}
    report.expect(snapshots in ({"first", "second"}, {"first", "second", "given"}), "snapshots", str(snapshots))
    hidden = [str(path.relative_to(folder)) for path in folder.rglob(".*")]
    report.expect(not hidden, "something is left of a killed change", str(hidden[:5]))
    if "given" in snapshots:
        back = restored.control("POST", "/snapshots/given/restore")
        report.expect(back.is_good, "an imported snapshot cannot be restored after a kill", str(back))
        report.expect(content_of(restored) in states[:2], "half of an import", str(back))


def _shown(content: Content) -> str:
    return f"{len(content[1])} messages at {content[0]}"


# -- a crowd ----------------------------------------------------------------------------------

_CROWD_S = 4.0
_PUBLISHERS = 2


@dataclass
class _Crowd:
    """What the threads of a crowd share."""

    port: int
    report: Report
    until_s: float
    published: set[str] = field(default_factory=set)
    # Of each acknowledged fork: the messages that were acknowledged before it was asked for.
    forks: dict[str, set[str]] = field(default_factory=dict)
    succeeded: int = 0
    refused: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def note(self, what: str, answer: Answer) -> bool:
        """Count a change of a whole world."""
        with self._lock:
            self.succeeded += answer.is_good
            self.refused += not answer.is_good
        self.report.count(f"{what} done" if answer.is_good else f"{what} refused")
        is_clear = answer.is_good or (answer.status < 500 and answer.is_clear_refusal)
        self.report.expect(is_clear, "a failure of the server in a crowd", f"{what}: {answer}")
        return answer.is_good


def play_crowd(round: Round) -> None:
    """Forks, undos, snapshots and restores at once, of one world and of others, while messages are published."""
    kept = ("--db", str(round.folder / "state.db")) if round.number % 2 else ()
    with serving(round.folder, *kept, *_FROZEN) as server:
        for name in ("moved", "restored"):
            Caller(server.port).control("POST", "/worlds", {"id": name, "epoch": EPOCH})
        crowd = _Crowd(port=server.port, report=round.report, until_s=time.monotonic() + _CROWD_S)
        deeds: list[Callable[[_Crowd, int], None]] = [_publish] * _PUBLISHERS
        deeds += [_fork_default, _fork_default, _snapshot, _move_and_undo, _move_and_undo, _restore_often]
        with ThreadPoolExecutor(len(deeds)) as threads:
            for running in [threads.submit(deed, crowd, number) for number, deed in enumerate(deeds)]:
                running.result()
        share = crowd.succeeded / max(1, crowd.succeeded + crowd.refused)
        round.report.expect(share >= 1 / 3, "too few changes of worlds succeed", f"{share:.0%} of a crowd's")
        _check_crowd(crowd)
        round.report.expect(server.stop() == 0, "the exit code after a crowd", server.err[-400:])
        round.report.expect(not in_text(server.err), "the log of a crowd", server.err[-600:])


def _check_crowd(crowd: _Crowd) -> None:
    created = created_bodies(caller(crowd.port))
    lost = {body for body in crowd.published if hash_of(body) not in created}
    crowd.report.expect(not lost, "an acknowledged message is lost beside changes of worlds", str(sorted(lost)[:5]))
    crowd.report.count("messages published beside changes", len(crowd.published))
    for name, before in crowd.forks.items():
        found = created_bodies(caller(crowd.port, name))
        missing = {body for body in before if hash_of(body) not in found}
        crowd.report.expect(not missing, "a fork lacks what was acknowledged before it", f"{name}: {len(missing)}")
        crowd.report.expect(found <= created, "a fork has what its world never had", name)


def _publish(crowd: _Crowd, number: int) -> None:
    owner, count = caller(crowd.port), 0
    while time.monotonic() < crowd.until_s:
        count += 1
        body = f"p{number}-{count}"
        answer = owner.message("POST", "publish/http://a.example/", {"Svc-Delay": "1h"}, body)
        if answer.is_good:
            crowd.published.add(body)
        crowd.report.expect(answer.is_good, "a publish is refused beside changes of worlds", str(answer))


def _fork_default(crowd: _Crowd, number: int) -> None:
    for count in range(12):
        if time.monotonic() >= crowd.until_s:
            return
        name, before = f"f{number}-{count}", set(crowd.published)
        if crowd.note("forks", Caller(crowd.port).control("POST", "/worlds/default/fork", {"id": name})):
            crowd.forks[name] = before


def _snapshot(crowd: _Crowd, number: int) -> None:
    owner, count = caller(crowd.port), 0
    while time.monotonic() < crowd.until_s:
        count += 1
        crowd.note("snapshots", owner.control("POST", "/snapshots", {"name": f"s{count}"}))
        crowd.note("removals of snapshots", owner.control("DELETE", f"/snapshots/s{count}"))


def _move_and_undo(crowd: _Crowd, number: int) -> None:
    owner = caller(crowd.port, "moved")
    while time.monotonic() < crowd.until_s:
        crowd.note("undoable advances", owner.control("POST", "/clock/advance", {"by": "1h", "undoable": True}))
        crowd.note("undos", owner.control("POST", "/clock/undo"))


def _restore_often(crowd: _Crowd, number: int) -> None:
    owner = caller(crowd.port, "restored")
    owner.control("POST", "/snapshots", {"name": "kept"})
    while time.monotonic() < crowd.until_s:
        owner.message("POST", "publish/http://a.example/", {}, "forgotten")
        crowd.note("restores", owner.control("POST", "/snapshots/kept/restore"))
