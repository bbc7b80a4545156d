"""What commands print: styled lines, columns, answers of a server, a spinner while a call takes long, and failures."""

from __future__ import annotations

import contextlib
import functools
import json
import re
import shlex
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import IO, Any, ParamSpec, TextIO, TypeAlias

import click

from emulator.server.logs import printable, printable_styled, runs_for_agent, wants_colours

_LONGEST = 1000

# What to do where no server answers, and where something else does.
START = "svc-emulator serve"
ANOTHER_ADDRESS = "again with --url, and the address that svc-emulator serve has printed"


class CommandFailed(click.ClickException):
    """A command cannot continue."""

    exit_code = 1
    # What to do next if nothing else is given.
    next_step = "svc-emulator health"

    def __init__(self, message: str, *more: str, next: str | None = None) -> None:
        """Each is one line; `next` says what to do, a command if there is one (D-712)."""
        self.lines = tuple(" ".join(line.split()) for line in (message, *more))
        self.next = next or self.next_step
        super().__init__(self.lines[0])

    def show(self, file: IO[Any] | None = None) -> None:
        for line in self.lines:
            click.echo(f"svc-emulator: {printable(_shortened(line))}", file=file or sys.stderr)
        print_next(self.next, file)


def _shortened(line: str) -> str:
    """A line that can be read: what was given, and is quoted in it, may be as long as an argument can be."""
    if len(line) <= _LONGEST:
        return line
    return f"{line[: _LONGEST // 2]}[...]{line[-_LONGEST // 2 :]}"


def print_next(text: str, file: IO[Any] | None = None) -> None:
    """The last line of a failure, which says what to do next (D-712)."""
    click.echo(f"next: {printable(_shortened(text))}", file=file or sys.stderr)


def look_again_at_fixtures(file: str) -> str:
    """The command that says what is wrong in a fixtures file."""
    return f"svc-emulator fixtures check {shlex.quote(file)}"


def failure_of_fixtures(problems: Sequence[str], file: str) -> CommandFailed:
    """All that is wrong in a fixtures file; of several problems, the last line says how to look again."""
    again = look_again_at_fixtures(file)
    hint = [f"{len(problems)} problems (look again with {again})"]
    return CommandFailed(*problems, *(hint if len(problems) > 1 else ()), next=again)


class WrongUsage(CommandFailed):
    """A command was called in a way that can never work."""

    exit_code = 2

    def __init__(self, message: str, *more: str, next: str | None = None) -> None:
        context = click.get_current_context(silent=True)
        command = "svc-emulator" if context is None else context.command_path
        super().__init__(message, *more, next=next or f"{command} --help")


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


def columns(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Rows as lines of aligned columns; cells may have a style."""
    shown = [[printable_styled(cell) for cell in row] for row in rows]
    widths = [max(len(click.unstyle(cell)) for cell in column) for column in zip(*shown, strict=True)]
    for row in shown:
        padded = (cell + " " * (width - len(click.unstyle(cell))) for cell, width in zip(row, widths, strict=True))
        yield "  ".join(padded).rstrip()


# An entry of a list of the control API.
Row: TypeAlias = Mapping[str, Any]
# How a cell comes from its row: a field's name, a format of several fields, or a function of the row.
Cell: TypeAlias = str | Callable[[Row], str]


class Listing:
    """A list of the control API as a table: its columns by their headings, and the sentence for an empty one.

    One that comes `newest_first`, and in pages, is printed with the newest last; a line below says that there are
    older ones.
    """

    def __init__(self, key: str, nothing: str, columns: Mapping[str, Cell], *, newest_first: bool = False) -> None:
        """`key` is where the rows are in the answer."""
        self._key = key
        self._nothing = nothing
        self._columns = columns
        self._newest_first = newest_first

    def __call__(self, answer: Mapping[str, Any]) -> Iterator[str]:
        entries = answer[self._key]
        ordered = reversed(entries) if self._newest_first else entries
        rows = [[_written(cell, entry) for cell in self._columns.values()] for entry in ordered]
        if rows:
            yield from columns([[click.style(heading, bold=True) for heading in self._columns], *rows])
        else:
            yield self._nothing
        if self._newest_first and answer["cursor"]:
            yield click.style("there are older ones: --limit lists more", dim=True)


def _written(cell: Cell, entry: Mapping[str, Any]) -> str:
    if not isinstance(cell, str):
        return cell(entry)
    return cell.format_map(entry) if "{" in cell else str(entry[cell])


# Ids of messages differ in the letters at their end.
_END_OF_ID = 8


def end_of(message_id: str) -> str:
    """The end of a message's id, which all commands accept for it."""
    return message_id[-_END_OF_ID:]


# As much of a text as a cell of a table has room for.
_CELL = 60


def one_line(text: str) -> str:
    """A text as part of a line: white space made single spaces, and the end cut off where it is long."""
    line = " ".join(text.split())
    return line if len(line) <= _CELL else f"{line[: _CELL - 3]}..."


_STATES = {"DELIVERED": "green", "FAILED": "red", "CANCELED": "yellow", "HELD": "yellow", "RETRYING": "yellow"}
_STATES |= {"RUN_STARTED": "yellow", "RUN_SUCCESS": "green", "RUN_FAILED": "red", "RUN_CANCELED": "yellow"}


def styled_state(state: str) -> str:
    """The state of a message or a run in its colour."""
    return click.style(state, fg=_STATES.get(state))


def status_of(response: Mapping[str, Any] | None) -> int | None:
    """The status of the answer to an attempt that is shown whole; a brief one has it as `status`."""
    return None if response is None else int(response["status"])


def styled_status(status: int | None, error: str | None) -> str:
    """The result of an attempt: the status of the answer, or why there was none."""
    if status is None:
        return click.style(str(error), fg="red")
    return click.style(str(status), fg="green" if 200 <= status < 300 else "red")


def status_text(status: Mapping[str, Any]) -> str:
    """The instant and the rate of a clock, from its JSON."""
    match status["rate"]:
        case 0:
            return f"frozen at {status['now']}"
        case 1:
            return f"real time, {status['now']}"
        case rate:
            return f"{rate:g} times real time, {status['now']}"


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
            with expected_of(click.get_current_context().params.get("url", "")):
                print_lines(lines(answer))
            return answer

        return run

    return decorate


@contextlib.contextmanager
def expected_of(url: str) -> Iterator[None]:
    """Raises CommandFailed for an answer without a field that every emulator of this version gives."""
    try:
        yield
    except KeyError as missing:
        raise CommandFailed(f"{url} is another program or version: its answer has no {missing}") from missing


@contextlib.contextmanager
def progress(doing: str, stream: TextIO | None = None, after_s: float = _SPINNER_AFTER_S) -> Iterator[None]:
    """On a terminal, a spinner with the time that has passed, once it has become long."""
    stream = stream or sys.stderr
    if not stream.isatty() or runs_for_agent():
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


# -- the variables of clients, in the forms that shells and files have -------------------------------


class Format(StrEnum):
    """How the variables are written."""

    SHELL = "shell"
    DOTENV = "dotenv"
    JSON = "json"
    POWERSHELL = "powershell"
    FISH = "fish"


_PLAIN = re.compile(r"[A-Za-z0-9_@%+=:,./-]*")


def written(values: Mapping[str, str], form: Format) -> str:
    """The variables in one of the forms."""
    match form:
        case Format.SHELL:
            return "\n".join(f"export {name}={shlex.quote(value)}" for name, value in values.items())
        case Format.DOTENV:
            # Quoted only where it has to be, because some readers keep the quotes; between double ones they expand `$`.
            quoted = {name: value if _PLAIN.fullmatch(value) else _in_quotes(value) for name, value in values.items()}
            return "\n".join(f"{name}={value}" for name, value in quoted.items())
        case Format.JSON:
            return json.dumps(dict(values), indent=2)
        case Format.POWERSHELL:
            return "\n".join(f"$env:{name} = {_powershell_value(value)}" for name, value in values.items())
        case Format.FISH:
            return "\n".join(f"set -gx {name} {_in_quotes(value)}" for name, value in values.items())


def _powershell_value(value: str) -> str:
    """In single quotes, in which nothing but a quote has a meaning. PowerShell reads typographic ones as quotes too."""
    return "'" + re.sub("(['‘’‚‛])", r"\1\1", value) + "'"


def _in_quotes(value: str) -> str:
    """In single ones; in fish and .env files a backslash escapes itself and the quote."""
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
