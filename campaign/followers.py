"""Followers of the stream that read nothing: they cost little, hold up nobody, and are cut off."""

from __future__ import annotations

import contextlib
import json
import re
import socket
import threading
import time

from campaign.calls import Caller, caller
from campaign.programs import EPOCH, Server, in_text, serving
from campaign.rounds import Report, Round

_FOLLOWERS = (20, 150)
# What is published beside them, in messages of this length.
_BODY = 30_000
_MESSAGES = 250
# What a follower may cost: the 64 KiB that it is being sent, as read and as written, and its connection.
_MEMORY_EACH = 512 * 1024
_MEMORY_ALL = 100 * 1024 * 1024
# Publishing beside them may be so many times slower; it was 20 times before they were bounded.
_SLOWER = 6.0
# They are cut off after 30 s; the rest is for a busy machine.
_CUT_OFF_S = 75.0
_SMALL = 4096


def connected(port: int, text: bytes, *, received: int = 0) -> socket.socket:
    """A connection over which a text has been sent. `received` bounds what the system takes for it unread."""
    connection = socket.socket()
    try:
        if received:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, received)
        connection.settimeout(_CUT_OFF_S)
        connection.connect(("127.0.0.1", port))
        connection.sendall(text)
    except OSError:
        connection.close()
        raise
    return connection


def request_stream(port: int, query: str = "", *, last_event_id: str = "", received: int = 0) -> socket.socket:
    """A connection that has asked for the stream and read nothing of it."""
    more = f"Last-Event-ID: {last_event_id}\r\n" if last_event_id else ""
    text = f"GET /_emulator/stream{query} HTTP/1.1\r\nHost: 127.0.0.1\r\n{more}\r\n"
    return connected(port, text.encode(), received=received)


def play(round: Round) -> None:
    """Some followers that read nothing and one that reads, and messages enough to fill what a system keeps."""
    random, report = round.random, round.report
    options = ["--server", ("uvicorn", "hypercorn")[round.number % 2], "--clock", "frozen", "--epoch", EPOCH]
    options += ["--db", "state.db"] if random.random() < 0.5 else []
    with serving(round.folder, *options, "--external", "capture") as server, contextlib.ExitStack() as followers:
        owner = caller(server.port)
        alone_s = _publish(owner, "alone", 60)
        before, count = server.memory, random.randint(*_FOLLOWERS)
        idle = [
            followers.enter_context(contextlib.closing(request_stream(server.port, received=_SMALL)))
            for _ in range(count)
        ]
        reading = _Reading(server.port)
        reading.start()
        beside_s = _publish(owner, "beside", _MESSAGES)
        grown = server.memory - before
        bound = _MEMORY_ALL + count * _MEMORY_EACH
        report.expect(grown < bound, "memory of followers that read nothing", f"{grown >> 20} MiB for {count}")
        report.highest("MiB of memory at most", grown / 1024**2)
        slower = beside_s / alone_s
        report.expect(slower < _SLOWER, "publishing beside followers that read nothing", f"{slower:.1f} times slower")
        report.highest("percent of the time of a publish alone", slower * 100)
        report.expect(reading.awaits(_MESSAGES), "a follower that reads", f"{len(reading.seen)} of {_MESSAGES} seen")
        _check_cut_off(server, idle, report)
        _check_continues(server, reading, report)
        report.count("followers that read nothing", count)
        report.count("messages published beside them", _MESSAGES)
        report.expect(server.stop() == 0, "the exit code after followers", server.err[-400:])
        report.expect(not in_text(server.err), "the log after followers", server.err[-600:])
        reading.join()


def _publish(owner: Caller, name: str, count: int) -> float:
    """Publish so many messages one after the other; the seconds that one took."""
    began = time.monotonic()
    for number in range(count):
        body = f"{name}-{number}-".ljust(_BODY, "x")
        answer = owner.message("POST", "publish/http://a.example/", {"Svc-Label": f"{name}-{number}"}, body)
        assert answer.is_good, answer
    return (time.monotonic() - began) / count


class _Reading(threading.Thread):
    """A follower that reads: the messages whose creation it was told, and the last id it saw."""

    def __init__(self, port: int, last_event_id: str = "") -> None:
        super().__init__()
        self._connection = request_stream(port, last_event_id=last_event_id)
        self._lines = self._connection.makefile("rb")
        # A client that has the head of the answer gets all that happens from then on.
        self._lines.readline()
        self._changed = threading.Condition()
        self.seen: set[str] = set()
        self.last_event_id = ""

    def run(self) -> None:
        with contextlib.suppress(OSError), self._connection, self._lines:
            event_id = ""
            for line in self._lines:
                if line.startswith(b"id:"):
                    event_id = line[3:].strip().decode()
                if line.startswith(b"data:"):
                    found = re.search(rb'"message_id": ?"([^"]+)"', line)
                    with self._changed:
                        self.seen |= {found[1].decode()} if found else set()
                        self.last_event_id = event_id
                        self._changed.notify_all()

    def awaits(self, count: int) -> bool:
        """Whether it gets so many messages in time."""
        with self._changed:
            return self._changed.wait_for(lambda: len(self.seen) >= count, _CUT_OFF_S)


def _check_cut_off(server: Server, idle: list[socket.socket], report: Report) -> None:
    """Who takes nothing is disconnected. The server closes its side, which shows without reading."""
    pause, end = threading.Event(), time.monotonic() + _CUT_OFF_S
    while server.err.count("took nothing for") < len(idle) and time.monotonic() < end:
        pause.wait(0.5)
    found = server.err.count("took nothing for")
    report.expect(found == len(idle), "followers that read nothing are not cut off", f"{found} of {len(idle)}")
    for connection in idle:
        with contextlib.suppress(ConnectionError):
            while connection.recv(1 << 16):
                pass
    report.count("followers cut off", found)


def _check_continues(server: Server, reading: _Reading, report: Report) -> None:
    """A follower that reconnects gets what it missed, and nothing else."""
    owner = caller(server.port)
    last_event_id = reading.last_event_id
    published = json.loads(owner.message("POST", "publish/http://a.example/", {}, "missed").body)["messageId"]
    again = _Reading(server.port, last_event_id)
    again.start()
    report.expect(again.awaits(1), "a follower that comes back", f"nothing after {last_event_id}")
    report.expect(again.seen == {published}, "a follower gets entries twice", f"{len(again.seen)} messages")
    again._connection.shutdown(socket.SHUT_RDWR)
    again.join()
