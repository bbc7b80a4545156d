"""`svc-emulator tail`: what a running server delivers, as it happens."""

from __future__ import annotations

import json
import os
import select
import signal
import stat
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import click

from emulator.cli.control import BrokenOff, Control, NoServer, on_world
from emulator.cli.listings import find_message_or_run, is_message_id, is_run
from emulator.cli.output import CommandFailed, status_of, styled_status
from emulator.core.errors import Malformed
from emulator.core.rules.destination_rules import matches_url
from emulator.server.logs import printable, printable_styled, wants_colours
from emulator.wire.event_stream import (
    ID_HEADER,
    KEEP_ALIVE_S,
    MAX_LAST,
    RETRY_MS,
    Kind,
    StreamEvent,
    StreamReader,
)

_FROM_START = {"from": "start"}
# A delivery usually makes four entries of history: created, active, the attempt, delivered.
_ENTRIES_OF_A_DELIVERY = 4
_FEWEST = 1_000

_REFUSED = click.style("REFUSED", fg="red")
_STATE_COLOURS = {"DELIVERED": "green", "ERROR": "red", "FAILED": "red", "RETRY": "yellow", "CANCELED": "yellow"}


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryFilter:
    """Which entries are printed: of all messages, one or those of a run, to all URLs or those of a glob."""

    events: bool
    message: str | None
    run: str | None
    url: str | None

    def includes(self, event: StreamEvent) -> bool:
        match event.kind:
            case Kind.ATTEMPT:
                return self._concerns(_object(event))
            case Kind.EVENT:
                return self.events and self._concerns(_object(event))
            case Kind.CLOCK | Kind.FIRING | Kind.REFUSED:
                # None of these belongs to a message.
                return self.events and self.message is self.run is self.url is None
            case _:
                return False

    def _concerns(self, data: Mapping[str, Any]) -> bool:
        is_meant = self.message in (None, data["message_id"]) and self.run in (None, data.get("workflow_run_id"))
        return is_meant and (self.url is None or matches_url(self.url, data["url"]))


@click.command(epilog="Example: svc-emulator tail --to 'https://api.example.com/*'")
@click.option(
    "--message", metavar="ID", help="Only what concerns this message or run: its id, the end of it, a URL or a label."
)
@click.option("--to", "destination", metavar="GLOB", help="Only what goes to such URLs; * stands for any characters.")
@click.option(
    "--events",
    is_flag=True,
    help="Also print the events of messages, firings that made no message, refused calls, and moves of the clock.",
)
@click.option("--from-start", is_flag=True, help="Begin with all that has happened in the world.")
@click.option("--last", type=click.IntRange(0, 100_000), metavar="N", help="Begin with the last N entries of such.")
@click.option(
    "--follow/--no-follow", default=True, help="Wait for more, or end with what has happened. Default: --follow."
)
@click.option("--json", "as_json", is_flag=True, help="Print each entry as a line of JSON, as the server sends it.")
@on_world
def tail(
    control: Control,
    *,
    message: str | None,
    destination: str | None,
    events: bool,
    from_start: bool,
    last: int | None,
    follow: bool,
    as_json: bool,
) -> None:
    """Print deliveries as they happen, until Ctrl-C.

    A line has the virtual time, the method and URL, the result, the attempt, what answered (the
    network, a rule, capture or a mount), and the message. When the server goes away, tail waits for
    it, and continues where it was. With --no-follow it prints what has happened, all of it or the --last entries.
    """
    message_id = run_id = None
    if message is not None and is_message_id(message):
        message_id = message
    elif message is not None:
        row = find_message_or_run(control, message)
        message_id, run_id = (None, row["id"]) if is_run(row) else (row["message_id"], None)
    wanted = EntryFilter(events=events, message=message_id, run=run_id, url=destination)
    is_coloured = sys.stdout.isatty() and wants_colours()
    _end_with_the_pipe()
    if last is None:
        stream = followed(control, _FROM_START if from_start or not follow else {}, follow=follow)
    else:
        stream = _with_last(control, wanted, last, follow=follow)
    for event in stream:
        if wanted.includes(event):
            line = json.dumps({"kind": event.kind, **_object(event)}) if as_json else _shown(event)
            click.echo(printable_styled(line), color=is_coloured)
        elif event.kind == Kind.RESET:
            _say("the world began anew; what follows is its whole history")
        elif event.kind == Kind.END:
            error = _object(event)["error"]
            _say(f"the world {control.world} " + (f"has stopped: {error}" if error else "was deleted"))


def _with_last(control: Control, wanted: EntryFilter, last: int, *, follow: bool) -> Iterator[StreamEvent]:
    """The last wanted entries of what has happened, and what happens from then on.

    Filters may leave few entries, so more of them are asked for until that many are wanted, or there are no more.
    """
    count = max(_FEWEST, _ENTRIES_OF_A_DELIVERY * last)
    while True:
        is_part = count <= MAX_LAST
        stream = followed(control, {"last": str(count)} if is_part else _FROM_START, follow=follow)
        kept: deque[StreamEvent] = deque(maxlen=last)
        newest, end = 0, None
        for event in stream:
            # The first clock event has the virtual time, after all that has happened.
            if event.kind in (Kind.CLOCK, Kind.END):
                end = event if event.kind == Kind.END else None
                break
            if event.kind in (Kind.EVENT, Kind.ATTEMPT):
                newest = _object(event)["seq"]
            if wanted.includes(event):
                kept.append(event)
        if len(kept) == last or newest <= count or not is_part:
            yield from kept
            yield from stream if end is None else [end]
            return
        count *= 8


def _say(text: str) -> None:
    click.echo(f"svc-emulator: {printable(text)}", err=True)


def _object(event: StreamEvent) -> Mapping[str, Any]:
    if not isinstance(event.data, Mapping):
        raise KeyError("fields")
    return event.data


# -- following --------------------------------------------------------------------------------


def followed(
    control: Control, begin: Mapping[str, str], *, follow: bool = True, pause: Callable[[float], None] = time.sleep
) -> Iterator[StreamEvent]:
    """The events of a stream until its last one; a broken connection is resumed at the last event.

    `begin` is the part of the query that says where to begin. Without `follow` only those that have happened.
    Raises CommandFailed if there is no server at first, or it refuses.
    """
    place: str | None = None
    is_waiting = False
    while True:
        try:
            for event in _connected(control, place, begin, follow=follow):
                if is_waiting:
                    _say("the server is back")
                    is_waiting = False
                yield event
                # Only now, so that an event that was not handled is sent again.
                place = event.id
                if event.kind == Kind.END:
                    return
        except (NoServer, BrokenOff):
            if place is None:
                raise
        else:
            if not follow:
                return
        if not is_waiting:
            _say(f"the server at {control.url} has gone; waiting for it")
            is_waiting = True
        pause(RETRY_MS / 1000)


def _connected(control: Control, place: str | None, begin: Mapping[str, str], *, follow: bool) -> Iterator[StreamEvent]:
    """The events of one connection, until it ends. Raises CommandFailed."""
    query = {**begin, "redact": "true"} if follow else {**begin, "redact": "true", "follow": "false"}
    headers = {} if place is None else {ID_HEADER: place}
    reader = StreamReader()
    for line in control.lines("stream", query, headers, silent_s=4 * KEEP_ALIVE_S):
        try:
            event = reader.take(line)
        except Malformed as malformed:
            raise CommandFailed(f"{control.url} is not an emulator: {malformed.reason}") from malformed
        if event is not None:
            yield event


def _end_with_the_pipe() -> None:
    """End `tail | head -1` when `head` ends, not with the next delivery."""
    try:
        descriptor = sys.stdout.fileno()
        is_pipe = stat.S_ISFIFO(os.fstat(descriptor).st_mode)
    except (OSError, ValueError):
        return
    if not is_pipe or not hasattr(select, "poll"):
        return

    # Not SIGINT: a script's background job ignores it, and so does what it starts.
    signal.signal(signal.SIGALRM, lambda *_: sys.exit(0))

    def wait() -> None:
        poll = select.poll()
        # Without events to wait for, poll still reports that the reader has closed the pipe.
        poll.register(descriptor, 0)
        poll.poll()
        os.kill(os.getpid(), signal.SIGALRM)

    threading.Thread(target=wait, daemon=True).start()


# -- showing ----------------------------------------------------------------------------------


def _shown(event: StreamEvent) -> str:
    data = _object(event)
    match event.kind:
        case Kind.ATTEMPT:
            result = styled_status(status_of(data["response"]), data["error"])
            details = click.style(f"(attempt {data['attempt']}, {data['via']})", dim=True)
            target = f"{data['method']} {data['url']}"
            chaos = f" chaos: {data['chaos']['did']}" if "chaos" in data else ""
            again = " redelivery" if "redelivery" in data else ""
            return f"{data['at']} {target} -> {result} {details} {data['message_id']}{_run_of(data)}{chaos}{again}"
        case Kind.EVENT:
            state = click.style(data["state"], fg=_STATE_COLOURS.get(data["state"]))
            due = f" (again at {data['next_delivery']})" if data["state"] == "RETRY" else ""
            return f"{data['at']} {state} {data['url']}{due} {data['message_id']}{_run_of(data)}"
        case Kind.FIRING:
            return f"{data['at']} {_REFUSED} schedule {data['schedule_id']} fired and made no message: {data['error']}"
        case Kind.REFUSED:
            hint = "" if data["hint"] is None else f" ({data['hint']})"
            return f"{data['at']} {_REFUSED} {data['method']} {data['path']} -> {data['status']} {data['error']}{hint}"
        case _:
            rate = {0: "frozen", 1: "real time"}.get(data["rate"], f"{data['rate']:g} times real time")
            moved = "" if data["from"] is None else f", moved from {data['from']}"
            lines = [click.style(f"{data['now']} clock: {rate}{moved}", dim=True)]
            return "\n".join([*lines, *(f"{data['now']} {each['why']}" for each in data.get("held", ()))])


def _run_of(data: Mapping[str, Any]) -> str:
    """The workflow run and the step of an entry, if it is a run's."""
    if "workflow_run_id" not in data:
        return ""
    step = "" if data["step"] is None else f' step "{data["step"]}"'
    return click.style(f" {data['workflow_run_id']}{step}", fg="cyan")
