"""What the Python API raises.

    EmulatorError
      ├─ Refused        the emulator said no; status, field and text as its control API gives them
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


class Unreachable(EmulatorError):
    """No emulator answers: it was not started, was closed, or the address is wrong."""


class Caught(Protocol):
    """What pytest knows of an exception, as far as it is needed here."""

    @property
    def value(self) -> BaseException: ...


def is_told(caught: Caught) -> bool:
    """Whether an exception says all there is to say: of a module's `__tracebackhide__`, for pytest.

    A failed test then shows its own line instead of the way through the client.
    """
    return isinstance(caught.value, EmulatorError)


def is_misuse(caught: Caught) -> bool:
    """The same of a module whose errors of these kinds are all about what it was given."""
    return isinstance(caught.value, TypeError | ValueError)
