"""Hostile files: a start works with them or refuses them in one clear line, and takes no other world along.

What is changed inside a value, no check of SQLite finds (D-284): such a world may show other data.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from base64 import b64encode
from dataclasses import dataclass, field
from pathlib import Path

from campaign import hostile_files
from campaign.calls import Answer, Caller, NoAnswer, caller
from campaign.programs import EPOCH, ROOT, DidNotStart, Server, in_text, run, serving
from campaign.rounds import Report, Round

_FROZEN = ("--clock", "frozen")
_READ = ("/trace", "/credentials", "/destinations", "/snapshots", "/upcoming", "/deliveries", "/accounts", "/clock")
_READ_V2 = ("logs?count=100", "events?count=100&order=earliestFirst", "dlq", "schedules", "topics", "queues", "keys")
_WORLDS = ("default", "other")


def play(round: Round) -> None:
    """A good database, and damaged copies of it; then files that people write, damaged or hostile."""
    base = _Base.make(round.folder / "base")
    for number in range(6):
        _damaged_database(base, round, number)
    for number in range(2):
        _tampered_database(base, round, number)
    _imports(base, round)
    _mutants(base, round)
    _fixtures(round)
    _toml_files(round)


# -- what a database holds --------------------------------------------------------------------


@dataclass
class _Base:
    """A database with two worlds, a clean copy and one as a crash leaves it, and all that can be read of them."""

    stopped: Path
    crashed: Path
    seen: dict[str, bytes] = field(default_factory=dict)

    @classmethod
    def make(cls, folder: Path) -> _Base:
        folder.mkdir()
        base = cls(stopped=folder / "stopped", crashed=folder / "crashed")
        base.stopped.mkdir()
        with serving(base.stopped, "--db", "state.db", *_FROZEN, "--epoch", EPOCH) as server:
            Caller(server.port).control("POST", "/worlds", {"id": "other", "epoch": EPOCH})
            for world in _WORLDS:
                _live(caller(server.port, world))
            base.seen = {world: _all_of(server, world) for world in _WORLDS}
            server.kill()
        shutil.copytree(base.stopped, base.crashed)
        with serving(base.stopped, "--db", "state.db", *_FROZEN) as server:
            server.stop()
        return base


def _live(owner: Caller) -> None:
    """A little of everything."""
    owner.control("POST", "/destinations", {"match": {"url": "*broken*"}, "respond": {"status": 500}})
    for number in range(40):
        owner.message("POST", f"publish/http://a.example/{number}", {"Svc-Label": "l"}, f"body-{number}" * 20)
    owner.message("POST", "publish/http://broken.example/", {"Svc-Retries": "2"}, "never")
    owner.message("POST", "publish/http://later.example/", {"Svc-Delay": "30d"}, "later")
    asked = {"Svc-Cron": "0 * * * *", "Svc-Schedule-Id": "hourly"}
    owner.message("POST", "schedules/http://tick.example/", asked, "tick")
    owner.control("POST", "/clock/advance", {"by": "1d"})
    owner.control("POST", "/snapshots", {"name": "kept"})
    owner.message("POST", "enqueue/queue/http://queued.example/", {}, "queued")


def _live_more(owner: Caller) -> None:
    """Runs, dead letters, callbacks, duplicates and messages that wait: something in every table."""
    flow = "http://flow.example/"
    rules: tuple[dict[str, object], ...] = (
        {"match": {"url": f"{flow}*"}, "respond": {"status": 200, "headers": {"Svc-Workflow-Sdk-Version": "1"}}},
        {"match": {"url": "*twice*"}, "respond": {"status": 200}, "duplicate": "1s"},
    )
    for rule in rules:
        owner.control("POST", "/destinations", rule)
    for number in range(3):
        run = {
            "Svc-Workflow-RunId": f"wfr_{number}",
            "Svc-Workflow-Url": flow,
            "Svc-Feature-Set": "LazyFetch,InitialBody",
            "Svc-Forward-Svc-Workflow-Sdk-Version": "1",
        }
        owner.message("POST", f"publish/{flow}", {**run, "Svc-Workflow-Init": "true", "Svc-Label": "run"}, "{}")
        step = {"stepId": 1, "stepName": "one", "stepType": "Run", "out": "1", "concurrent": 1}
        owner.message("POST", f"publish/{flow}", {**run, "Svc-Workflow-Init": "false"}, json.dumps(step))
    owner.message("DELETE", "workflows/runs/wfr_2")
    for number in range(4):
        asked = {"Svc-Retries": "0", "Svc-Failure-Callback": "http://failed.example/", "Svc-Label": "a,b"}
        owner.message("POST", f"publish/http://broken.example/{number}", asked, "lost")
        owner.message("POST", "publish/http://twice.example/", {"Svc-Callback": "http://back.example/"}, "twice")
        owner.message(
            "POST", "publish/http://k.example/", {"Svc-Flow-Control-Key": "k", "Svc-Flow-Control-Value": "rate=1"}
        )
        owner.message("POST", "publish/http://once.example/", {"Svc-Deduplication-Id": "once"}, "once")
    owner.message("POST", "publish/http://later.example/", {"Svc-Delay": "30d", "Svc-Retry-Delay": "1000"}, "later")
    owner.control("POST", "/clock/advance", {"by": "1h"})


def _all_of(server: Server, world: str) -> bytes:
    """All that can be read of a world. Raises NoAnswer where something cannot."""
    owner = caller(server.port, world)
    answers = [
        owner.control("GET", path, limit="1000") if path in _LIMITED else owner.control("GET", path) for path in _READ
    ]
    answers += [owner.message("GET", path) for path in _READ_V2]
    for name, answer in zip((*_READ, *_READ_V2), answers, strict=True):
        if answer.status != 200:
            raise _Refused(f"{world} {name}: {answer}", answer)
    # What a snapshot takes on the disk is no data of the world.
    snapshots = [{**each, "size_bytes": 0} for each in answers[3].json["snapshots"]]
    return b"\n".join(
        [*(each.body for each in answers[:3]), json.dumps(snapshots).encode(), *(each.body for each in answers[4:])]
    )


_LIMITED = ("/upcoming", "/deliveries")


class _Refused(Exception):
    """Something of a world was not served."""

    def __init__(self, text: str, answer: Answer) -> None:
        super().__init__(text)
        self.answer = answer


# -- databases --------------------------------------------------------------------------------


def _damaged_database(base: _Base, round: Round, number: int) -> None:
    """Damage one of the files of a database: that of a world, its log, or a snapshot."""
    random = round.random
    folder = round.folder / f"damaged-{number}"
    shutil.copytree(random.choice((base.stopped, base.stopped, base.crashed)), folder)
    files = sorted(each for each in folder.rglob("*.db*") if each.is_file() and each.stat().st_size)
    victim = random.choice([each for each in files if not each.name.endswith("-shm")])
    how = hostile_files.damage(victim, random)
    round.report.count("damaged databases")
    _open(folder, base, f"{victim.relative_to(folder)}: {how}", round.report)


def _tampered_database(base: _Base, round: Round, number: int) -> None:
    folder = round.folder / f"tampered-{number}"
    shutil.copytree(base.stopped, folder)
    victim = round.random.choice(sorted(folder.glob("state.db")) + sorted(folder.glob("state.db-worlds/*.db")))
    how = hostile_files.tamper(victim, round.random)
    if how.startswith(("not", "nothing")):
        return
    round.report.count("tampered databases")
    _open(folder, base, f"{victim.relative_to(folder)}: {how}", round.report)


def _open(folder: Path, base: _Base, what: str, report: Report) -> None:
    """Start with it: refused in one line, or served."""
    try:
        with serving(folder, "--db", "state.db", *_FROZEN) as server:
            is_readable = _compare(server, base, what, report)
            server.stop()
            if is_readable:
                report.expect(not in_text(server.err), "the log about a damaged file", f"{what}: {server.err[-500:]}")
    except DidNotStart as failed:
        _check_line(failed.code, failed.err, "a damaged database", what, report, codes=(1,))
        report.count("damaged databases refused")


def _compare(server: Server, base: _Base, what: str, report: Report) -> bool:
    """Read every world; whether all of it could be read."""
    listed = Caller(server.port).control("GET", "/worlds")
    if not listed.is_good:
        report.expect(listed.is_clear_refusal, "no list of worlds of a damaged database", f"{what}: {listed}")
        return True
    there = {each["id"] for each in listed.json["worlds"]}
    is_told, is_readable = bool(server.err.strip()), True
    for world in _WORLDS:
        if world not in there:
            report.expect(is_told, "a world is silently gone", f"{what}: {world}")
            continue
        try:
            seen = _all_of(server, world)
        except _Refused as refused:
            report.count("worlds of damaged databases that cannot be read whole")
            is_readable = is_readable and refused.answer.is_clear_refusal
            continue
        except NoAnswer as failed:
            report.found("an answer breaks off for damaged data", f"{what}: {failed}")
            continue
        is_same = seen == base.seen[world]
        report.count("worlds of damaged databases as they were" if is_same else "worlds with other data")
    return is_readable


def _check_line(
    code: int, err: str, kind: str, what: str, report: Report, *, codes: tuple[int, ...] = (1, 2), most: int = 2
) -> None:
    """A refusal: an exit code of a failure, and clear lines, the last of which says what to do next."""
    problems = in_text(err)
    lines = err.strip().splitlines()
    if code not in codes:
        problems.append(f"exit code {code}")
    if not 1 <= len(lines) <= most:
        problems.append(f"{len(lines)} lines")
    report.expect(not problems, f"{kind} is not refused in one clear line", f"{what}: {problems}: {err[-400:]}")


# -- snapshots --------------------------------------------------------------------------------


def _imports(base: _Base, round: Round) -> None:
    """Damaged snapshots, imported into a server: refused, or the same world after a restore."""
    random, report = round.random, round.report
    good = base.stopped / "state.db-snapshots" / "other" / "kept.db"
    folder = round.folder / "imports"
    folder.mkdir()
    with serving(folder, *_FROZEN) as server:
        owner = caller(server.port)
        wanted = _restored(owner, good.read_bytes())
        for _ in range(12):
            copy = folder / "copy.db"
            shutil.copy(good, copy)
            how = hostile_files.damage(copy, random) if random.random() < 0.7 else hostile_files.tamper(copy, random)
            report.count("damaged snapshots imported")
            try:
                is_same = _restored(owner, copy.read_bytes()) == wanted
                report.count("damaged snapshots restored" if is_same else "damaged snapshots with other data")
            except _Refused as refused:
                report.expect(
                    refused.answer.status < 500 and refused.answer.is_clear_refusal,
                    "a damaged snapshot is not refused clearly",
                    f"{how}: {refused}",
                )
        report.count("hostile bodies", 12)
        for _ in range(12):
            body = hostile_files.hostile_json(random)
            answer = owner.control("POST", "/worlds", body)
            is_fine = answer.is_good or (answer.status < 500 and answer.is_clear_refusal)
            is_fine = is_fine and not in_text(json.dumps(answer.json, ensure_ascii=False).replace("\\", ""))
            report.expect(is_fine, "a hostile body of POST /worlds", f"{body[:60]!r}: {answer}")
        report.expect(not in_text(server.err), "the log about hostile imports", server.err[-600:])
        server.stop()


_READ_OF_MUTANTS = (*_READ, "/messages", "/runs", "/queues", "/schedules", "/dlq", "/worlds", "/health", "/metrics")
_MUTANTS = 40
_OPENED = 10


def _mutants(base: _Base, round: Round) -> None:
    """Snapshots with a changed row: refused, or every reader answers, at worst with one line about the damage."""
    random, report = round.random, round.report
    folder = round.folder / "mutants"
    folder.mkdir()
    with serving(folder, *_FROZEN, "--epoch", EPOCH) as server:
        source, victim, other = (caller(server.port, world) for world in _made(server, "source", "victim", "other"))
        for owner in (source, other):
            _live(owner)
            _live_more(owner)
        source.control("POST", "/snapshots", {"name": "good"})
        good = source.control("GET", "/snapshots/good/file").body
        # What the victim is restored to must not have a token of a living world.
        server_trace = other.control("GET", "/trace").body
        Caller(server.port).control("DELETE", "/worlds/source")
        for number in range(_MUTANTS):
            copy = folder / f"{number}.db"
            copy.write_bytes(good)
            how = hostile_files.mutate(copy, random)
            if not how:
                continue
            report.count("mutants")
            log_before = len(server.err)
            _read_mutant(victim, copy.read_bytes(), how, report)
            problems = in_text(server.err[log_before:])
            report.expect(not problems, "the log about a mutant", f"{how}: {problems}: {server.err[log_before:][:900]}")
            report.expect(
                other.control("GET", "/trace").body == server_trace, "another world is touched by a mutant", how
            )
            copy.unlink()
        server.stop()
    _opened_mutants(good, round)


def _opened_mutants(good: bytes, round: Round) -> None:
    """The same files as databases: a start looks only at what it loads, so their readers find what is wrong."""
    for number in range(_OPENED):
        folder = round.folder / f"opened-{number}"
        folder.mkdir()
        copy = folder / "state.db"
        copy.write_bytes(good)
        how = hostile_files.mutate(copy, round.random)
        if not how:
            continue
        round.report.count("mutants opened")
        try:
            with serving(folder, "--db", "state.db", *_FROZEN) as server:
                _read_all(caller(server.port), how, round.report)
                problems = in_text(server.err)
                round.report.expect(not problems, "the log about a mutant", f"{how}: {problems}: {server.err[:900]}")
                server.stop()
        except DidNotStart as failed:
            _check_line(failed.code, failed.err, "a mutant", how, round.report, codes=(1,))
            round.report.count("mutants refused at the start")


def _made(server: Server, *worlds: str) -> tuple[str, ...]:
    for world in worlds:
        Caller(server.port).control("POST", "/worlds", {"id": world, "epoch": EPOCH})
    return worlds


def _read_mutant(owner: Caller, file: bytes, how: str, report: Report) -> None:
    """Import it and read all of it."""
    for method, path, body in (("PUT", "/snapshots/given/file", file), ("POST", "/snapshots/given/restore", None)):
        answer = owner.control(method, path, body)
        if not answer.is_good:
            is_clear = answer.status < 500 and answer.is_clear_refusal
            report.expect(is_clear, "a mutant is not refused clearly", f"{how}: {answer}")
            report.count("mutants refused")
            return
    # It may have been restored with other tokens.
    owner.learn_token()
    _read_all(owner, how, report)


def _read_all(owner: Caller, how: str, report: Report) -> None:
    """Read all of a mutant: each answer is good, or one line about the damage."""
    answers = {path: owner.control("GET", path) for path in _READ_OF_MUTANTS}
    answers |= {path: owner.message("GET", path) for path in (*_READ_V2, "workflows/logs", "workflows/dlq")}
    listed = answers["/messages"].json
    for each in (listed or {}).get("messages", ())[:3] if isinstance(listed, dict) else ():
        path = f"/messages/{each.get('id') or each.get('message_id')}/explain"
        answers[path] = owner.control("GET", path)
    bad = {path: answer for path, answer in answers.items() if answer.status >= 500}
    for path, answer in bad.items():
        is_one_line = answer.is_clear_refusal and "damaged: " in str(answer.json["error"])
        report.expect(is_one_line, "a reader does not say that a mutant is damaged", f"{how}: {path}: {answer}")
    report.count("mutants that are found damaged when they are read" if bad else "mutants that are read")


def _restored(owner: Caller, file: bytes) -> bytes:
    """The trace of a snapshot after its import and restore. Raises _Refused."""
    put = owner.control("PUT", "/snapshots/given/file", file)
    if not put.is_good:
        raise _Refused(f"import: {put}", put)
    back = owner.control("POST", "/snapshots/given/restore")
    if not back.is_good:
        raise _Refused(f"restore: {back}", back)
    trace = owner.control("GET", "/trace")
    if not trace.is_good:
        raise _Refused(f"trace: {trace}", trace)
    return trace.body


# -- files that people write ------------------------------------------------------------------


def _fixtures(round: Round) -> None:
    good = (ROOT / "fixtures" / "default.yaml").read_text("utf-8")
    random = round.random
    for text in (random.choice(hostile_files.HOSTILE_YAML), hostile_files.mixed(good, random)):
        path = round.folder / "team.yaml"
        path.write_text(text, "utf-8", errors="replace")
        try:
            done = run(round.folder, "fixtures", "check", "team.yaml")
        except subprocess.TimeoutExpired:
            round.report.found("a fixtures file is read without end", _shown(text))
            continue
        round.report.count("hostile fixtures")
        if done.returncode:
            said = done.stderr or done.stdout
            # One line for each problem.
            _check_line(done.returncode, said, "a fixtures file", _shown(text), round.report, most=60)


def _toml_files(round: Round) -> None:
    """Dialects and settings, in a server that is ended at once where they are good."""
    random = round.random
    dialects = sorted((ROOT / "fixtures" / "dialects").glob("*.toml"))
    mixed = [hostile_files.mixed(each.read_text("utf-8"), random) for each in random.sample(dialects, 1)]
    for text in (random.choice(hostile_files.HOSTILE_TOML), *mixed):
        _serve_with("mine.toml", text, ("--dialect", "mine.toml"), "a dialect", round)
    settings = 'host = "127.0.0.1"\nclock = "frozen"\nseed = 7\nplan = "free"\nlog_level = "info"\n'
    for text in (random.choice(hostile_files.HOSTILE_SETTINGS), hostile_files.mixed(settings, random)):
        _serve_with("emulator.toml", text, (), "a settings file", round)


def _serve_with(name: str, text: str, options: tuple[str, ...], kind: str, round: Round) -> None:
    folder = round.folder / b64encode(round.random.randbytes(6), b"-_").decode()
    folder.mkdir()
    (folder / name).write_text(text, "utf-8", errors="replace")
    round.report.count(f"{kind.removeprefix('a ')}s, hostile")
    try:
        with serving(folder, *options) as server:
            said = "\n".join(server.banner)
            server.stop()
            problems = in_text(server.err) + in_text(said)
            round.report.expect(not problems, f"what is said with {kind}", f"{_shown(text)}: {problems}: {said[:300]}")
    except DidNotStart as failed:
        _check_line(failed.code, failed.err, kind, _shown(text), round.report)


def _shown(text: str) -> str:
    return repr(text if len(text) < 160 else f"{text[:100]}...{text[-40:]}")
