"""The tools that only read: find, why, docs."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal

import msgspec
from msgspec import Meta

from emulator.agents import documents
from emulator.agents.moving import delivery_line
from emulator.agents.tool import (
    FULL,
    SHORT,
    Connection,
    Tool,
    ToolFailed,
    World,
    WorldId,
    answer,
    end_of,
    fitting,
    one_line,
)
from emulator.client.control import segment
from emulator.client.errors import Refused

Row = Mapping[str, Any]


def _message(row: Row) -> str:
    waits = row["waits"] or (f"next at {row['next']}" if row["next"] else row["last_result"] or "")
    labels = "".join(f" [{label}]" for label in row["labels"])
    return (
        f"{end_of(row['message_id'])} {row['created']} {row['state']} {row['attempts']}/{row['max_attempts']} "
        f"{row['method']} {row['url']}{labels} {waits}"
    )


def _dead_letter(row: Row) -> str:
    return f"{row['dead_letter_id']} {row['failed']} {row['method']} {row['url']}: {row['last_result']}"


def _run(row: Row) -> str:
    return f"{row['id']} {row['created']} {row['state']} {row['url']}"


def _schedule(row: Row) -> str:
    return f"{row['schedule_id']} {row['cron']} -> {row['destination']} {'paused' if row['paused'] else row['next']}"


def _queue(row: Row) -> str:
    return f"{row['name']} parallelism {row['parallelism']}, lag {row['lag']}{', paused' if row['paused'] else ''}"


def _group(row: Row) -> str:
    return f"{row['name']}: {', '.join(each['url'] for each in row['endpoints']) or 'no endpoints'}"


def _refused(row: Row) -> str:
    return f"{row['at']} {row['method']} {row['path']} -> {row['status']} {row['error']} {row['hint'] or ''}"


def _upcoming(row: Row) -> str:
    return f"{row['at']} {row['kind']} {row.get('url') or row.get('destination') or ''}: {row['why']}"


# Each list of the control API: its path, where the rows are, what is asked for, and a row as a line.
_LISTS: Mapping[str, tuple[str, str, Mapping[str, str], Callable[[Row], str]]] = {
    "deliveries": ("deliveries", "deliveries", {"order": "latestFirst", "brief": "true"}, delivery_line),
    "messages": ("messages", "messages", {}, _message),
    "dead-letters": ("dead-letters", "dead_letters", {}, _dead_letter),
    "runs": ("runs", "runs", {}, _run),
    "schedules": ("schedules", "schedules", {}, _schedule),
    "queues": ("queues", "queues", {}, _queue),
    "groups": ("url-groups", "url_groups", {}, _group),
    "rules": ("destinations", "destinations", {}, json.dumps),
    "refused": ("refused", "refused", {}, _refused),
    "upcoming": ("upcoming", "items", {"expiries": "false"}, _upcoming),
}
_PAGED = ("deliveries", "messages", "dead-letters", "runs")
# The most entries of those that come whole and take a limit.
_MOST = {"refused": 1_000, "upcoming": 10_000}

Kind = Literal[
    "deliveries", "messages", "dead-letters", "runs", "schedules", "queues", "groups", "rules", "refused", "upcoming"
]


class Find(Tool):
    """List what a world has, the newest first, a line each. Of message ids the ends are shown, which all tools take."""

    tool: ClassVar[str] = "find"
    reads_only: ClassVar[bool] = True
    kind: Kind
    where: Annotated[
        dict[str, str],
        Meta(description="Filters of that list: url (glob), label, queue, schedule, state, outcome, ..."),
    ] = msgspec.field(default_factory=dict)
    limit: Annotated[int, Meta(ge=1, le=1000)] = 10
    cursor: Annotated[str, Meta(description="From the answer before")] = ""
    detail: Annotated[Literal["short", "full"], Meta(description="full: JSON, with headers and bodies")] = "short"
    world: WorldId = "default"

    async def perform(self, connection: Connection) -> str:
        world = await connection.world(self.world)
        most, limit = FULL if self.detail == "full" else SHORT, self.limit
        while True:
            rows, cursor = await self._rows(world, limit)
            next = ([self._again(cursor)] if cursor else []) + (["why(ID)"] if rows else ["status"])
            lines = [self._line(row) for row in rows]
            count = fitting(lines, next=next, most=most)
            if count >= len(lines):
                return answer(lines or [f"no {self.kind}"], next=next, most=most)
            # So many again, because the cursor has to follow the last one that is shown (D-796).
            limit = count

    async def _rows(self, world: World, limit: int) -> tuple[Sequence[Row], str | None]:
        """The next entries of the list, and the cursor behind them if there are more. Raises ToolFailed."""
        path, key, asked, _ = _LISTS[self.kind]
        is_full = self.detail == "full"
        if "redact" in self.where:
            raise ToolFailed(
                "where: redact is no filter: tools show hashes of what is redacted",
                "leave it out; a person sees originals with svc-emulator show ID --originals",
            )
        query = {name: value for name, value in asked.items() if not (is_full and name == "brief")} | self.where
        if self.kind not in _PAGED:
            return await self._slice(world, path, key, query, limit)
        if self.cursor:
            query["cursor"] = self.cursor
        if is_full:
            # A page that is cut because its bodies are long has more than fits.
            page = await world.control("GET", path, **query, limit=limit)
        else:
            page = await world.page(path, key, limit, query)
        return page[key], page["cursor"]

    async def _slice(
        self, world: World, path: str, key: str, query: Mapping[str, str], limit: int
    ) -> tuple[Sequence[Row], str | None]:
        """The same of a list that comes whole. Its cursor is how many entries were shown before.

        Refused calls, to which newer ones come, are continued behind the number of the last.
        """
        if self.cursor and not re.fullmatch("[0-9]{1,15}", self.cursor):
            text = f"cursor: expected that of an answer of this list, got {self.cursor[:40]!r}"
            raise ToolFailed(text, f'find("{self.kind}") without it')
        after = int(self.cursor or 0)
        if self.kind in _MOST:
            query = {"limit": str(_MOST[self.kind]), **query}
        rows: list[Row] = (await world.control("GET", path, **query))[key]
        if self.kind == "refused":
            rows = [row for row in rows[::-1] if not after or row["seq"] < after]
            return rows[:limit], str(rows[limit - 1]["seq"]) if len(rows) > limit else None
        end = after + limit
        return rows[after:end], str(end) if len(rows) > end else None

    def _line(self, row: Row) -> str:
        _, _, _, line = _LISTS[self.kind]
        return json.dumps(row) if self.detail == "full" else one_line(line(row), 400)

    def _again(self, cursor: str) -> str:
        """The call that continues the list."""
        options: dict[str, object] = {"limit": self.limit, "cursor": cursor}
        if self.where:
            options["where"] = self.where
        if self.detail != "short":
            options["detail"] = self.detail
        if self.world != "default":
            options["world"] = self.world
        named = ", ".join(f"{name}={json.dumps(value)}" for name, value in options.items())
        return f'find("{self.kind}", {named})'


class Why(Tool):
    """Why a message, schedule or run is where it is: the reason chain with its arithmetic, the app's answer, and what
    to change."""

    tool: ClassVar[str] = "why"
    reads_only: ClassVar[bool] = True
    id: Annotated[str, Meta(description="Id or its end, URL or label of a message; id of a schedule or run")]
    world: WorldId = "default"

    async def perform(self, connection: Connection) -> str:
        world = await connection.world(self.world)
        kind, found = await self._resolve(world)
        explained = await world.control("GET", f"{kind}/{segment(found)}/explain")
        lines = [f"{found}: {explained['summary']}"]
        lines += [f"{each['at']} {each['kind']}: {each['text']}" for each in explained["reasons"]]
        if kind != "messages":
            return answer(lines, next=["find", "advance"])
        return answer([lines[0], *await _said(world, found), *lines[1:]], next=_changes(explained, found))

    async def _resolve(self, world: World) -> tuple[str, str]:
        """The kind in the control API, and the whole id. Raises ToolFailed."""
        if self.id.startswith("msg_"):
            return "messages", self.id
        schedules = (await world.control("GET", "schedules"))["schedules"]
        if any(self.id == each["schedule_id"] for each in schedules):
            return "schedules", self.id
        try:
            await world.control("GET", f"runs/{segment(self.id)}")
        except Refused:
            return "messages", await world.find_message(self.id)
        return "runs", self.id


async def _said(world: World, message_id: str) -> Iterator[str] | list[str]:
    """What the application answered to the last attempt, without what the message hides."""
    query = {"message_id": message_id, "order": "latestFirst", "limit": 1}
    latest = (await world.control("GET", "deliveries", **query))["deliveries"]
    if not latest:
        return []
    [last] = latest
    if last["response"] is None:
        return [f"no answer to delivery {last['seq']}: {last['error']}"]
    body = last["response"]["body"]
    said = one_line(body, 400) if body else "without a body"
    return [f"the app answered delivery {last['seq']} with {last['response']['status']}: {said}"]


def _changes(explained: Row, message_id: str) -> list[str]:
    """What to change, by where the message stands and what answered it last."""
    attempts = [each for each in explained["reasons"] if each["kind"] == "attempt"]
    last = attempts[-1] if attempts else {}
    again = f'act("redeliver", ["{end_of(message_id)}"])'
    status, error = last.get("status"), last.get("error") or ""
    match explained["state"]:
        case "HELD":
            return ["raise the limit or resume what holds it (act resume)", "advance"]
        case "PENDING" | "ACTIVE":
            return [f'advance(until="message {end_of(message_id)}")']
        case "DELIVERED" | "CANCELED":
            return ["verify"]
    if last.get("rule_id"):
        return [f'a rule of yours answers: rule("remove", id="{last["rule_id"]}")', again]
    if status in (401, 403):
        return [
            "the app refuses the signature: compare its signing keys with the world's, and behind a proxy the URL",
            "check_receiver(URL)",
        ]
    if status in (404, 405):
        return ["the app has no such route: compare URL and method", again]
    if status is not None and status >= 500:
        return ["mend the handler (its answer is above)", again]
    if "refused" in error or "reset" in error:
        return ["start the app, or correct the port", again]
    if "timeout" in error:
        return ["answer sooner and work later, or give a longer timeout", again]
    return ["mend the app", again]


class Docs(Tool):
    """Search handbook, decisions and contract of this version."""

    tool: ClassVar[str] = "docs"
    reads_only: ClassVar[bool] = True
    query: Annotated[str, Meta(min_length=1, description="Words")]
    limit: Annotated[int, Meta(ge=1, le=20)] = 3

    async def perform(self, connection: Connection) -> str:
        found = documents.search(self.query, self.limit)
        if not found:
            return answer([f"nothing is said of {one_line(self.query)}"], next=["docs with other words"])
        most = (SHORT - 100) // len(found)
        return answer([f"# {each.title}\n{_cut(each.text, most - len(each.title))}" for each in found], next=["docs"])


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 4].rsplit(' ', 1)[0]} ..."
