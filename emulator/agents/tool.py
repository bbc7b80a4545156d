"""What the tools have in common: their arguments as records, the emulator that they call, short answers (D-710)."""

from __future__ import annotations

from collections.abc import Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated, Any, ClassVar, TypeVar

from msgspec import Meta

from emulator.client.aio.emulator import AsyncEmulator
from emulator.client.control import segment
from emulator.client.errors import Refused
from emulator.client.event_loops import async_wait
from emulator.client.session import Session, open_session
from emulator.core.record import Record

T = TypeVar("T")

# Characters of an answer, and of one in full.
SHORT = 2_000
FULL = 20_000

WorldId = Annotated[str, Meta(description="World to act in")]

# Ids of messages differ in the letters at their end; an end of fewer is met by chance too often.
_END_OF_ID = 8
_LEAST = 4


class ToolFailed(Exception):
    """A tool cannot do what was asked: the text says why, `next` what to call instead."""

    def __init__(self, text: str, next: str) -> None:
        super().__init__(text)
        self.next = next


class Tool(Record, forbid_unknown_fields=True):
    """A tool: its fields are its arguments, its docstring is its description. `perform` answers with text."""

    tool: ClassVar[str]
    reads_only: ClassVar[bool] = False
    destroys: ClassVar[bool] = False

    async def perform(self, connection: Connection) -> str:
        """Raises ToolFailed, EmulatorError, TypeError, ValueError."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class _Opened:
    session: Session


def _hiding(path: str, query: Mapping[str, object]) -> dict[str, str]:
    """The parameters of a call. The journal of deliveries alone is exact unless it is asked not to be."""
    parameters = {name: str(value) for name, value in query.items() if value is not None}
    return {**parameters, "redact": "true"} if path.partition("/")[0] == "deliveries" else parameters


class World:
    """One world of the emulator, as tools use it."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.emulator = AsyncEmulator.sharing(_Opened(session))

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of a coroutine of the session, which runs on the loop of that."""
        return await async_wait(self.session.server.background.submit(work))

    async def control(self, method: str, path: str, body: Any = None, **query: object) -> Any:
        """The JSON of a control call. Parameters that are None are left out. Raises EmulatorError.

        What messages and runs redact is hidden: what an agent reads goes to its model's provider (D-775).
        """
        return await self.run(self.session.control(method, path, body, query=_hiding(path, query)))

    async def page(self, path: str, name: str, most: int | None, query: Mapping[str, object]) -> dict[str, Any]:
        """A list of the control API with all entries or the first `most`, and its cursor. Raises EmulatorError."""
        return await self.run(self.session.entries(path, name, _hiding(path, query), most))

    async def entries(self, path: str, name: str, most: int | None = None, **query: object) -> list[Mapping[str, Any]]:
        """The entries of a list of the control API, all or the first `most`. Raises EmulatorError."""
        rows: list[Mapping[str, Any]] = (await self.page(path, name, most, query))[name]
        return rows

    async def find_message(self, text: str) -> str:
        """The id of the message with that id, the end of it, a URL or a label. Raises ToolFailed."""
        if text.startswith("msg_"):
            return text
        for name in ("url", "label") if "://" in text else ("id", "label"):
            if name != "id" or len(text) >= _LEAST:
                found = (await self.control("GET", "messages", limit=5, **{name: text}))["messages"]
                if len(found) > 1:
                    ids = ", ".join(end_of(each["message_id"]) for each in found)
                    raise ToolFailed(f"{text!r} may be any of several messages: {ids}", "give the id of one of them")
                if found:
                    return str(found[0]["message_id"])
        raise ToolFailed(f"no message has an id that ends in {text!r}, or that as its URL or label", 'find("messages")')


class Connection:
    """The emulator that the tools talk to."""

    def __init__(self, emulator: AsyncEmulator) -> None:
        """The emulator is open, and stays open as long as this is used."""
        self._server = emulator.session.server

    @property
    def url(self) -> str:
        """The address of the server."""
        return self._server.url

    async def world(self, world_id: str) -> World:
        """A world by its id. Raises Refused for one that does not exist."""
        opening = open_session(self._server, segment(world_id))
        return World(await async_wait(self._server.background.submit(opening)))


# -- what to do next --------------------------------------------------------------------------

# The tool for what a refusal names as the next step.
AS_TOOL = {
    "svc-emulator clock show": "status",
    "svc-emulator dead-letters list": 'find("dead-letters")',
    "svc-emulator deliveries": 'find("deliveries")',
    "svc-emulator destinations list": 'rule("list")',
    "svc-emulator flow-control list": 'find("upcoming")',
    "svc-emulator groups": 'find("groups")',
    "svc-emulator health": "status",
    "svc-emulator messages": 'find("messages")',
    "svc-emulator queues list": 'find("queues")',
    "svc-emulator runs list": 'find("runs")',
    "svc-emulator schedules list": 'find("schedules")',
    "svc-emulator snapshot list": 'world(action="list", id=WORLD)',
    "svc-emulator upcoming": 'find("upcoming")',
    "svc-emulator worlds list": 'world(action="list")',
}


def mended(error: Refused, tool: str) -> str:
    """What to do after a refusal of a call of that tool: as the server says (D-747), by a tool where one does it."""
    if error.status == HTTPStatus.UNAUTHORIZED:
        return "give the control token of the server: svc-emulator mcp --control-token TOKEN"
    if error.next is None and error.status == HTTPStatus.NOT_FOUND:
        return "find, which lists what there is"
    if error.next is None or error.status == HTTPStatus.BAD_REQUEST:
        field = f" with another {error.field}" if error.field else ""
        return f"call {tool} again{field}; docs says what is possible"
    return AS_TOOL.get(error.next, error.next)


# -- text -------------------------------------------------------------------------------------


def end_of(message_id: str) -> str:
    """The end of a message's id, which stands for it."""
    return message_id[-_END_OF_ID:]


def result_of(delivery: Mapping[str, Any]) -> str:
    """The status of an attempt, or why there was no answer; brief or whole."""
    response = delivery.get("response")
    status = delivery["status"] if "status" in delivery else response and response["status"]
    return str(delivery["error"] if status is None else status)


def one_line(text: str, most: int = 200) -> str:
    """A text as a part of a line."""
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most - 3]}..."


def _end(next: Sequence[str]) -> str:
    return f"next: {'; '.join(next)}" if next else ""


def _room(next: Sequence[str], most: int) -> int:
    """Characters for the lines of an answer, beside its end and the count of what is left out."""
    return most - len(_end(next)) - 60


def fitting(lines: Sequence[str], *, next: Sequence[str] = (), most: int = SHORT) -> int:
    """How many of the lines an answer of at most so many characters has; one at least, which may be cut."""
    left = _room(next, most)
    for at, line in enumerate(lines):
        left -= len(line) + 1
        if left < 0:
            return max(1, at)
    return len(lines)


def answer(lines: Iterable[str], *, next: Sequence[str] = (), most: int = SHORT) -> str:
    """Lines as an answer of at most so many characters, which ends with what to call next."""
    shown = list(lines)
    kept = shown[: fitting(shown, next=next, most=most)]
    room = _room(next, most)
    if kept and len(kept[0]) + 1 > room:
        # One that is too long alone is cut.
        kept[0] = f"{kept[0][: room - 4]}..."
    if rest := len(shown) - len(kept):
        kept.append(f"... {rest} more {'line' if rest == 1 else 'lines'} left out")
    return "\n".join([*kept, *([_end(next)] if next else [])])
