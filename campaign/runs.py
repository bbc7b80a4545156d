"""Workflow runs that are wide, and runs that invoke each other beside headers that lie about how deep they are."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from campaign.calls import Answer, Caller, NoAnswer, caller
from campaign.programs import EPOCH, Server, in_text, serving
from campaign.receiver import receiving
from campaign.rounds import Report, Round

_FLOW = "http://flow.example/"
_JSON = {"Content-Type": "application/json"}
_VERSION = {"Svc-Workflow-Sdk-Version": "1"}
# Calls of a wide run may take long on a busy machine; what is bounded is the time of the processor.
_PATIENCE_S = 120.0


# -- wide runs --------------------------------------------------------------------------------

_WIDTHS = (200, 1_000, 4_000, 10_000)
# Seconds of the processor for 10,000 steps: to publish them, and to read the run when history is written.
_PUBLISH_S, _READ_S = 10.0, 2.0
_MEMORY = 400 * 1024 * 1024
# What a call delivers is looked at for a run of this width, whose calls reach a real endpoint.
_DELIVERED = 60


def play_wide(round: Round) -> None:
    """A run with thousands of parallel steps, ended by a kill and read again, and a small one that is delivered."""
    random, report = round.random, round.report
    width = _WIDTHS[round.number % len(_WIDTHS)]
    db = ("--db", "state.db")
    clock = ("--clock", random.choice(("frozen", "realtime")), "--epoch", EPOCH)
    options = (*db, *clock, "--server", random.choice(("uvicorn", "hypercorn")), "--external", "capture")
    with serving(round.folder, *options) as server:
        owner = caller(server.port, timeout_s=_PATIENCE_S)
        before = _cpu_s(server)
        _good(owner.message("POST", f"publish/{_FLOW}", _of_run("wide", _FLOW, init=True), "{}"))
        plans = [_step(0, number, width, targetStep=number + 1) for number in range(width)]
        _good(_batch(owner, "wide", plans))
        published = _cpu_s(server)
        _check_wide(owner, width, 0, report)
        read = _cpu_s(server)
        _check_wide(owner, width, 0, report)
        read_again = _cpu_s(server)
        report.highest("ms of the processor to publish 10,000 steps", 1000 * (published - before))
        report.highest("ms to read their run at first", 1000 * (read - published))
        report.highest("ms to read it again", 1000 * (read_again - read))
        report.expect(published - before < _PUBLISH_S, "publishing parallel steps", f"{published - before:.1f} s CPU")
        report.expect(read_again - read < _READ_S, "reading a wide run", f"{read_again - read:.1f} s CPU")
        done = random.randint(1, width)
        results = [_step(number + 1, number, width, out=f'"{number}"') for number in range(done)]
        _good(_batch(owner, "wide", results))
        _check_wide(owner, width, done, report)
        if width == 10_000:
            _check_limit(owner, width, done, report)
            done = width
        report.expect(server.memory < _MEMORY, "memory of a wide run", f"{server.memory >> 20} MiB for {width}")
        report.highest("MiB of memory at most", server.memory / 1024**2)
        report.expect(not in_text(server.err), "the log of a wide run", server.err[-600:])
        server.kill()
    with serving(round.folder, *db, "--clock", "frozen", "--external", "capture") as server:
        _check_wide(caller(server.port, timeout_s=_PATIENCE_S), width, done, report)
        report.expect(server.stop(within_s=_PATIENCE_S) == 0, "the exit code after a wide run", server.err[-400:])
    _deliver(round.folder, report)
    report.count("parallel steps", width)


def _check_wide(owner: Caller, width: int, done: int, report: Report) -> None:
    """The run has all its steps, of which so many have a result."""
    shown = _good(owner.control("GET", "/runs/wide")).json
    steps = [step for group in shown["steps"] if group["parallel"] for step in group["steps"]]
    succeeded = sum(step["state"] == "STEP_SUCCESS" for step in steps)
    report.expect(
        (len(steps), succeeded) == (width, done),
        "the steps of a wide run",
        f"{len(steps)} of {width}, {succeeded} of {done} with a result",
    )


def _check_limit(owner: Caller, width: int, done: int, report: Report) -> None:
    """A run takes 20,001 steps, and says so to the next one."""
    rest = [_step(number + 1, number, width, out='"late"') for number in range(done, width)]
    if rest:
        _good(_batch(owner, "wide", rest))
    refused = owner.message("POST", f"publish/{_FLOW}", _of_run("wide", _FLOW), _step(width + 1, width, 1, out="1"))
    is_named = refused.status == 412 and "20001 steps" in str(refused)
    report.expect(is_named, "a run without a limit of steps", str(refused))
    report.count("runs filled to their limit")


def _deliver(folder: Path, report: Report) -> None:
    """Each call of a run delivers all steps up to its own, in order, none twice."""
    with receiving(lambda path, headers, body: _VERSION) as receiver, serving(folder, "--clock", "frozen") as server:
        owner, url = caller(server.port), receiver.url("flow")
        _good(owner.message("POST", f"publish/{url}", _of_run("small", url, init=True), "{}"))
        plans = [_step(0, number, _DELIVERED, targetStep=number + 1) for number in range(_DELIVERED)]
        ids = [each["messageId"] for each in _good(_batch(owner, "small", plans, url)).json]
        _good(owner.control("POST", "/clock/advance", {"by": "1h"}))
        lists = [[each["messageId"] for each in json.loads(arrival.body)] for arrival in receiver.arrivals]
        wanted = [ids[:number] for number in range(_DELIVERED + 1)]
        found = sorted((each[1:] for each in lists), key=len)
        report.expect(found == wanted, "the steps that calls deliver", f"{[len(each) for each in found]}")
        report.count("calls whose steps were compared", len(lists))
        report.expect(server.stop() == 0, "the exit code after deliveries of steps", server.err[-400:])


def _of_run(run: str, url: str, *, init: bool = False) -> dict[str, str]:
    """The headers of a message of a run, as clients of workflows send them."""
    return {
        "Svc-Workflow-RunId": run,
        "Svc-Workflow-Init": "true" if init else "false",
        "Svc-Workflow-Url": url,
        "Svc-Forward-Svc-Workflow-Sdk-Version": "1",
        "Svc-Feature-Set": "LazyFetch,InitialBody",
        **_JSON,
    }


def _step(step_id: int, number: int, width: int, **more: object) -> str:
    named = {"stepId": step_id, "stepName": f"step-{number}", "stepType": "Run", "concurrent": width}
    return json.dumps({**named, **more})


def _batch(owner: Caller, run: str, bodies: list[str], url: str = _FLOW) -> Answer:
    headers = _of_run(run, url)
    items = [{"destination": url, "headers": headers, "body": body} for body in bodies]
    return owner.message("POST", "batch", _JSON, json.dumps(items))


def _good(answer: Answer) -> Answer:
    if not answer.is_good:
        raise NoAnswer(str(answer))
    return answer


def _cpu_s(server: Server) -> float:
    """The seconds that a process has had of the processor; 0 where the system does not say."""
    try:
        fields = Path(f"/proc/{server.process.pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


# -- chains -----------------------------------------------------------------------------------

_CHAINS = 4
# A run that is invoked beyond it is refused.
_DEEPEST = 100
_CHAIN_S = 120.0
# What an endpoint writes into the header in which clients count, None leaves it out. Below 100 for a chain's first
# runs, so that it is the runs themselves that end it.
_LOW = (None, "0", "-1", "", "abc", "1e9", "0x7f", "1.5", "0,0", " 7 ", "\u0663", "\u00b2", "\u2468")
_HIGH = ("100", "101", "999999999", "99999999999999999999", "0" * 20 + "101")


@dataclass
class _Chains:
    """An endpoint whose runs invoke the next one in each first call."""

    random: Random
    owner: Caller | None = None
    url: str = ""
    begun: dict[str, int] = field(default_factory=dict)
    # Of each chain, how its last invocation was refused.
    refused: dict[str, Answer] = field(default_factory=dict)
    strange: list[str] = field(default_factory=list)
    changed: threading.Condition = field(default_factory=threading.Condition)

    def answer(self, path: str, headers: Mapping[str, str], body: str) -> Mapping[str, str]:
        lower = {name.lower(): value for name, value in headers.items()}
        if lower.get("svc-workflow-init") == "true":
            try:
                self._invoke_next(lower["svc-workflow-runid"])
            except NoAnswer as failed:
                self.strange.append(str(failed))
        # An answer that lies changes nothing either.
        return {**_VERSION, "Svc-Workflow-Invoke-Count": "0", "Svc-Workflow-RunId": "another"}

    def _invoke_next(self, outer: str) -> None:
        chain, _, number = outer.rpartition("-")
        with self.changed:
            # Later attempts of the same call invoke the same run again.
            self.begun[chain] = max(self.begun.get(chain, 0), int(number) + 1)
            lies = [*_LOW, *_HIGH] if chain.endswith("high") and int(number) > 20 else list(_LOW)
            lie = self.random.choice(lies)
            ends_itself = self.random.random() < 0.3
        answer = self.invoke(f"{chain}-{int(number) + 1}", outer, lie)
        if ends_itself and answer.is_good:
            self._call("DELETE", f"workflows/runs/{outer}?cancel=false", {}, "null")
        if not answer.is_good:
            with self.changed:
                self.refused[chain] = answer
                self.changed.notify_all()

    def invoke(self, inner: str, outer: str, lie: str | None) -> Answer:
        headers = {**_of_run(inner, self.url, init=True), "Svc-Workflow-Invoke": "true", "Svc-Retries": "1"}
        if lie is not None:
            # Headers go out in Latin-1, and are read as UTF-8.
            headers["Svc-Forward-Svc-Workflow-Invoke-Count"] = lie.encode().decode("latin-1")
        step = {"stepId": 1, "stepName": "next", "stepType": "Invoke", "concurrent": 1}
        invoker = {"workflowRunId": outer, "workflowUrl": self.url, "workflowRunCreatedAt": 0, "headers": {}}
        return self._call("POST", f"publish/{self.url}", headers, json.dumps({**invoker, "body": "{}", "step": step}))

    def _call(self, method: str, path: str, headers: Mapping[str, str], body: str) -> Answer:
        assert self.owner is not None
        answer = self.owner.message(method, path, headers, body)
        if not (answer.is_good or (answer.status < 500 and answer.is_clear_refusal)):
            self.strange.append(f"{method} {path}: {answer}")
        return answer


def play_forged(round: Round) -> None:
    """Chains of runs at a real endpoint, which writes what it likes into the header that counts."""
    random, report = round.random, round.report
    chains = _Chains(random)
    clock = random.choice(("frozen", "realtime"))
    with receiving(chains.answer) as receiver, serving(round.folder, "--clock", clock) as server:
        chains.owner, chains.url = caller(server.port, timeout_s=_PATIENCE_S), receiver.url("flow")
        names = [f"chain-{number}-{'high' if number % 2 else 'low'}" for number in range(_CHAINS)]
        for name in names:
            started = _of_run(f"{name}-0", chains.url, init=True)
            _good(chains.owner.message("POST", f"publish/{chains.url}", started, "{}"))
        with chains.changed:
            has_ended = chains.changed.wait_for(lambda: len(chains.refused) == len(names), _CHAIN_S)
        report.expect(has_ended, "a chain of runs does not end", str(chains.begun))
        for name in names:
            begun, refused = chains.begun.get(name, 0), chains.refused.get(name)
            # The first run is at depth 0.
            is_right = begun <= _DEEPEST + 1 and (begun == _DEEPEST + 1 or name.endswith("high"))
            report.expect(is_right, "where a chain of runs ends", f"{name}: {begun} runs, {refused}")
            report.expect(refused is None or refused.status == 412, "how a chain of runs ends", f"{name}: {refused}")
            report.count("runs in chains", begun)
        report.expect(not chains.strange, "an answer to a chain of runs", "; ".join(chains.strange[:3]))
        report.expect(server.stop() == 0, "the exit code after chains of runs", server.err[-400:])
        report.expect(not in_text(server.err), "the log of chains of runs", server.err[-600:])
    report.count("chains that ended", len(chains.refused))
