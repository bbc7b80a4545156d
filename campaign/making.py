"""Kills while worlds are made: every next start works, and all acknowledged worlds are there."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from campaign.calls import Caller, NoAnswer, caller
from campaign.programs import DidNotStart, await_start, begin, ended, in_text, serving
from campaign.rounds import Report, Round

_FIRST_STARTS = 5
_STORMS = 2
_MAKERS = 4


def play(round: Round) -> None:
    """Some first starts, each in a folder of its own, and storms of worlds in one database."""
    for number in range(_FIRST_STARTS):
        folder = round.folder / f"first-{number}"
        folder.mkdir()
        _first_start(folder, round.random, round.report)
    _storms(round)


def _first_start(folder: Path, random: Random, report: Report) -> None:
    """Kill a first start as soon as its database appears and a moment later, then start again."""
    options = ("--db", str(folder / "state.db"), "--clock", "frozen")
    with ended(begin(folder, *options)) as server:
        _await_file(folder / "state.db", server.process.poll)
        # The file appears, its tables are made, the server listens: all within some hundredths of a second.
        threading.Event().wait(random.choice((0, 0, random.uniform(0, 0.01), random.uniform(0, 0.15))))
    report.count("kills of a first start")
    _must_start(folder, options, report)


def _await_file(path: Path, poll: object, *, within_s: float = 20) -> None:
    """Return when something of that name or beside it appears: files may be made under another name first."""
    assert callable(poll)
    pause = threading.Event()
    for _ in range(int(within_s / 0.0005)):
        if poll() is not None or any(each.name != "serve.log" for each in path.parent.iterdir()):
            return
        pause.wait(0.0005)


def _must_start(folder: Path, options: tuple[str, ...], report: Report) -> None:
    try:
        with serving(folder, *options) as server:
            published = caller(server.port).message("POST", "publish/http://a.example/", body="x")
            report.expect(published.is_good, "no publish after a killed first start", str(published))
            code = server.stop()
            report.expect(code == 0, "the exit code after a killed first start", f"{code}: {server.err}")
    except DidNotStart as failed:
        report.found("no start after a killed first start", str(failed))


# -- storms -----------------------------------------------------------------------------------


@dataclass
class Made:
    """What one maker knows: worlds that must be there with their tokens, and worlds of which nobody knows."""

    tokens: dict[str, str] = field(default_factory=dict)
    unsure: set[str] = field(default_factory=set)


def _storms(round: Round) -> None:
    random, report = round.random, round.report
    options = ("--db", str(round.folder / "state.db"), "--clock", "frozen")
    everything = [Made() for _ in range(_MAKERS)]
    for storm in range(_STORMS + 1):
        with ended(begin(round.folder, *options)) as server:
            try:
                await_start(server)
            except DidNotStart as failed:
                report.found("no start after a storm of worlds", str(failed))
                return
            _check_worlds(server.port, everything, report)
            if storm == _STORMS:
                report.expect(server.stop() == 0, "the exit code after storms of worlds", server.err[-400:])
                return
            with ThreadPoolExecutor(_MAKERS) as threads:
                running = [
                    threads.submit(_make, server.port, made, f"s{storm}m{number}", Random(random.random()))
                    for number, made in enumerate(everything)
                ]
                threading.Event().wait(random.uniform(0.1, 1.0))
                server.kill()
                report.count("kills of a storm")
                for each in running:
                    each.result()
            report.expect(not in_text(server.err), "the log of a storm of worlds", server.err[-600:])


def _make(port: int, made: Made, prefix: str, random: Random) -> None:
    """Make worlds, and remove some, until the server is gone."""
    try:
        for number in range(10_000):
            name = f"{prefix}-{number}"
            made.unsure.add(name)
            answer = Caller(port).control("POST", "/worlds", {"id": name})
            if answer.status == 201:
                made.tokens[name] = answer.json["credentials"]["queue"]["token"]
                made.unsure.discard(name)
            if made.tokens and random.random() < 0.2:
                gone = random.choice(sorted(made.tokens))
                del made.tokens[gone]
                made.unsure.add(gone)
                if Caller(port).control("DELETE", f"/worlds/{gone}").is_good:
                    made.unsure.discard(gone)
    except NoAnswer:
        pass  # The kill.


def _check_worlds(port: int, everything: list[Made], report: Report) -> None:
    listed = Caller(port).control("GET", "/worlds")
    if listed.status != 200:
        report.found("the worlds cannot be listed after a storm", str(listed))
        return
    there = {each["id"]: each["credentials"]["queue"]["token"] for each in listed.json["worlds"]}
    for made in everything:
        for name, token in made.tokens.items():
            report.expect(there.get(name) == token, "an acknowledged world is lost", name)
            report.count("acknowledged worlds found")
        # What came of the others is certain now.
        made.tokens.update({name: there[name] for name in made.unsure if name in there})
        made.unsure.clear()
    known = {"default"}.union(*(made.tokens for made in everything))
    report.expect(set(there) == known, "a world is back, or was never made", str(sorted(set(there) ^ known)[:5]))
    for name in sorted(known)[:5]:
        answer = caller(port, name).message("POST", "publish/http://a.example/", body="x")
        report.expect(answer.is_good, "a world that survived a storm does not work", f"{name}: {answer}")
