"""What commands print: styled lines, columns, answers of a server, and a spinner while a call takes long."""

from __future__ import annotations

import contextlib
import functools
import json
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, ParamSpec, TextIO

import click

from emulator.cli.failures import Failure
from emulator.server.terminals import printable_styled, wants_colours

P = ParamSpec("P")

# A call that takes longer than this shows a spinner.
_SPINNER_AFTER_S = 2.0


def print_lines(lines: Iterable[str]) -> None:
    """Print styled lines; only a terminal gets the style, and none with NO_COLOR."""
    color = None if wants_colours() else False
    for line in lines:
        click.echo(printable_styled(line), color=color)


def print_json(answer: object) -> None:
    """Print JSON for a program to read."""
    click.echo(json.dumps(answer, indent=2))


def print_document(text: str) -> None:
    """Print a document: in UTF-8, as others read it, unless a person does."""
    click.echo(text if sys.stdout.isatty() else text.encode(), nl=False)


def columns(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Rows as lines of aligned columns; cells may have a style."""
    shown = [[printable_styled(cell) for cell in row] for row in rows]
    widths = [max(len(click.unstyle(cell)) for cell in column) for column in zip(*shown, strict=True)]
    for row in shown:
        padded = (cell + " " * (width - len(click.unstyle(cell))) for cell, width in zip(row, widths, strict=True))
        yield "  ".join(padded).rstrip()


def table(headings: Sequence[str], rows: Sequence[Sequence[str]], nothing: str) -> Iterator[str]:
    """A table under its headings; without rows the sentence about that."""
    if not rows:
        yield nothing
        return
    yield from columns([[click.style(heading, bold=True) for heading in headings], *rows])


# Ids of messages differ in the letters at their end.
_END_OF_ID = 8


def end_of(message_id: str) -> str:
    """So much of a message's id as every command takes for it."""
    return message_id[-_END_OF_ID:]


_STATES = {"DELIVERED": "green", "FAILED": "red", "CANCELED": "yellow", "HELD": "yellow", "RETRYING": "yellow"}


def styled_state(state: str) -> str:
    """The state of a message in its colour."""
    return click.style(state, fg=_STATES.get(state))


def styled_status(response: Mapping[str, Any] | None, error: str | None) -> str:
    """What came of an attempt: the status of the answer, or why there was none."""
    if response is None:
        return click.style(str(error), fg="red")
    return click.style(str(response["status"]), fg="green" if 200 <= response["status"] < 300 else "red")


def counted(number: int, noun: str) -> str:
    """`1 difference`, `2 differences`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def answered(lines: Callable[[Any], Iterable[str]]) -> Callable[[Callable[P, Any]], Callable[P, Any]]:
    """Prints what a command returns: as JSON with the option `--json`, else as `lines` of it. It is passed on."""

    def decorate(command: Callable[P, Any]) -> Callable[P, Any]:
        @click.option("--json", "as_json", is_flag=True, help="Print the server's answer as it is.")
        @functools.wraps(command)
        def run(*args: P.args, **kwargs: P.kwargs) -> Any:
            as_json = kwargs.pop("as_json")
            answer = command(*args, **kwargs)
            if as_json:
                print_json(answer)
                return answer
            with expected_of(click.get_current_context().params["url"]):
                print_lines(lines(answer))
            return answer

        return run

    return decorate


@contextlib.contextmanager
def expected_of(url: str) -> Iterator[None]:
    """Raises Failure for an answer without a field that every emulator of this version gives."""
    try:
        yield
    except KeyError as missing:
        raise Failure(f"{url} is another program or version: its answer has no {missing}") from missing


@contextlib.contextmanager
def progress(doing: str, stream: TextIO | None = None, after_s: float = _SPINNER_AFTER_S) -> Iterator[None]:
    """On a terminal, a spinner with the time that has passed, once it has become long."""
    stream = stream or sys.stderr
    if not stream.isatty():
        yield
        return
    with contextlib.ExitStack() as shown:

        def show() -> None:
            from rich.console import Console
            from rich.progress import Progress, SpinnerColumn, TextColumn

            text = TextColumn("{task.description} for {task.elapsed:.0f} s")
            console = Console(file=stream, force_terminal=True)
            bar = Progress(SpinnerColumn(), text, console=console, transient=True)
            bar.add_task(doing)
            # The call began before it was long.
            bar.tasks[0].start_time = bar.get_time() - after_s
            shown.enter_context(bar)

        timer = threading.Timer(after_s, show)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
            timer.join()
