"""What the demo prints: the week as a table, what went wrong, and a closing line."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from zoneinfo import ZoneInfo

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from emulator.cli.demo import story
from emulator.cli.demo.story import Arrival, Delivery
from emulator.server.terminals import wants_colours

# Wide enough for every line, where no terminal sets a width.
_PLAIN_WIDTH = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Week:
    """What happened."""

    deliveries: Sequence[Delivery]
    dead_letters: Sequence[str]
    wall_s: float


def console() -> Console:
    """A console with colours on a terminal only, without them if NO_COLOR is set."""
    stream = sys.stdout
    is_terminal = stream.isatty()
    return Console(
        file=stream,
        color_system="auto" if is_terminal and wants_colours() else None,
        force_terminal=is_terminal,
        width=None if is_terminal else _PLAIN_WIDTH,
        highlight=False,
        emoji=False,
    )


# What the timeline takes with all of its columns.
WIDTH = 79


def introduction(server_url: str, receiver_url: str) -> str:
    """What the demo is about to do, before its clock moves."""
    return (
        f"A server on {server_url} with a frozen clock, and a receiver on {receiver_url} that checks the "
        f"signature of everything it gets. Nothing leaves this machine.\n\n"
        f"It is {story.BEGINNING}. A welcome, an order, an invoice, a message that will fail, news to a group, "
        f"a reminder and a daily schedule are published; then {story.DAYS} days pass in one call.\n"
    )


def timeline(deliveries: Sequence[Delivery], *, can_tick: bool, is_narrow: bool = False) -> Table:
    """The deliveries in order, each at its own virtual time; a narrow one leaves two columns of them out."""
    table = Table(box=box.SIMPLE_HEAD, padding=0, show_edge=False)
    table.add_column("Virtual time (UTC)", min_width=19, no_wrap=True)
    if not is_narrow:
        table.add_column("Berlin", no_wrap=True)
    table.add_column("Message", no_wrap=not is_narrow)
    table.add_column("Try", justify="right", min_width=3, no_wrap=True)
    if not is_narrow:
        table.add_column("Destination", no_wrap=True)
    table.add_column("Status", justify="right", min_width=6, no_wrap=True)
    table.add_column("Signed", min_width=6, no_wrap=is_narrow, overflow="fold")
    zone = ZoneInfo(story.ZONE)
    for delivery in deliveries:
        arrival = delivery.arrival
        succeeded = arrival.status is not None and arrival.status < 300
        good = "✓" if can_tick else "yes"
        berlin = Text(f"{datetime.fromisoformat(arrival.at).astimezone(zone):%H:%M}", style="dim")
        table.add_row(
            _day_and_time(arrival.at),
            *(() if is_narrow else (berlin,)),
            Text(story.LABELS.get(arrival.path, delivery.message_id)),
            str(arrival.attempt),
            *(() if is_narrow else (Text(arrival.path),)),
            Text(str(arrival.status or "none"), style="green" if succeeded else "red"),
            Text(good if delivery.problem is None else delivery.problem, style="red" if delivery.problem else "green"),
        )
    return table


def mismatches(week: Week) -> list[str]:
    """What is missing and what is unexpected; empty if the week went as planned."""
    expected, found = Counter(story.EXPECTED), Counter(delivery.arrival for delivery in week.deliveries)
    lines = [f"missing: {_described(arrival)}" for arrival in sorted((expected - found).elements(), key=_order)]
    lines += [f"unexpected: {_described(arrival)}" for arrival in sorted((found - expected).elements(), key=_order)]
    lines += [f"bad signature: {_described(each.arrival)}: {each.problem}" for each in week.deliveries if each.problem]
    if tuple(week.dead_letters) != story.DEAD_LETTERS:
        lines.append(f"dead letters: expected {story.DEAD_LETTERS}, found {tuple(week.dead_letters)}")
    return lines


def summary(week: Week) -> str:
    """What the week came to, in one line."""
    messages = len({delivery.message_id for delivery in week.deliveries})
    verified = sum(delivery.problem is None for delivery in week.deliveries)
    letters = "1 dead letter" if len(week.dead_letters) == 1 else f"{len(week.dead_letters)} dead letters"
    return (
        f"{story.DAYS} days in {week.wall_s:.2f} s: {len(week.deliveries)} deliveries of {messages} messages, "
        f"{verified} signatures verified, {letters} as planned"
    )


HINTS = """
Summer time began on Sunday: the report still came at 9:30 in Berlin, an hour earlier in UTC.

Next:  svc-emulator serve --clock frozen      a server of your own
       eval "$(svc-emulator env)"             the variables for your client
       svc-emulator clock advance 7d          the same week for your own messages
The README goes on from there."""


def _order(arrival: Arrival) -> tuple[str, str, int]:
    return arrival.at, arrival.path, arrival.attempt


def _described(arrival: Arrival) -> str:
    return f"{arrival.at} {arrival.path} attempt {arrival.attempt} -> {arrival.status or 'no response'}"


def _day_and_time(at: str) -> str:
    moment = datetime.fromisoformat(at)
    days = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
    months = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
    # Not by strftime: the table reads the same in every locale.
    return f"{days[moment.weekday()]} {moment.day:02} {months[moment.month - 1]} {moment:%H:%M:%S}"
