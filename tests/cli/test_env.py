"""The forms in which `env` writes variables."""

from __future__ import annotations

import pytest

from emulator.cli.env import Format, written


@pytest.mark.parametrize(
    ("form", "text"),
    [
        (Format.POWERSHELL, "$env:A = 'it''s $x \\'"),
        (Format.FISH, r"set -gx A 'it\'s $x \\'"),
    ],
)
def test_values_reach_another_shell_as_they_are(form: Format, text: str) -> None:
    assert written({"A": "it's $x \\"}, form) == text
