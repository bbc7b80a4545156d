"""`svc-emulator upcoming` and `when`: what is to come, in a world and by an expression alone."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click
from msgspec import to_builtins

from emulator.cli.control import Control, shown
from emulator.cli.listings import firing_line
from emulator.cli.options import Instant
from emulator.cli.output import WrongUsage, print_json, print_lines
from emulator.control.upcoming import MAX_LIMIT
from emulator.control.when import told_attempts, told_firings
from emulator.core.errors import InvalidInput
from emulator.wire.times import format_duration
from emulator.wire.when import MAX_COUNT, MAX_RETRIES


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
        is_most = max(len(answer["items"]), len(answer["waiting"])) >= MAX_LIMIT
        yield (
            f"there is more than the {MAX_LIMIT:,} that are listed at most"
            if is_most
            else ("there is more: --limit lists as much as it says")
        )


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
@click.option("--limit", type=click.IntRange(min=1, max=MAX_LIMIT), help="List at most so much. Default: 1000.")
@shown(preview_lines)
def upcoming(control: Control, *, until: int | None, all_: bool, limit: int | None) -> Any:
    """List the due work to come, in order. None of it is done.

    Firings of schedules, first attempts, retries with what set their delay, ends of rate periods; and
    behind them what waits for something else than an instant. Without --until each
    schedule is listed with its next firing only.
    """
    query = {name: str(value) for name, value in (("until", until), ("limit", limit)) if value is not None}
    return control.call("GET", "upcoming", query={"expiries": str(all_).lower(), **query})


@click.command(epilog='Example: svc-emulator when "CRON_TZ=Europe/Berlin 30 2 * * *" --from 2026-03-27 --count 5')
@click.argument("expression", required=False)
@click.option("--from", "start", type=Instant(), help="Begin after this instant, ISO 8601. Default: now.")
@click.option("--count", type=click.IntRange(1, MAX_COUNT), help="Show so many firings. Default: 10.")
@click.option("--retry-delay", help='Show the attempts of a message with this delay, such as "pow(2, retried) * 1000".')
@click.option("--retries", type=click.IntRange(0, MAX_RETRIES), help="Show so many retries. Default: 3.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def when(
    expression: str | None,
    *,
    start: int | None,
    count: int | None,
    retry_delay: str | None,
    retries: int | None,
    as_json: bool,
) -> None:
    """Show when a cron EXPRESSION fires, or retries are made.

    A firing comes with what a change of the clock does to it.

    Or, with --retry-delay or --retries, when the attempts of a message are made that all fail:
    by that expression, or by the default backoff.
    """
    is_ladder = retry_delay is not None or retries is not None
    if is_ladder == (expression is not None):
        both = ", not both" if is_ladder else ""
        raise WrongUsage(
            f"expected a cron expression, or --retry-delay or --retries{both} (see svc-emulator when --help)"
        )
    if is_ladder and count is not None:
        raise WrongUsage("--count is for a cron expression; expected --retries (see svc-emulator when --help)")
    try:
        if expression is not None:
            now_ms = int(time.time() * 1000)
            firings = told_firings(expression, now_ms if start is None else start, 10 if count is None else count)
            view = to_builtins(firings)
        else:
            view = to_builtins(told_attempts(retry_delay, 3 if retries is None else retries, start or 0))
            if start is None:
                view["attempts"] = [{**each, "at": None, "at_ms": None} for each in view["attempts"]]
    except InvalidInput as refused:
        raise WrongUsage(refused.text) from refused
    if as_json:
        print_json(view)
    else:
        print_lines(_attempt_lines(view) if is_ladder else _firing_lines(view))


def _firing_lines(view: Any) -> Iterator[str]:
    yield f"after {view['from']}, in {view['time_zone']}:"
    for firing in view["firings"]:
        yield firing_line(firing, view["time_zone"])
        if firing["explanation"] is not None:
            yield click.style(f"  {firing['explanation']}", fg="yellow")
    if not view["firings"]:
        yield "it does not fire before the end of the calendar"


def _attempt_lines(view: Any) -> Iterator[str]:
    attempts = view["attempts"]
    afters = [f"+{format_duration(each['after_ms'])}" for each in attempts]
    width = max(map(len, afters))
    for each, after in zip(attempts, afters, strict=True):
        at = "" if each["at"] is None else f"{each['at']}  "
        yield f"{at}{after:{width}}  attempt {each['attempt']}  {each['arithmetic']}"
