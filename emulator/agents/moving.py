"""The tools that move a world on: status, world, publish, advance, undo."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from emulator.agents.tool import Connection, Tool, ToolFailed, World, WorldId, answer, end_of, one_line, result_of
from emulator.client.control import segment
from emulator.client.verify.expectations import counted
from emulator.queries.reports import ended_by
from emulator.wire.times import format_duration

# Attempts of an advance that are grouped; of more, the first so many.
_MOST_GROUPED = 10_000
_FEW = 3


class Status(Tool):
    """Where a world stands: clock, what waits, last failures, refused calls, next three instants. Start here."""

    tool: ClassVar[str] = "status"
    reads_only: ClassVar[bool] = True
    world: WorldId = "default"

    async def perform(self, connection: Connection) -> str:
        world = await connection.world(self.world)
        clock = await world.control("GET", "clock")
        pace = {0: "frozen", 1: "real time"}.get(clock["rate"], f"{clock['rate']} times real time")
        lines = [
            f"{connection.url} world {self.world}: {clock['now']} ({pace})",
            f"{clock['pending']} messages live, {clock['in_flight']} attempts in flight",
        ]
        lines += _held_lines(clock)
        failed = await world.control(
            "GET", "deliveries", outcome="failed", order="latestFirst", limit=_FEW, brief="true"
        )
        lines += [f"failed: {delivery_line(each)}" for each in failed["deliveries"]] or ["no failed attempts"]
        refused = (await world.control("GET", "refused", limit=_FEW))["refused"]
        lines += [
            f"refused call: {each['at']} {each['method']} {each['path']} -> {each['status']} {each['error']}"
            for each in refused
        ]
        letters = (await world.control("GET", "dead-letters", limit=_FEW))["dead_letters"]
        lines += [f"dead letter: {each['dead_letter_id']} {each['url']}" for each in letters]
        coming = (await world.control("GET", "upcoming", limit=_FEW, expiries="false"))["items"]
        lines += [
            f"due {each['at']}: {each['kind']} {each.get('url') or each.get('destination') or ''} {each['why']}"
            for each in coming
        ]
        next = ["advance"] if coming else ["publish"]
        if failed["deliveries"]:
            next.insert(0, f'why("{end_of(failed["deliveries"][0]["message_id"])}")')
        next = [*_next_of_held(clock), *next]
        return answer(lines, next=next)


def _held_lines(answer: Mapping[str, Any]) -> list[str]:
    """The destinations to which nothing leaves."""
    return [each["why"] for each in answer.get("held", ())]


def _next_of_held(answer: Mapping[str, Any]) -> list[str]:
    """What says more of the first of them, and frees it."""
    return [
        step
        for each in answer.get("held", ())[:1]
        for step in (f'why("{end_of(each["message_id"])}")', f'act("cancel", ["{each["message_id"]}"])')
    ]


Action = Literal["list", "create", "fork", "reset", "delete", "save", "restore"]


class ManageWorld(Tool):
    """Worlds are isolated: own clock, accounts, history. fork copies one; save and restore are snapshots by name."""

    tool: ClassVar[str] = "world"
    destroys: ClassVar[bool] = True
    action: Action
    id: Annotated[str, Meta(description="The world; with create the new one's")] | UnsetType = UNSET
    name: Annotated[str, Meta(description="Snapshot name; with fork the new world's id")] | UnsetType = UNSET
    epoch: Annotated[str, Meta(description="create: first instant, ISO 8601")] | UnsetType = UNSET
    seed: Annotated[int, Meta(description="create")] | UnsetType = UNSET
    chaos: Annotated[float, Meta(ge=0, le=1, description="create: how much goes wrong")] | UnsetType = UNSET

    async def perform(self, connection: Connection) -> str:
        self._check()
        home = await connection.world("default" if self.action == "create" or not self.id else self.id)
        world_id = self.id or "default"
        match self.action:
            case "list":
                worlds = (await home.control("GET", "worlds"))["worlds"]
                lines = [f"{each['id']}  {each['clock']['now']}  {each['clock']['pending']} live" for each in worlds]
                saved = (await home.control("GET", "snapshots"))["snapshots"]
                lines += [f"snapshots of {world_id}: {', '.join(each['name'] for each in saved)}"] if saved else []
                return answer(lines, next=["status(world=ID)"])
            case "create":
                wanted = {"id": self.id, "epoch": self.epoch, "seed": self.seed, "chaos": self.chaos}
                body = {name: value for name, value in wanted.items() if value is not UNSET}
                made = await home.control("POST", "worlds", body)
                return await _opened(connection, made["id"], "created")
            case "fork":
                body = {} if self.name is UNSET else {"id": self.name}
                made = await home.control("POST", f"worlds/{segment(world_id)}/fork", body)
                return await _opened(connection, made["id"], f"forked from {world_id}")
            case "reset":
                await home.control("POST", "reset", {})
                return await _opened(connection, world_id, "reset")
            case "delete":
                await home.control("DELETE", f"worlds/{segment(world_id)}")
                return answer([f"deleted world {world_id}"], next=['world(action="list")'])
            case "save":
                made = await home.control("POST", "snapshots", {"name": self.name})
                return answer(
                    [f"saved {made['name']} of world {world_id} at {made['created']}, {made['pending']} live"],
                    next=[f'world(action="restore", id="{world_id}", name="{made["name"]}")'],
                )
            case "restore":
                await home.control("POST", f"snapshots/{segment(str(self.name))}/restore")
                return await _opened(connection, world_id, f"restored from {self.name}")

    def _check(self) -> None:
        """Raises ToolFailed for an argument that is missing or means nothing."""
        again = f'world(action="{self.action}", ...)'
        if self.action in ("save", "restore") and not self.name:
            raise ToolFailed(
                f"name: missing, {self.action} needs the name of a snapshot", f'{again} with name="before"'
            )
        if self.action == "delete" and not self.id:
            raise ToolFailed("id: missing, expected the world to delete", 'world(action="list")')
        for argument in ("epoch", "seed", "chaos"):
            if getattr(self, argument) is not UNSET and self.action != "create":
                raise ToolFailed(f"{argument}: expected only with create", f"{again} without {argument}")
        if self.name and self.action not in ("save", "restore", "fork"):
            raise ToolFailed("name: expected only with save, restore and fork", f"{again} with id instead")


async def _opened(connection: Connection, world_id: str, done: str) -> str:
    world = await connection.world(world_id)
    env = [f"{name}={value}" for name, value in world.session.env.items()]
    lines = [f"world {world_id} {done}; its clock is at {await world.emulator.clock.now():%Y-%m-%dT%H:%M:%SZ}"]
    return answer([*lines, "variables for the app:", *env], next=[f'publish(to=URL, world="{world_id}")'])


class Publish(Tool):
    """Publish as a client of the service does. options: delay, retries, retry_delay, queue, callback, label, ...
    as keywords of the Python API; headers too."""

    tool: ClassVar[str] = "publish"
    to: Annotated[str, Meta(description="URL or URL group")]
    body: Annotated[Any, Meta(description="Text, or JSON")] = None
    options: Annotated[dict[str, Any], Meta(description='{"delay": "1h", "retries": 2}')] = msgspec.field(
        default_factory=dict
    )
    world: WorldId = "default"

    async def perform(self, connection: Connection) -> str:
        world = await connection.world(self.world)
        content = {"body": self.body} if self.body is None or isinstance(self.body, str) else {"json": self.body}
        published = await world.emulator.publish(self.to, **content, **self.options)
        ids = published.message_ids
        lines = [
            f"published {', '.join(ids)}" + (" (deduplicated: nothing new was made)" if published.deduplicated else "")
        ]
        if not ids:
            return answer(["the URL group has no endpoints: nothing was published"], next=['find("groups")'])
        row = (await world.control("GET", "messages", id=ids[0], limit=1))["messages"][0]
        state = f"{row['state']}, {row['attempts']} of {row['max_attempts']} attempts"
        lines.append(f"{state}{': ' + row['last_result'] if row['last_result'] else ''}")
        if row["next"]:
            lines.append(f"first due {row['next']}")
            return answer(lines, next=['advance(until="next")', f'why("{end_of(ids[0])}")'])
        return answer(lines, next=[f'why("{end_of(ids[0])}")', "verify"])


class Advance(Tool):
    """Move the clock and do all due work: by a duration, or until a condition: an instant, next, idle, dead-letters,
    'message ID', 'run ID', 'deliveries N'."""

    tool: ClassVar[str] = "advance"
    by: Annotated[str, Meta(description="1d2h30m")] | UnsetType = UNSET
    until: Annotated[str, Meta(description="Condition")] | UnsetType = UNSET
    undoable: Annotated[bool, Meta(description="Let undo take it back")] = False
    world: WorldId = "default"

    async def perform(self, connection: Connection) -> str:
        if (self.by is UNSET) == (self.until is UNSET):
            raise ToolFailed("expected exactly one of by and until", 'advance(by="1d") or advance(until="idle")')
        world = await connection.world(self.world)
        before = await world.control("GET", "deliveries", order="latestFirst", limit=1, brief="true")
        last = before["deliveries"][0]["seq"] if before["deliveries"] else 0
        wanted: dict[str, object] = {"by": self.by}
        if self.until is not UNSET:
            kind, _, what = self.until.strip().partition(" ")
            is_message = kind == "message" and bool(what.strip())
            wanted = {"until": f"message {await world.find_message(what.strip())}" if is_message else self.until}
        if self.undoable:
            wanted["undoable"] = True
        report = await world.control("POST", "clock/advance", wanted)
        made = await _attempts_since(world, report["from_ms"], last)
        tried = {each["message_id"] for each in made}
        letters = await world.entries("dead-letters", "dead_letters", _MOST_GROUPED) if tried else []
        dead = [each for each in letters if each["message_id"] in tried]
        return answer(_report(report, made, dead, self.until), next=_after(report, made, dead, undoable=self.undoable))


async def _attempts_since(world: World, from_ms: int, last: int) -> list[Mapping[str, Any]]:
    """The first attempts that began since an instant and come after entry `last` of the journal."""
    # The first part of a cursor is for people.
    after = f"{from_ms}-{last}"
    return await world.entries("deliveries", "deliveries", _MOST_GROUPED, since=from_ms, cursor=after, brief="true")


def _report(
    report: Mapping[str, Any], made: Sequence[Mapping[str, Any]], dead: Sequence[Mapping[str, Any]], until: object
) -> Iterator[str]:
    passed = format_duration(report["to_ms"] - report["from_ms"])
    yield f"{report['from']} -> {report['to']} ({passed})"
    if report.get("reached") is False:
        yield f"NOT REACHED: {until}: {ended_by(report.get('stopped'))}"
    retries = sum(1 for each in made if each["attempt"] > 1)
    yield (
        f"{counted(report['deliveries'], 'delivery')}: {report['succeeded']} succeeded, {report['failed']} failed, "
        f"{counted(retries, 'retry')}; {counted(report['messages_created'], 'message')} made, "
        f"{counted(report['schedules_fired'], 'firing')}, {counted(len(dead), 'dead letter')}"
    )
    failures = [each for each in made if result_of(each)[:1] != "2"]
    for each in failures[:_FEW]:
        reason = f": {each['excerpt']}" if each["excerpt"] else ""
        yield f"failed: {delivery_line(each)}{one_line(reason)}" + (
            f" (again: {each['retry']})" if each["retry"] else ""
        )
    for (url, result), count in Counter((each["url"], result_of(each)) for each in made).most_common():
        yield f"{count} x {url} -> {result}"
    if len(made) < report["deliveries"]:
        yield f"(grouped: the first {len(made)})"
    yield from _held_lines(report)


def _after(
    report: Mapping[str, Any], made: Sequence[Mapping[str, Any]], dead: Sequence[Mapping[str, Any]], *, undoable: bool
) -> list[str]:
    failed = [each for each in made if result_of(each)[:1] != "2"]
    next = [f'why("{end_of(failed[0]["message_id"])}")'] if failed else ["verify"]
    if dead:
        next.append(f'act("retry", ["{dead[0]["dead_letter_id"]}"])')
    next = [*_next_of_held(report), *next]
    if report.get("reached") is False:
        next.append("status")
    return [*next, "undo"] if undoable else next


class Undo(Tool):
    """Take the last undoable advance back, with all that has happened since."""

    tool: ClassVar[str] = "undo"
    destroys: ClassVar[bool] = True
    world: WorldId = "default"

    async def perform(self, connection: Connection) -> str:
        world = await connection.world(self.world)
        before, made = await world.control("GET", "clock"), await _count(world)
        clock = (await world.control("POST", "clock/undo"))["clock"]
        gone = made - await _count(world)
        back = format_duration(before["now_ms"] - clock["now_ms"])
        return answer(
            [f"taken back: {back}, to {clock['now']}, and {counted(gone, 'delivery')}; what was sent stays sent"],
            next=["status", "advance"],
        )


async def _count(world: World) -> int:
    page = await world.control("GET", "deliveries", limit=1, count="true", brief="true")
    return int(page["count"]["attempts"])


def delivery_line(each: Mapping[str, Any]) -> str:
    """An attempt of the brief list as a line, its number first."""
    again = " redelivery" if "redelivery" in each else ""
    return (
        f"{each['seq']} {each['at']} {each['method']} {each['url']} -> {result_of(each)} (attempt {each['attempt']} of "
        f"{each['attempts']}, {each['via']}{again}) {end_of(each['message_id'])}"
    )
