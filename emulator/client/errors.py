"""What the Python API raises.

    EmulatorError
      ├─ Refused         the emulator said no; status, field and text as its control API gives them
      ├─ NotAnEmulator   another program answers at the address
      ├─ Unreachable     no emulator answers, or it was closed
      └─ HistoryNotKept  what is asked depends on history that was dropped (`keep_history`)

The same mistake is the same error everywhere: an id or a name that does not exist is Refused with the status 404,
also for `get`, `cancel`, `explain` and `remove`; only where the service itself does not mind (queues and URL groups
that are deleted, flow control keys, which exist once they are named) it is no error. An argument that cannot be
meant is a TypeError (an unknown keyword, a wrong type, an id that is None) or a ValueError (a wrong value, an empty
id or filter), and its text says what was expected. An emulator that is closed, or not started yet, is Unreachable.

A failed expectation (`verify`, `wait_for`) is an AssertionError instead: a test that fails, not one that breaks.
What is answered although a part of history is missing comes with a `HistoryWarning`.

What has to reach a test though it happened elsewhere is here too: exceptions of mounted code, and calls without
`await`. Mounted code runs in another thread or on an event loop, where an exception would end a thread or a loop and
fail no test. So it is caught there, answered with 500 and kept here, and a test meets it again in its own thread: in
the call of the emulator that waits for the delivery, in the next one, or at the end of the world.
"""

from __future__ import annotations

import asyncio
import re
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Coroutine, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime
from functools import wraps
from inspect import CORO_CREATED, getcoroutinestate, iscoroutinefunction
from types import TracebackType
from typing import Any, Literal, Protocol, TypeAlias, TypeVar, cast, get_args

from emulator.core.record import AsDatetime
from emulator.wire.times import iso


class EmulatorError(Exception):
    """Something went wrong between a test and its emulator."""


class EmulatorWarning(UserWarning):
    """A test has passed, and probably not for the reason that it was written for."""


class Refused(EmulatorError):
    """The emulator refused a call; `field` names what is to blame, if one thing is.

    `next` says what to do next, a command or a call; None if the service's own API refused.
    """

    def __init__(self, text: str, *, status: int, field: str | None = None, next: str | None = None) -> None:
        super().__init__(text)
        self.status = status
        self.field = field
        self.next = next


class NotAnEmulator(EmulatorError):
    """Another program answers at the address, with an HTTP status."""

    def __init__(self, text: str, *, status: int) -> None:
        super().__init__(text)
        self.status = status


class Unreachable(EmulatorError):
    """No emulator answers: it was not started, was closed, or the address is wrong."""


class LoopMisuse(EmulatorError):
    """Mounted code would have ended the event loop that it runs on, or a task there that is not its own."""


class HistoryNotKept(EmulatorError):
    """What is asked cannot be answered: it depends on history that was dropped, see `keep_history`."""


class HistoryWarning(UserWarning):
    """A list is not whole: the oldest history was dropped, see `keep_history`."""


def warn_of_dropped(dropped_ms: int, what: str) -> None:
    """Say that a list is not whole, up to an instant."""
    text = f"history up to {iso(dropped_ms)} is not kept, and {what} before it are not listed (keep_history)"
    warnings.warn(text, HistoryWarning, stacklevel=3)


_OF_A_HANDLER = "_emulator_raises_again"


class Caught(Protocol):
    """The part of pytest's ExceptionInfo that is used here."""

    @property
    def value(self) -> BaseException: ...


def is_emulator_error(caught: Caught) -> bool:
    """Hides a module's frames from pytest's traceback of an EmulatorError (`__tracebackhide__`).

    A failed test then shows its own line instead of the client's frames. The same holds for the exceptions of
    mounted code that a call raises again.
    """
    return isinstance(caught.value, EmulatorError) or hasattr(caught.value, _OF_A_HANDLER)


def hide_from_traceback(error: BaseException) -> None:
    """Let the client's frames be hidden for this exception as well."""
    _set(error, _OF_A_HANDLER, True)


def _set(error: BaseException, name: str, value: object) -> None:
    """Set an attribute, also of an exception whose class refuses that, such as a frozen dataclass."""
    BaseException.__setattr__(error, name, value)


def is_argument_error(caught: Caught) -> bool:
    """The same for a module whose TypeErrors and ValueErrors are all about its arguments."""
    return isinstance(caught.value, TypeError | ValueError)


def is_error_of_a_call(caught: Caught) -> bool:
    """Both, for a module that hands its arguments on to such a one."""
    return is_emulator_error(caught) or is_argument_error(caught)


# D-470.
T = TypeVar("T")

# `raise`: assertions and outcomes of mounted code fail the test. `report`: they are listed and answered with 500.
Mode: TypeAlias = Literal["raise", "report"]

# The exceptions that keep their tracebacks, and with them the variables of the code that raised them.
_WITH_TRACEBACK = 100
# Parts of an emulator whose names are not those of their classes.
_PARTS = {"flow_control_keys": "flow_control"}
# Packages whose frames stand between the emulator and an application.
_BETWEEN = frozenset(("emulator", "httpx", "asyncio", "concurrent", "threading"))

# The server and the world whose delivery the application answers at this moment, if it does.
ANSWERING: ContextVar[object] = ContextVar("answering", default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class HandlerError:
    """An exception of a mounted application: of a delivery to `url`, or of its start-up or shutdown.

    `message_id` and `at_ms`, the virtual instant of the attempt (epoch ms), are None for the latter, whose `url`
    is the origin, and for a request of `check_receiver`. The traceback of `error` begins in the application.
    """

    error: BaseException
    url: str
    message_id: str | None
    at_ms: int | None
    of_check: bool = False

    at = AsDatetime[datetime | None]("at_ms")

    def __str__(self) -> str:
        """One line: what was raised, and by which delivery."""
        return f"{summary(self.error)} ({_where(self)})"


def _where(found: HandlerError) -> str:
    if found.of_check:
        return f"a request of check_receiver to {found.url}"
    if found.message_id is None:
        return f"start-up or shutdown of the application at {found.url}"
    return f"the delivery of {found.message_id} to {found.url}"


def read_mode(mode: object) -> Mode:
    """Raises ValueError for another one."""
    if mode not in get_args(Mode):
        raise ValueError(f"handler_errors: expected 'raise' or 'report', got {mode!r}")
    return cast(Mode, mode)


def summary(error: BaseException) -> str:
    """The exception's type and text."""
    return f"{type(error).__name__}: {_text(error)}".removesuffix(": ")


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # What is shown of an exception is not to raise another.
        return "<its text cannot be made>"


class HandlerErrors:
    """The exceptions of a world's mounted applications, those that its test has not met yet, and unawaited calls."""

    def __init__(self, mode: Mode) -> None:
        self.mode = mode
        # The thread that has to meet them. Elsewhere they could be lost.
        self.thread = threading.get_ident()
        self._listed: list[HandlerError] = []
        # As they were in the application: raising one again in the test puts the frames of pytest before them.
        self._tracebacks: list[TracebackType | None] = []
        self._due: list[BaseException] = []
        # The coroutines of calls that may not have begun, and the names of the calls.
        self._calls: list[tuple[Coroutine[Any, Any, Any], str]] = []
        self._calls_lock = threading.Lock()

    @property
    def listed(self) -> Sequence[HandlerError]:
        """All that have happened so far, the newest last."""
        return tuple(self._listed)

    # -- taking in --------------------------------------------------------------------------

    def add(
        self,
        error: BaseException,
        *,
        url: str,
        message_id: str | None = None,
        at_ms: int | None = None,
        of_check: bool = False,
        is_unseen: bool = False,
    ) -> None:
        """Keep an exception. Those of the class Exception `of_check`, a check of the receiver, are in its report.

        The test has to meet one that `is_unseen`: no response shows it.
        """
        # D-471.
        if of_check and isinstance(error, Exception) and not _is_outcome(error):
            return
        found = HandlerError(error=error, url=url, message_id=message_id, at_ms=at_ms, of_check=of_check)
        # A framework's signal may come before the exception itself.
        if found in self._listed[-1:]:
            return
        _set(error, "__traceback__", _of_application(error.__traceback__))
        # D-471.
        if self._is_for_the_test(error) or (is_unseen and self.mode == "raise"):
            hide_from_traceback(error)
            add_note(error, f"It was raised by mounted code: {_where(found)}")
            # A retry that fails in the same way is met together with the first attempt.
            if _likeness(error) not in map(_likeness, self._due):
                self._due.append(error)
        elif len(self._listed) >= _WITH_TRACEBACK:
            for name in ("__traceback__", "__cause__", "__context__"):
                _set(error, name, None)
        self._listed.append(found)
        self._tracebacks.append(error.__traceback__)

    def _is_for_the_test(self, error: BaseException) -> bool:
        if isinstance(error, BaseExceptionGroup):
            return any(map(self._is_for_the_test, error.exceptions))
        if isinstance(error, AssertionError) or _is_outcome(error):
            return self.mode == "raise"
        return isinstance(error, LoopMisuse) or not isinstance(error, Exception)

    def watch(self, call: Coroutine[Any, Any, Any], name: str) -> None:
        """Remember a call until it is awaited."""
        self._look_for_forgotten()
        with self._calls_lock:
            self._calls.append((call, name))

    def _look_for_forgotten(self, *, is_end: bool = False) -> None:
        """Note the calls that were thrown away without `await`; at the end also those that are kept."""
        # D-474. The coroutines are those of the methods, since not every tool takes a wrapper for one. One that
        # never began says so as long as it exists, which is why they are kept here.
        with self._calls_lock:
            waiting = []
            for entry in self._calls:
                if getcoroutinestate(entry[0]) != CORO_CREATED:
                    continue
                if not is_end and _references(entry) > _ALONE:
                    waiting.append(entry)
                    continue
                # Python warns of one that is not closed.
                entry[0].close()
                name = entry[1]
                meant = f"{name}(...) was not awaited, so it did nothing: write `await emulator.{name}(...)`"
                self._due.append(EmulatorError(meant))
            self._calls = waiting

    # -- meeting ----------------------------------------------------------------------------

    def due_here(self) -> BaseException | None:
        """What a call of the emulator has to raise, if it is made by the test itself; it is raised once."""
        if threading.get_ident() != self.thread or ANSWERING.get() is not None:
            return None
        self._look_for_forgotten()
        return self.next_due()

    def next_due(self) -> BaseException | None:
        """What the test has not met yet, failures before what skips the test; each is answered once."""
        if not self._due:
            return None
        worst = self._due.pop(min(range(len(self._due)), key=lambda index: _is_skip(self._due[index])))
        if not isinstance(worst, asyncio.CancelledError) or not has_asyncio_loop():
            return worst
        # In a task it would only cancel the task, which may be taken for success.
        wrapped = RuntimeError("mounted code raised asyncio.CancelledError")
        wrapped.__cause__ = worst
        hide_from_traceback(wrapped)
        return wrapped

    def forget(self, error: BaseException) -> None:
        """The test meets this one now."""
        self._due = [each for each in self._due if each is not error]

    @property
    def has_due(self) -> bool:
        """Whether there is something that the test has not met yet."""
        return bool(self._due)

    def due_at_end(self) -> BaseException | None:
        """The same at the end of the world, when what was not awaited never will be."""
        self._look_for_forgotten(is_end=True)
        return self.next_due()

    def take_over(self, others: Sequence[HandlerErrors]) -> None:
        """Have the test meet here what it has not met in other worlds."""
        for other in others:
            self._due += other._due
            other._due = []

    def note_on(self, failure: BaseException) -> None:
        """Add what the test has not met to the failure that ended it; it is met then."""
        while (error := self.due_at_end()) is not None:
            add_note(failure, f"Not raised before the end: {summary(error)}")

    def report(self, limit: int = 10) -> str | None:
        """All exceptions so far as text with their tracebacks, None without any."""
        if not self._listed:
            return None
        parts = []
        for each, began in list(zip(self._listed, self._tracebacks, strict=True))[:limit]:
            at = "" if each.at_ms is None else f"{iso(each.at_ms)} "
            shown = traceback.format_exception(type(each.error), each.error, began)
            parts.append(f"{at}{_where(each)}\n{''.join(shown).strip()}")
        if len(self._listed) > limit:
            parts.append(f"... {len(self._listed) - limit} more in emulator.handler_errors")
        return "\n\n".join(parts)


def add_note(error: BaseException, note: str) -> None:
    """Add a note, once, also to an exception whose class refuses that."""
    notes = getattr(error, "__notes__", ())
    if note not in notes:
        _set(error, "__notes__", [*notes, note])


def has_asyncio_loop() -> bool:
    """Whether asyncio runs an event loop in this thread."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def is_cancellation(error: BaseException) -> bool:
    """Whether an exception cancels the task that it was caught in, and is not the application's own."""
    if isinstance(error, asyncio.CancelledError | GeneratorExit):
        try:
            task = asyncio.current_task()
        except RuntimeError:  # A thread, or trio.
            task = None
        if isinstance(error, GeneratorExit):
            # A coroutine is closed from outside; in a task that runs, its own code has raised it.
            return task is None
        return task is not None and task.cancelling() > 0
    # Trio's own cannot be made by an application.
    trio = sys.modules.get("trio")
    return trio is not None and isinstance(error, trio.Cancelled)


def _is_outcome(error: BaseException) -> bool:
    """Whether it is one of pytest's (Failed, Skipped, Exit), or unittest's way to skip a test."""
    case = sys.modules.get("unittest.case")
    if case is not None and isinstance(error, case.SkipTest):
        return True
    return any(each.__module__ == "_pytest.outcomes" for each in type(error).__mro__)


def may_be_replaced(failure: BaseException, *, by_shutdown: bool) -> bool:
    """Whether what ends a test may be the context of what mounted code raised: a skip, or an expected exception.

    A skip alone, if mounted code has raised nothing before its shutdown; and not what mounted code has raised itself.
    """
    is_of_handler = hasattr(failure, _OF_A_HANDLER)
    return _is_skip(failure) or (isinstance(failure, Exception) and not by_shutdown and not is_of_handler)


def _is_skip(error: BaseException) -> bool:
    return _is_outcome(error) and "Skip" in type(error).__name__


def _likeness(error: BaseException) -> tuple[object, ...]:
    """What exceptions that come of the same line for the same reason have in common."""
    *_, last = [None, *traceback.walk_tb(error.__traceback__)]
    return type(error), _text(error), last and (last[0].f_code.co_filename, last[1])


def _of_application(trace: TracebackType | None) -> TracebackType | None:
    """The traceback from the application's first frame on; all of it if there is none."""
    place = trace
    while place is not None:
        if str(place.tb_frame.f_globals.get("__name__", "")).partition(".")[0] not in _BETWEEN:
            return place
        place = place.tb_next
    return trace


# -- calls that have to be awaited ----------------------------------------------------------------


def _references(entry: tuple[object, str]) -> int:
    return sys.getrefcount(entry[0])


# Of a coroutine that nothing but its entry refers to.
_ALONE = _references((object(), ""))


def has_to_be_awaited(part: type[T]) -> type[T]:
    """A class of the asynchronous API whose public methods are missed when they are not awaited."""
    own = re.sub(r"(?<!^)(?=[A-Z])", "_", part.__name__.removeprefix("Async")).lower()
    place = "" if own in ("world", "emulator") else f"{_PARTS.get(own, own)}."
    for name, method in list(vars(part).items()):
        if iscoroutinefunction(method) and not name.startswith("_") and name not in ("start", "close"):
            setattr(part, name, _watched(method, f"{place}{name}"))
    return part


def _watched(method: Callable[..., Coroutine[Any, Any, T]], name: str) -> Callable[..., Coroutine[Any, Any, T]]:
    @wraps(method)
    def call(self: Any, *arguments: Any, **options: Any) -> Coroutine[Any, Any, T]:
        __tracebackhide__ = True
        made = method(self, *arguments, **options)
        errors = self._link.errors
        if errors is not None:
            errors.watch(made, name)
        return made

    return call
