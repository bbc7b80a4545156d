"""What the server logs, and how: a line for each delivery, as text for people or as JSON.

No line has a body, an answer or a credential, at no level (D-775, D-777): who wants to see them asks the server.

What may be written to a terminal follows the conventions of terminals (D-277).
"""

from __future__ import annotations

import json
import logging
import os
import re
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from emulator.core import message_facts, resource_facts
from emulator.core.model.messages import AttemptOutcome, Message, Phase
from emulator.core.record import MessageId
from emulator.core.state import Fact, StateView
from emulator.core.world_setup import DEFAULT
from emulator.wire.redaction import Surface, mask_credentials, visibility_of
from emulator.wire.times import iso

if TYPE_CHECKING:
    from emulator.worlds.registry import Worlds
    from emulator.worlds.world import World


# -- what may be written to a terminal --------------------------------------------------------

# What our own styles are made of: bold, dim, colours, and back to normal. Nothing that hides or moves.
_STYLE = re.compile(r"(\x1b\[(?:[0-2]|3[0-79]|9[0-7])m)")


def wants_colours() -> bool:
    """False with the environment variable NO_COLOR, a convention between programs, and for a coding agent."""
    return not os.environ.get("NO_COLOR") and not runs_for_agent()


_OF_AGENTS = ("CLAUDECODE", "CURSOR_AGENT", "GEMINI_CLI", "AI_AGENT")


def runs_for_agent() -> bool:
    """Whether a coding agent runs this, which reads everything as text: by the variables that those set."""
    return any(os.environ.get(name) for name in _OF_AGENTS) or any(name.startswith("CODEX_") for name in os.environ)


def printable(text: str) -> str:
    """A text as one line that can be written to a terminal or a log.

    Control characters, line breaks and marks of direction, which could forge lines or rule the
    terminal, are shown as escapes such as `\\x1b`.
    """
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def printable_styled(line: str) -> str:
    """The same for a line of our own in which parts have a style."""
    if line.isprintable():
        return line
    return "".join(part if number % 2 else printable(part) for number, part in enumerate(_STYLE.split(line)))


# -- what the server logs, and how: a line for each delivery, as text for people or as JSON ---

logger = logging.getLogger("emulator.deliveries")

_COLOURS = {logging.DEBUG: "2", logging.INFO: "0", logging.WARNING: "33", logging.ERROR: "31", logging.CRITICAL: "31"}
_STANDARD = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime"}


class _Text(logging.Formatter):
    def __init__(self, *, colour: bool) -> None:
        super().__init__("%(message)s")
        self._colour = colour

    def format(self, record: logging.LogRecord) -> str:
        text = printable(mask_credentials(record.getMessage()))
        if record.levelno >= logging.WARNING:
            text = f"{record.levelname.lower()}: {text}"
        if record.exc_info:
            # Indented, so that no line of it can be taken for another entry.
            trace = mask_credentials(self.formatException(record.exc_info))
            text += "".join(f"\n  {printable(line)}" for line in trace.splitlines())
        colour = _COLOURS.get(record.levelno, "0")
        return f"\x1b[{colour}m{text}\x1b[0m" if self._colour and colour != "0" else text


class _Json(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        fields = {name: value for name, value in record.__dict__.items() if name not in _STANDARD}
        wall_ms = round(record.created * 1000)
        line = {"wall": iso(wall_ms), "wall_ms": wall_ms}
        if isinstance(at_ms := fields.pop("at_ms", None), int):
            line |= {"at": iso(at_ms), "at_ms": at_ms}
        line |= {"level": record.levelname.lower(), "logger": record.name, "message": record.getMessage(), **fields}
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return mask_credentials(json.dumps(line, default=str))


def formatter(log_format: str, *, is_coloured: bool) -> logging.Formatter:
    """What makes a line of an entry, as `json` or as text."""
    return _Json() if log_format == "json" else _Text(colour=is_coloured)


def stamp(worlds: Worlds) -> None:
    """From now on entries carry the virtual time, which the JSON form shows."""
    for handler in logging.getLogger().handlers:
        handler.addFilter(VirtualTime(worlds))


def configure(log_format: str, level: str) -> None:
    """Log to standard error; in colour only on a terminal, and not if NO_COLOR is set."""
    # Looked up for each entry, and in none of the lines: a third of what an entry costs.
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    handler = logging.StreamHandler(sys.stderr)
    is_coloured = sys.stderr.isatty() and wants_colours()
    handler.setFormatter(formatter(log_format, is_coloured=is_coloured))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("emulator").setLevel(level.upper())


_REFUSED = frozenset((resource_facts.ScheduleFired,))
_LOGGED = _REFUSED | {message_facts.AttemptStarted, message_facts.AttemptFinished}


class VirtualTime(logging.Filter):
    """Gives every entry the virtual time of the world it is about, of the default one if it is about none."""

    def __init__(self, worlds: Worlds) -> None:
        super().__init__()
        self._worlds = worlds

    def filter(self, record: logging.LogRecord) -> bool:
        if "at_ms" not in record.__dict__:
            wanted = record.__dict__.get("world", DEFAULT)
            record.at_ms = next((world.clock.now_ms for world in self._worlds.all() if world.id == wanted), None)
        return True


class DeliveryLog:
    """An observer of worlds that logs every attempt that comes back and every refused firing, one line each.

    `worlds` are those that exist already: after a restart their attempts may be under way.
    """

    def __init__(self, worlds: Iterable[World] = ()) -> None:
        self._under_way: dict[tuple[str, MessageId], Message] = {
            (world.id, progress.message.message_id): progress.message
            for world in worlds
            for progress in world.state.messages.values()
            if progress.phase is Phase.ACTIVE
        }

    def __call__(self, world: World, state: StateView, produced: Sequence[Fact]) -> None:
        is_complete = logger.isEnabledFor(logging.INFO)
        if (_LOGGED if is_complete else _REFUSED).isdisjoint(map(type, produced)):
            return
        due = {fact.message_id: fact.due_ms for fact in produced if isinstance(fact, message_facts.RetryScheduled)}
        for fact in produced:
            if isinstance(fact, resource_facts.ScheduleFired):
                if fact.error is not None:
                    _log_refused_firing(world.id, fact, fact.error)
            elif is_complete and isinstance(fact, message_facts.AttemptStarted):
                self._under_way[world.id, fact.message_id] = state.messages[fact.message_id].message
            elif is_complete and isinstance(fact, message_facts.AttemptFinished):
                message = self._under_way.pop((world.id, fact.message_id), None)
                if message is not None:
                    _log_attempt(world.id, message, fact, due.get(fact.message_id))


def _log_refused_firing(world_id: str, fact: resource_facts.ScheduleFired, error: str) -> None:
    logger.warning(
        "%s schedule %s fired and made no message: %s",
        iso(fact.at_ms),
        fact.schedule_id,
        error,
        extra={"at_ms": fact.at_ms, "schedule_id": fact.schedule_id, "error": error, "world": world_id},
    )


def _log_attempt(world_id: str, message: Message, fact: message_facts.AttemptFinished, retry_ms: int | None) -> None:
    outcome = visibility_of(message, Surface.LOG).outcome(fact.outcome)
    response = None if outcome.succeeded else outcome.response
    answer = "" if response is None else response.body.decode()
    of_world = "" if world_id == DEFAULT else f" --world {world_id}"
    level = logging.INFO if outcome.succeeded else logging.WARNING
    logger.log(
        level,
        "%s %s %s -> %s (attempt %d, %s) %s%s%s",
        iso(fact.at_ms),
        message.method.value,
        message.url,
        _result(outcome),
        fact.number,
        outcome.via.value,
        message.message_id,
        answer and f": {answer}, see svc-emulator show {message.message_id[-8:]}{of_world}",
        "" if retry_ms is None else f"; retry at {iso(retry_ms)}",
        extra={
            "at_ms": fact.at_ms,
            "message_id": message.message_id,
            "url": message.url,
            "method": message.method.value,
            "attempt": fact.number,
            "status": None if outcome.response is None else outcome.response.status,
            "error": outcome.error,
            "answer": answer or None,
            "retry_at_ms": retry_ms,
            "via": outcome.via.value,
            "world": world_id,
        },
    )


def _result(outcome: AttemptOutcome) -> str:
    return str(outcome.response.status) if outcome.response is not None else str(outcome.error)
