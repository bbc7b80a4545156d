"""The public names of the Python API can be imported, and the examples in their docstrings are true."""

from __future__ import annotations

import doctest
import importlib

import pytest

import emulator


@pytest.mark.parametrize(
    "module",
    [
        "emulator",
        "emulator.client.meanings",
        "emulator.client.sync.emulator",
        "emulator.client.sync.world",
        "emulator.client.sync.clock",
        "emulator.client.sync.destinations",
        "emulator.client.sync.snapshots",
        "emulator.client.sync.messages",
        "emulator.client.sync.schedules",
        "emulator.client.sync.queues",
        "emulator.client.sync.url_groups",
        "emulator.client.sync.dead_letters",
        "emulator.client.exploring",
    ],
)
def test_every_example_in_a_docstring_is_true(module: str) -> None:
    # The examples of its parts use the class by its name, as users do.
    names = {"Emulator": emulator.Emulator}
    failed, tried = doctest.testmod(importlib.import_module(module), extraglobs=names, optionflags=doctest.ELLIPSIS)
    assert (failed, tried > 0) == (0, True)


def test_all_that_is_promised_can_be_imported() -> None:
    aliases = {"Answer", "Application", "Duration", "Instant", "StepExpected"}
    for name in emulator.__all__:
        found = getattr(emulator, name)
        assert name in aliases or found.__name__ == name
    with pytest.raises(AttributeError, match="no attribute 'Emulater'"):
        emulator.Emulater  # type: ignore[attr-defined]  # noqa: B018
