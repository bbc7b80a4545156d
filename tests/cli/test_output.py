"""What commands print beside their results, the forms of `env`, and `health --wait`."""

from __future__ import annotations

import io
import re
import threading

import click
import pytest

from emulator.cli.health import ask_until
from emulator.cli.output import CommandFailed, Format, columns, progress, written


def test_columns_are_aligned_and_have_no_blanks_at_the_end() -> None:
    assert list(columns([("a", "bb", "c"), ("dd", "e", "")])) == ["a   bb  c", "dd  e"]
    assert list(columns([])) == []


class Screen(io.StringIO):
    """A terminal that tells when something was written to it."""

    def __init__(self, *, is_terminal: bool) -> None:
        super().__init__()
        self.written = threading.Event()
        self._is_terminal = is_terminal

    def isatty(self) -> bool:
        return self._is_terminal

    def flush(self) -> None:
        super().flush()
        if "advancing" in self.getvalue():
            self.written.set()


def test_long_call_shows_that_it_runs_and_leaves_no_trace() -> None:
    screen = Screen(is_terminal=True)

    with progress("advancing", screen, after_s=0):
        assert screen.written.wait(20)

    shown = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", screen.getvalue())
    assert "advancing for 0 s" in shown
    # The last thing is to erase the line.
    assert screen.getvalue().endswith("\x1b[2K")


@pytest.mark.slow
def test_the_time_of_a_long_call_counts_from_its_beginning() -> None:
    screen = Screen(is_terminal=True)

    with progress("advancing", screen, after_s=0.6):
        assert screen.written.wait(20)

    assert "for 0 s" not in screen.getvalue()


def test_short_call_shows_nothing() -> None:
    screen = Screen(is_terminal=True)

    with progress("advancing", screen, after_s=20):
        pass

    assert screen.getvalue() == ""


@pytest.mark.parametrize("is_terminal", [False, True])
def test_progress_is_for_terminals_of_people_only(is_terminal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Screen(is_terminal=is_terminal)
    if is_terminal:
        monkeypatch.setenv("CLAUDECODE", "1")

    with progress("advancing", screen, after_s=0), pytest.raises(click.Abort):
        raise click.Abort

    assert screen.getvalue() == ""


# -- the forms in which `env` writes variables -----------------------------------------------------


@pytest.mark.parametrize(
    ("form", "text"), [(Format.POWERSHELL, "$env:A = 'it''s $x \\'"), (Format.FISH, r"set -gx A 'it\'s $x \\'")]
)
def test_values_reach_another_shell_as_they_are(form: Format, text: str) -> None:
    assert written({"A": "it's $x \\"}, form) == text


# -- `health --wait`: asks until the server is well, and no longer than it was told ----------------


def test_it_asks_until_the_server_is_well() -> None:
    answers: list[str | CommandFailed] = [CommandFailed("no server"), CommandFailed("not well"), "well"]
    paused: list[float] = []

    def ask() -> str:
        answer = answers.pop(0)
        if isinstance(answer, CommandFailed):
            raise answer
        return answer

    assert ask_until(ask, 5, clock=lambda: sum(paused), pause=paused.append) == "well"
    assert len(paused) == 2


def test_it_gives_up_with_what_it_was_told_last() -> None:
    paused: list[float] = []

    def ask() -> str:
        raise CommandFailed("no server answers")

    with pytest.raises(CommandFailed, match="no server answers; waited for 5 s"):
        ask_until(ask, 5, clock=lambda: sum(paused), pause=paused.append)
    assert 4.5 < sum(paused) <= 5
