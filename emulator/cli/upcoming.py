"""`svc-emulator upcoming`: what a running server will do, before it does it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click

from emulator.cli.control import Control, on_world
from emulator.cli.options import Instant
from emulator.cli.output import answered
from emulator.wire.durations import format_duration


def preview_lines(answer: Mapping[str, Any]) -> Iterator[str]:
    """The whole preview, from its JSON."""
    yield f"clock: {answer['now']}"
    if not answer["items"]:
        yield "nothing is due later" if answer["until"] is None else f"nothing is due up to {answer['until']}"
    yield from _item_lines(answer["items"], answer["now_ms"])
    if answer["waiting"]:
        yield ""
        yield "waiting:"
    for wait in answer["waiting"]:
        yield f"{wait['since']}  {wait['why']}"
        yield click.style(f"  {_subject(wait)}", dim=True)
    if answer["truncated"]:
        yield ""
        yield "there is more: --limit lists as much as it says"


def _item_lines(items: Sequence[Mapping[str, Any]], now_ms: int) -> Iterator[str]:
    """Two lines for each item: when and why, then what it is about."""
    waits = [f"in {format_duration(item['at_ms'] - now_ms)}" for item in items]
    width = max(map(len, waits), default=0)
    kinds = max((len(item["kind"]) for item in items), default=0)
    for item, wait in zip(items, waits, strict=True):
        kind = click.style(f"{item['kind'].replace('_', ' '):{kinds}}", fg="cyan")
        yield f"{item['at']}  {wait:{width}}  {kind}  {item['why']}"
        yield click.style(f"  {_subject(item)}", dim=True)


def _subject(entry: Mapping[str, Any]) -> str:
    names = ("workflow_run_id", "message_id", "schedule_id", "dead_letter_id", "key", "url")
    return "  ".join(entry[name] for name in names if name in entry) or entry["account_id"]


@click.command(epilog="Example: svc-emulator upcoming --until 2026-12-31T00:00:00Z")
@click.option("--until", type=Instant(), help="Last instant to list, ISO 8601. With it every firing is listed.")
@click.option("--all", "all_", is_flag=True, help="Also list what ends by age: deduplications, dead letters, messages.")
@click.option("--limit", type=click.IntRange(min=1, max=10_000), help="List at most so much. Default: 1000.")
@answered(preview_lines)
@on_world
def upcoming(control: Control, *, until: int | None, all_: bool, limit: int | None) -> Any:
    """List the due work to come, in order. None of it is done.

    Firings of schedules, first attempts, retries with what set their delay, ends of rate periods; and
    behind them what waits for something else than an instant. Without --until each
    schedule is listed with its next firing only.
    """
    query = {name: str(value) for name, value in (("until", until), ("limit", limit)) if value is not None}
    return control.call("GET", "upcoming", query={"expiries": str(all_).lower(), **query})
