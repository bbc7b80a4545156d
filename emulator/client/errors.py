"""What the Python API raises.

    EmulatorError
      ├─ Refused        the emulator said no; status, field and text as its control API gives them
      ├─ NotAnEmulator  another program answers at the address
      └─ Unreachable    no emulator answers, or it was closed

A failed expectation (`verify`, `wait_for`) is an AssertionError instead: a test that fails, not one that breaks.
"""

from __future__ import annotations

from typing import Protocol


class EmulatorError(Exception):
    """Something went wrong between a test and its emulator."""


class Refused(EmulatorError):
    """The emulator refused a call; `field` names what is to blame, if one thing is."""

    def __init__(self, text: str, *, status: int, field: str | None = None) -> None:
        super().__init__(text)
        self.status = status
        self.field = field


class NotAnEmulator(EmulatorError):
    """Another program answers at the address, with an HTTP status."""

    def __init__(self, text: str, *, status: int) -> None:
        super().__init__(text)
        self.status = status


class Unreachable(EmulatorError):
    """No emulator answers: it was not started, was closed, or the address is wrong."""


class Caught(Protocol):
    """The part of pytest's ExceptionInfo that is used here."""

    @property
    def value(self) -> BaseException: ...


def is_emulator_error(caught: Caught) -> bool:
    """Hides a module's frames from pytest's traceback of an EmulatorError (`__tracebackhide__`).

    A failed test then shows its own line instead of the client's frames.
    """
    return isinstance(caught.value, EmulatorError)


def is_argument_error(caught: Caught) -> bool:
    """The same for a module whose TypeErrors and ValueErrors are all about its arguments."""
    return isinstance(caught.value, TypeError | ValueError)


def is_error_of_a_call(caught: Caught) -> bool:
    """Both, for a module that hands its arguments on to such a one."""
    return is_emulator_error(caught) or is_argument_error(caught)
