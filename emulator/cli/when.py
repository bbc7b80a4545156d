"""`svc-emulator when`: when an expression fires, or when attempts are made. It needs no server."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import click

from emulator.cli.failures import WrongUsage
from emulator.cli.listings import firing_line
from emulator.cli.options import Instant
from emulator.cli.output import print_json, print_lines
from emulator.core.errors import InvalidInput
from emulator.wire.durations import format_duration
from emulator.wire.meanings import MAX_COUNT, MAX_RETRIES, attempts_of, firings_of


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
    """Tell when a cron EXPRESSION fires, or retries are made.

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
            view = firings_of(expression, now_ms if start is None else start, 10 if count is None else count)
        else:
            view = attempts_of(retry_delay, 3 if retries is None else retries, start)
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
