"""What commands print beside their results: the spinner of a long call."""

from __future__ import annotations

import io
import re
import threading

import click
import pytest

from emulator.cli.output import columns, progress


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


def test_progress_is_for_terminals_only() -> None:
    screen = Screen(is_terminal=False)

    with progress("advancing", screen, after_s=0), pytest.raises(click.Abort):
        raise click.Abort

    assert screen.getvalue() == ""
