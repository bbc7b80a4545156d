"""The two faces of the Python API are one, and their examples are true."""

from __future__ import annotations

import doctest
import importlib

import pytest

import emulator
from tests.client import faces


def test_the_blocking_face_is_made_from_the_awaiting_one() -> None:
    made = faces.blocking_faces()
    assert len(made) == 4
    for path, text in made.items():
        assert path.read_text(encoding="utf-8") == text, "run `python -m tests.client.faces`"


@pytest.mark.parametrize(
    "module",
    [
        "emulator",
        "emulator.client.sync.emulator",
        "emulator.client.sync.clock",
        "emulator.client.sync.destinations",
        "emulator.client.sync.snapshots",
    ],
)
def test_every_example_in_a_docstring_is_true(module: str) -> None:
    # The parts of a face know it by its name only, as their users do.
    names = {"Emulator": emulator.Emulator}
    failed, tried = doctest.testmod(importlib.import_module(module), extraglobs=names, optionflags=doctest.ELLIPSIS)
    assert (failed, tried > 0) == (0, True)


def test_all_that_is_promised_can_be_imported() -> None:
    for name in emulator.__all__:
        assert getattr(emulator, name).__name__ == name
    with pytest.raises(AttributeError, match="no attribute 'Emulater'"):
        emulator.Emulater  # type: ignore[attr-defined]  # noqa: B018
