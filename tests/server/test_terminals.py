"""What may be written to a terminal, and to a log."""

from __future__ import annotations

import click
import pytest

from emulator.server.terminals import printable, printable_styled


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain text, and schön — ✓", "plain text, and schön — ✓"),
        ("a\x1b[2Jb", "a\\x1b[2Jb"),
        ("a\r\nwarning: forged", "a\\r\\nwarning: forged"),
        ("tab\there", "tab\\there"),
        ("\x9b31m\x00\x7f", "\\x9b31m\\x00\\x7f"),
        ("abc\u202egnp.exe", "abc\\u202egnp.exe"),
        ("line\u2028separator", "line\\u2028separator"),
        ("\udcff", "\\udcff"),
    ],
)
def test_control_characters_are_shown_and_not_carried_out(text: str, shown: str) -> None:
    """D-277."""
    assert printable(text) == shown
    assert printable_styled(text) == shown


def test_our_own_styles_stay_and_others_are_shown() -> None:
    """D-277."""
    styled = click.style("200", fg="green") + click.style(" (again)", dim=True) + click.style("x", bold=True)
    assert printable_styled(styled) == styled
    # Hidden text, a moved cursor, a title.
    for hostile in ("\x1b[8m", "\x1b[1A", "\x1b]0;title\x07", "\x1b[38;5;1m"):
        assert "\x1b" not in printable_styled(f"a{hostile}b")
