"""`svc-emulator tail`: what it prints of a stream, and how it follows one that breaks off."""

from __future__ import annotations

import json
import re
import select
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import httpx
import pytest
from click.testing import CliRunner, Result

from emulator.cli import main
from emulator.cli.control import BrokenOff, Control, NoServer
from emulator.cli.tail import followed
from emulator.queries.history import HistoryPosition
from emulator.wire.event_stream import Kind, written
from tests.cli.shell import said
from tests.harness import emulators
from tests.harness.forks import Forked
from tests.harness.processes import PATIENCE_S, ServerProcess, command, environment, killed_in_time, serving

URL = "https://api.example.com/orders"
AT = {"at": "2026-01-01T00:00:10.000Z", "at_ms": 1_767_225_610_000}


def attempt(
    seq: int, *, status: int | None = 200, url: str = URL, message: str = "msg_1", chaos: str | None = None
) -> bytes:
    data: dict[str, Any] = {
        "seq": seq,
        **AT,
        "message_id": message,
        "attempt": 2,
        "method": "POST",
        "url": url,
        "via": "rule",
        "response": None if status is None else {"status": status},
        "error": "connection refused" if status is None else None,
        **({} if chaos is None else {"chaos": {"id": "3.2", "did": chaos}}),
    }
    return written(Kind.ATTEMPT, data, HistoryPosition(generation="9f3a1c02", seq=seq))


def event(seq: int, state: str, due: str | None = None) -> bytes:
    data: dict[str, Any] = {"seq": seq, **AT, "message_id": "msg_1", "state": state, "url": URL, "next_delivery": due}
    return written(Kind.EVENT, data, HistoryPosition(generation="9f3a1c02", seq=seq))


def clock(rate: float, moved_from: str | None = None) -> bytes:
    data: dict[str, Any] = {"now": "2026-01-01T00:00:10.000Z", "rate": rate, "from": moved_from}
    return written(Kind.CLOCK, data, HistoryPosition(generation="9f3a1c02", seq=3))


END = written(Kind.END, {"reason": "deleted", "error": None})


@dataclass(frozen=True, kw_only=True)
class Connections(Control):
    """A fake server: what each connection to it returns, in order, and what was asked of it."""

    connections: list[Sequence[bytes] | Exception]
    asked: list[tuple[dict[str, str], dict[str, str]]] = field(default_factory=list)
    url: str = "http://127.0.0.1:1"
    world: str = "default"
    token: str | None = None

    def lines(self, path: str, query: Mapping[str, str], headers: Mapping[str, str], silent_s: float) -> Iterator[str]:
        assert (path, silent_s) == ("stream", 60)
        self.asked.append((dict(query), dict(headers)))
        found = self.connections.pop(0)
        if isinstance(found, Exception):
            raise found
        yield from b"".join(found).decode().split("\n")


def tail(content: Sequence[bytes], *arguments: str) -> Result:
    return CliRunner().invoke(main, ["tail", *arguments], obj=Connections(connections=[content]))


# -- what is printed --------------------------------------------------------------------------


def test_a_line_for_each_delivery() -> None:
    content = (clock(0), event(1, "ACTIVE"), attempt(2), attempt(3, status=503), attempt(4, status=None), END)

    result = tail(content)

    assert result.stdout == (
        f"2026-01-01T00:00:10.000Z POST {URL} -> 200 (attempt 2, rule) msg_1\n"
        f"2026-01-01T00:00:10.000Z POST {URL} -> 503 (attempt 2, rule) msg_1\n"
        f"2026-01-01T00:00:10.000Z POST {URL} -> connection refused (attempt 2, rule) msg_1\n"
    )
    assert (result.exit_code, result.stderr) == (0, "svc-emulator: the world default was deleted\n")


def test_a_line_says_what_chance_did() -> None:
    """D-420."""
    (line,) = tail([attempt(1, status=503, chaos="503 instead of a delivery"), END]).stdout.splitlines()
    assert line.endswith("(attempt 2, rule) msg_1 chaos: 503 instead of a delivery")


def test_events_and_clock_moves_if_asked() -> None:
    content = (
        clock(0),
        event(1, "RETRY", "2026-01-01T00:00:22.000Z"),
        event(2, "DELIVERED"),
        clock(1, "2026-01-01T00:00:00.000Z"),
        clock(60),
        END,
    )

    assert tail(content, "--events").stdout.splitlines() == [
        "2026-01-01T00:00:10.000Z clock: frozen",
        f"2026-01-01T00:00:10.000Z RETRY {URL} (again at 2026-01-01T00:00:22.000Z) msg_1",
        f"2026-01-01T00:00:10.000Z DELIVERED {URL} msg_1",
        "2026-01-01T00:00:10.000Z clock: real time, moved from 2026-01-01T00:00:00.000Z",
        "2026-01-01T00:00:10.000Z clock: 60 times real time",
    ]


def test_what_belongs_to_a_workflow_run_names_it_and_its_step() -> None:
    position = HistoryPosition(generation="9f3a1c02", seq=3)
    data: dict[str, Any] = {**AT, "message_id": "msg_1", "state": "DELIVERED", "url": URL, "workflow_run_id": "wfr_one"}
    entries = [written(Kind.EVENT, {**data, "step": step}, position) for step in ("greet", None)]
    assert tail((*entries, END), "--events").stdout.splitlines() == [
        f'2026-01-01T00:00:10.000Z DELIVERED {URL} msg_1 wfr_one step "greet"',
        f"2026-01-01T00:00:10.000Z DELIVERED {URL} msg_1 wfr_one",
    ]


def test_tail_shows_refused_firings_among_the_events() -> None:
    """D-263."""
    data: dict[str, Any] = {**AT, "schedule_id": "hourly", "error": "topic team not found"}
    content = (written(Kind.FIRING, data, HistoryPosition(generation="9f3a1c02", seq=3)), END)
    assert tail(content, "--events").stdout.splitlines() == [
        "2026-01-01T00:00:10.000Z REFUSED schedule hourly fired and made no message: topic team not found"
    ]
    assert tail(content).stdout == tail(content, "--events", "--message", "msg_1").stdout == ""


@pytest.mark.parametrize(("hint", "shown"), [(None, ""), ("is https meant?", " (is https meant?)")])
def test_tail_shows_refused_calls_among_the_events(hint: str | None, shown: str) -> None:
    """D-333."""
    data: dict[str, Any] = {**AT, "method": "POST", "path": "/v2/publish/x", "status": 404}
    data |= {"error": "topic x not found", "hint": hint}
    content = (written(Kind.REFUSED, data, HistoryPosition(generation="9f3a1c02", seq=3)), END)
    assert tail(content).stdout == ""
    assert tail(content, "--events").stdout.splitlines() == [
        f"2026-01-01T00:00:10.000Z REFUSED POST /v2/publish/x -> 404 topic x not found{shown}"
    ]


def test_json_has_each_entry_as_the_server_sent_it_on_a_line() -> None:
    lines = tail((clock(0), event(1, "ACTIVE"), attempt(2), END), "--json", "--events").stdout.splitlines()

    assert [(json.loads(line)["kind"], json.loads(line).get("seq")) for line in lines] == [
        ("clock", None),
        ("event", 1),
        ("attempt", 2),
    ]
    assert json.loads(lines[2])["response"] == {"status": 200}


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        pytest.param(("--message", "msg_2"), ["/a?b"], id="message"),
        pytest.param(("--to", "https://x.test/*"), ["/a?b", "/axb"], id="glob"),
        pytest.param(("--to", "https://x.test/a?b"), ["/a?b"], id="a question mark is one"),
        pytest.param(("--to", "https://x.test/"), [], id="a part is not enough"),
        pytest.param(("--events", "--message", "msg_2"), ["/a?b"], id="the clock belongs to no message"),
    ],
)
def test_filters(arguments: Sequence[str], expected: list[str]) -> None:
    content = (
        clock(0),
        attempt(1),
        attempt(2, url="https://x.test/a?b", message="msg_2"),
        attempt(3, url="https://x.test/axb"),
        END,
    )

    printed = tail(content, *arguments).stdout

    assert re.findall(r"https://x\.test(\S*)", printed) == expected
    assert len(printed.splitlines()) == len(expected)


def test_colour_stays_on_terminals() -> None:
    assert "\x1b" not in tail((attempt(1), END)).stdout


# -- following --------------------------------------------------------------------------------


def follow(connections: Connections, begin: Mapping[str, str] = MappingProxyType({})) -> list[str | None]:
    pauses: list[float] = []
    found = [event.id for event in followed(connections, begin, pause=pauses.append)]
    assert set(pauses) <= {1.0}
    return found


def test_a_stream_that_breaks_off_is_taken_up_where_it_was(capsys: pytest.CaptureFixture[str]) -> None:
    away = (NoServer("nobody"), BrokenOff("half an answer"))
    connections = Connections(
        connections=[(attempt(1), attempt(2), b"event: attempt\nid: 9f3a1c02-3\n"), *away, (attempt(3), END)]
    )

    found = follow(connections, {"from": "start"})

    assert found == ["9f3a1c02-1", "9f3a1c02-2", "9f3a1c02-3", "9f3a1c02-3"]
    resumed = ({"from": "start", "redact": "true"}, {"Last-Event-ID": "9f3a1c02-2"})
    assert connections.asked == [({"from": "start", "redact": "true"}, {}), resumed, resumed, resumed]
    assert capsys.readouterr().err == (
        "svc-emulator: the server at http://127.0.0.1:1 has gone; waiting for it\nsvc-emulator: the server is back\n"
    )


def test_no_server_at_first_is_a_failure() -> None:
    with pytest.raises(NoServer):
        follow(Connections(connections=[NoServer("nobody")]))


def test_another_history_is_said() -> None:
    reset = written(Kind.RESET, {"reason": "reset"}, HistoryPosition(generation="00000000", seq=0))

    result = tail((reset, END))

    assert result.stderr.startswith("svc-emulator: the world began anew; what follows is its whole history\n")


@pytest.mark.slow
def test_what_answers_otherwise_is_one_line() -> None:
    with emulators.server() as server:
        missing = CliRunner().invoke(main, ["tail", "--url", server.url, "--world", "nowhere"])
        foreign = CliRunner().invoke(main, ["tail", "--url", f"{server.url}/elsewhere"])

    assert (missing.exit_code, said(missing)) == (1, "svc-emulator: world nowhere not found\n")
    assert (foreign.exit_code, said(foreign).count("\n")) == (1, 1)


# -- as a process -----------------------------------------------------------------------------


# What a background job of a script's shell starts ignores SIGINT.
IN_BACKGROUND = ("sh", "-c", 'trap "" INT; exec "$@"', "sh")


def tailing(
    server: ServerProcess, folder: Path, *arguments: str, within: tuple[str, ...] = ()
) -> subprocess.Popen[str]:
    return (subprocess.Popen if within else Forked)(
        [*within, *command("tail", "--url", server.url, *arguments)],
        cwd=folder,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    )


def publish(server: ServerProcess, path: str) -> None:
    headers = {"Authorization": f"Bearer {server.variables['SVC_TOKEN']}"}
    url = f"{server.url}/v2/publish/https://api.example.com/{path}"
    assert httpx.post(url, headers=headers, timeout=PATIENCE_S, trust_env=False, verify=False).status_code == 200


def next_path(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    with killed_in_time(process):
        return process.stdout.readline().partition("https://api.example.com/")[2].partition(" ")[0]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="a signal ends a process at once")
def test_it_prints_as_it_happens_and_ends_with_ctrl_c_without_a_word(tmp_path: Path) -> None:
    with serving(folder=tmp_path) as server:
        publish(server, "before")
        with tailing(server, tmp_path, "--from-start") as process:
            assert next_path(process) == "before"
            publish(server, "after")
            assert next_path(process) == "after"
            process.send_signal(signal.SIGINT)
            rest, errors = process.communicate(timeout=PATIENCE_S)

    assert (process.returncode, rest, errors) == (130, "", "")


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(select, "poll"), reason="nothing tells that a pipe was closed")
@pytest.mark.parametrize("within", [(), IN_BACKGROUND], ids=["foreground", "background"])
def test_it_ends_with_the_reader_of_its_pipe_not_with_the_next_delivery(
    tmp_path: Path, within: tuple[str, ...]
) -> None:
    with serving(folder=tmp_path) as server:
        publish(server, "before")
        with tailing(server, tmp_path, "--from-start", within=within) as process:
            try:
                assert next_path(process) == "before"
                assert process.stdout is not None
                assert process.stderr is not None
                process.stdout.close()
                assert process.wait(PATIENCE_S) == 0
                assert process.stderr.read() == ""
            finally:
                process.kill()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="a signal ends a process at once")
def test_it_goes_on_where_it_was_when_the_server_comes_back(tmp_path: Path) -> None:
    kept = ("--db", "state.db", "--clock", "frozen")
    with serving(*kept, folder=tmp_path) as server:
        port = ("--port", server.url.rpartition(":")[2])
        publish(server, "before")
        process = tailing(server, tmp_path, "--from-start")
        assert next_path(process) == "before"
        server.stop(signal.SIGTERM)
    assert (server.exit_code, server.log.count("\n")) == (0, 1)
    with process, serving(*kept, folder=tmp_path, port=port) as again:
        publish(again, "after")
        assert next_path(process) == "after"
        process.send_signal(signal.SIGINT)
        rest, errors = process.communicate(timeout=PATIENCE_S)

    assert rest == ""
    assert errors == (
        f"svc-emulator: the server at {again.url} has gone; waiting for it\nsvc-emulator: the server is back\n"
    )


def test_the_last_entries_are_those_before_the_stream_begins_to_follow() -> None:
    content = (
        attempt(1),
        attempt(2, message="msg_2"),
        attempt(3),
        attempt(4, message="msg_2"),
        clock(0),
        attempt(5),
        END,
    )

    assert [line.split()[-1] for line in tail(content, "--last", "2").stdout.splitlines()] == [
        "msg_1",
        "msg_2",
        "msg_1",
    ]
    assert len(tail(content, "--last", "2", "--message", "msg_2").stdout.splitlines()) == 2
    assert len(tail(content, "--last", "0").stdout.splitlines()) == 1
    assert len(tail(content, "--last", "9").stdout.splitlines()) == 5


def test_the_last_entries_are_looked_for_further_back_until_enough_are_wanted() -> None:
    """D-326. Of 20,000 entries the server first tells the last 1000, of which one is wanted."""
    newest = [attempt(20_000, message="msg_2"), clock(0)]
    connections = Connections(connections=[newest, newest, [attempt(13_000, message="msg_2"), *newest]])

    result = CliRunner().invoke(main, ["tail", "--last", "2", "--message", "msg_2", "--no-follow"], obj=connections)

    assert (result.exit_code, len(result.stdout.splitlines())) == (0, 2)
    asked = [{"last": str(count), "redact": "true", "follow": "false"} for count in (1_000, 8_000, 64_000)]
    assert [query for query, _ in connections.asked] == asked


def test_a_world_that_ends_meanwhile_has_last_entries_too() -> None:
    result = tail((attempt(1), attempt(2), END), "--last", "1")
    assert (len(result.stdout.splitlines()), result.stderr) == (1, "svc-emulator: the world default was deleted\n")


def test_without_following_the_end_of_the_connection_is_the_end() -> None:
    connections = Connections(connections=[(attempt(1), attempt(2), clock(0))])
    result = CliRunner().invoke(main, ["tail", "--no-follow"], obj=connections)
    assert (result.exit_code, len(result.stdout.splitlines()), result.stderr) == (0, 2, "")
    assert connections.asked == [({"from": "start", "redact": "true", "follow": "false"}, {})]
